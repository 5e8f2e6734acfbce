// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store.hpp"

#include "broker/io/memory_store.hpp"

namespace lanemq::io {

Result<std::unique_ptr<Store>> open_store(const StoreOptions& options) {
  if (options.specification == "memory") return std::make_unique<MemoryStore>();
  return failure(ErrorCode::bad_request,
                 "store \"" + options.specification +
                     "\" is not known; this version has memory (jobs end with the broker)");
}

}  // namespace lanemq::io
