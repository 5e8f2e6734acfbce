// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/postgres/database/postgres_place.hpp"

#include <cstddef>

namespace lanemq::io {
namespace {

/// PostgreSQL cuts a longer name without an error (NAMEDATALEN), so that two stores would be one.
constexpr std::size_t kSchemaBytesMax = 63;
/// Bound on an instance's name: statistics and probes report it.
constexpr std::size_t kInstanceBytesMax = 128;

/// The part for libpq: after our prefix, or the whole where it is a URI that begins with that word.
std::string conninfo_of(const std::string& specification) {
  if (specification.starts_with("postgres://")) return specification;
  return specification.substr(specification.find(':') + 1);
}

}  // namespace

Result<PostgresPlace> postgres_place_of(const StoreOptions& options) {
  const std::string conninfo = conninfo_of(options.specification);
  if (const auto problem = postgres::problem_of(conninfo))
    return failure(ErrorCode::bad_request, "the store postgres:... is not understood: " + *problem);
  if (options.schema.empty() || options.schema.size() > kSchemaBytesMax)
    return failure(ErrorCode::bad_request, "store_schema has " + std::to_string(options.schema.size()) +
                                               " bytes, and a name in PostgreSQL has 1 to " +
                                               std::to_string(kSchemaBytesMax) +
                                               "; write a shorter one, as lanemq");
  if (options.schema.starts_with("pg_") || options.schema == "$user")
    return failure(ErrorCode::bad_request, "store_schema \"" + options.schema +
                                               "\" is a name that PostgreSQL keeps for itself, as all that "
                                               "begin with pg_; write another one, as lanemq");
  if (options.instance.size() > kInstanceBytesMax)
    return failure(ErrorCode::bad_request, "instance has " + std::to_string(options.instance.size()) +
                                               " bytes, and may have " + std::to_string(kInstanceBytesMax) +
                                               "; write a shorter name, as broker-1");
  return PostgresPlace{
      .target = {.conninfo = conninfo, .search_path = options.schema},
      .text = "postgres:" + postgres::shown(conninfo) + " (schema " + options.schema + ")",
  };
}

}  // namespace lanemq::io
