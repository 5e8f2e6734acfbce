// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <lanemq/result.hpp>

#include "broker/io/store/store.hpp"

namespace lanemq::io {

/// The contents of a store's file; each page and checksum was right.
struct StoreSummary {
  struct Rows {
    std::uint64_t count = 0, bytes = 0;
  };
  std::string path;
  bool in_tables = false;  ///< of PostgreSQL, where a database cares for pages
  std::int64_t schema = 0;
  std::uint64_t file_bytes = 0, free_bytes = 0, log_bytes = 0;
  Rows jobs, bodies, results, notes;  ///< bodies: those in a table of their own
};

/// Reads a whole store, and changes nothing. Requires: no broker has a file open; one may go on with tables.
/// An error says what is wrong and what to do; bad_request: there is no such file.
Result<StoreSummary> check_store(const StoreOptions& options);

/// Refuses a store that open_store() would refuse for its place, kind, version or rights. Changes nothing: a
/// broker may have it open. Returns for people what could not be looked at, as where no database is reached;
/// empty: nothing.
Result<std::string> check_store_place(const StoreOptions& options);

/// For people: a table of several lines.
std::string to_text(const StoreSummary& summary);

}  // namespace lanemq::io
