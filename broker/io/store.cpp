// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store.hpp"

#include <filesystem>
#include <string_view>
#include <system_error>

#include "broker/io/memory_store.hpp"
#include "broker/io/sqlite_store.hpp"

namespace lanemq::io {

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

Result<std::unique_ptr<Store>> open_store(const StoreOptions& options) {
  if (options.specification == "memory") return std::make_unique<MemoryStore>();
  if (const auto path = path_of_store(options)) return SqliteStore::open(*path, options);
  return failure(ErrorCode::bad_request,
                 "store \"" + options.specification +
                     "\" is not known; write sqlite:PATH, or memory (jobs end with the broker)");
}

}  // namespace lanemq::io
