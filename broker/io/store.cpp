// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store.hpp"

#include <string_view>

#include "broker/io/memory_store.hpp"
#include "broker/io/sqlite_store.hpp"

namespace lanemq::io {

Result<std::unique_ptr<Store>> open_store(const StoreOptions& options) {
  constexpr std::string_view kSqlite = "sqlite:";
  if (options.specification == "memory") return std::make_unique<MemoryStore>();
  if (options.specification.starts_with(kSqlite) && options.specification.size() > kSqlite.size())
    return SqliteStore::open(options.specification.substr(kSqlite.size()), options);
  return failure(ErrorCode::bad_request,
                 "store \"" + options.specification +
                     "\" is not known; write sqlite:PATH, or memory (jobs end with the broker)");
}

}  // namespace lanemq::io
