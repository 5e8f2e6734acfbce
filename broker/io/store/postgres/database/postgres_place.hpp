// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include <lanemq/result.hpp>

#include "broker/io/base/options.hpp"
#include "common/postgres/connection.hpp"

namespace lanemq::io {

/// Where a store in PostgreSQL is.
struct PostgresPlace {
  postgres::Target target;
  std::string text;  ///< for people, without secrets
};

/// Where the options say that the store is. An error (bad_request): libpq does not take what they say.
Result<PostgresPlace> postgres_place_of(const StoreOptions& options);

/// The name of its session by which a broker that waits for the store is seen by the owner, without a right
/// of its own to ask; as the server keeps it: ASCII, and at most 63 bytes. Schemas with names alike may share
/// one.
inline std::string name_of_waiting(const PostgresPlace& place) {
  std::string name = "lanemq-broker waits: " + place.target.search_path.substr(0, 42);
  for (char& c : name)
    if (c < ' ' || c > '~') c = '_';
  return name;
}

/// The text for people about a store that commits nothing any more.
inline std::string failed_text(const std::string& why, const std::string& what_to_do) {
  return why + "; nothing is committed any more: " + what_to_do;
}

/// Time limit of a short statement; after that its connection is given up.
inline constexpr std::chrono::seconds kStatementMax{10};
/// The pause before something is tried again.
inline constexpr std::chrono::milliseconds kRetryPause{50};

}  // namespace lanemq::io
