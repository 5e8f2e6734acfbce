// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store.hpp"

#include <string_view>

#include "broker/io/memory_store.hpp"
#include "broker/io/sqlite_store.hpp"

namespace lanemq::io {

std::optional<std::string> path_of_store(const StoreOptions& options) {
  constexpr std::string_view kSqlite = "sqlite:";
  if (!options.specification.starts_with(kSqlite) || options.specification.size() == kSqlite.size())
    return std::nullopt;
  return options.specification.substr(kSqlite.size());
}

Result<std::unique_ptr<Store>> open_store(const StoreOptions& options) {
  if (options.specification == "memory") return std::make_unique<MemoryStore>();
  if (const auto path = path_of_store(options)) return SqliteStore::open(*path, options);
  return failure(ErrorCode::bad_request,
                 "store \"" + options.specification +
                     "\" is not known; write sqlite:PATH, or memory (jobs end with the broker)");
}

}  // namespace lanemq::io
