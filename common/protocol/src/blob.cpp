// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include <lanemq/blob.hpp>

namespace lanemq {

Blob Blob::copy(std::string_view bytes) {
  if (bytes.empty()) return {};
  auto buffer = std::make_shared_for_overwrite<char[]>(bytes.size());
  std::memcpy(buffer.get(), bytes.data(), bytes.size());
  const std::string_view view(buffer.get(), bytes.size());
  return own(std::shared_ptr<const void>(buffer, buffer.get()), view);
}

}  // namespace lanemq
