// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store.hpp"

namespace lanemq::io {

Result<std::unique_ptr<Store>> open_store(const std::string& specification) {
  if (specification == "memory") return std::make_unique<MemoryStore>();
  return failure(
      ErrorCode::bad_request,
      "store \"" + specification + "\" is not known; this version has memory (jobs end with the broker)");
}

}  // namespace lanemq::io
