// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <lanemq/result.hpp>

#include "broker/io/store.hpp"

namespace lanemq::io {

/// What a store's file holds, after every page and every checksum of it was found right.
struct StoreSummary {
  struct Rows {
    std::uint64_t count = 0, bytes = 0;
  };
  std::string path;
  std::int64_t schema = 0;
  std::uint64_t file_bytes = 0, free_bytes = 0, log_bytes = 0;
  Rows jobs, bodies, results, notes;  ///< bodies: those in a table of their own
};

/// Reads a store's file from end to end, and changes nothing. No broker may have it open. An error names what
/// is wrong and what to do; of kind bad_request if it is no file at all.
Result<StoreSummary> check_store(const StoreOptions& options);

/// Refuses a store that open_store() would refuse for its place, its kind or its version, and opens nothing:
/// a broker may have it open. Nothing is made or changed.
Result<void> check_store_place(const StoreOptions& options);

/// For people: a table of several lines.
std::string to_text(const StoreSummary& summary);

}  // namespace lanemq::io
