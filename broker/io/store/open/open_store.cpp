// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/open/open_store.hpp"

#include <filesystem>
#include <string_view>
#include <system_error>

#include "broker/io/store/memory_store.hpp"
#include "broker/io/store/sqlite/sqlite_store.hpp"
#ifdef LANEMQ_HAS_POSTGRES
#include "broker/io/store/postgres/postgres_store.hpp"
#endif

namespace lanemq::io {
namespace {

constexpr std::string_view kPostgres = "postgres:";

Result<std::unique_ptr<Store>> open_postgres([[maybe_unused]] const StoreOptions& options) {
#ifdef LANEMQ_HAS_POSTGRES
  return PostgresStore::open(options);
#else
  return failure(
      ErrorCode::bad_request,
      "this broker was built without PostgreSQL (LANEMQ_POSTGRES); name another store, as sqlite:PATH");
#endif
}

}  // namespace

void ignore_environment_of_store([[maybe_unused]] const StoreOptions& options) {
#ifdef LANEMQ_HAS_POSTGRES
  if (has_owners(options)) postgres::ignore_environment();
#endif
}

std::optional<std::string> path_of_store(const StoreOptions& options) {
  constexpr std::string_view kSqlite = "sqlite:";
  if (!options.specification.starts_with(kSqlite) || options.specification.size() == kSqlite.size())
    return std::nullopt;
  const std::string path = options.specification.substr(kSqlite.size());
  if (!options.vfs.empty()) return path;
  std::error_code why;
  const auto real = std::filesystem::weakly_canonical(path, why);
  return why ? path : real.string();
}

bool has_owners(const StoreOptions& options) {
  return options.specification.starts_with(kPostgres);
}

Result<std::unique_ptr<Store>> open_store(const StoreOptions& options) {
  if (options.specification == "memory") return std::make_unique<MemoryStore>();
  if (const auto path = path_of_store(options)) return SqliteStore::open(*path, options);
  if (has_owners(options)) return open_postgres(options);
  return failure(ErrorCode::bad_request,
                 "store \"" + options.specification +
                     "\" is not known; write sqlite:PATH, postgres:CONNINFO, or memory "
                     "(jobs end with the broker)");
}

}  // namespace lanemq::io
