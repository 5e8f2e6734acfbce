// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include <xxhash.h>

namespace lanemq::core {

/// What tells names apart where they are not kept: two may share one, which costs no more than that they are
/// taken for each other. That of no name is kNoMark.
inline constexpr std::uint64_t kNoMark = 0;
inline std::uint64_t mark_of(std::string_view name) {
  return name.empty() ? kNoMark : XXH3_64bits(name.data(), name.size());
}

}  // namespace lanemq::core
