// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include <xxhash.h>

namespace lanemq::core {

/// A hash that tells names apart where the names are not kept. Two names with one mark are taken for the same
/// name; nothing worse follows. kNoMark is the mark of no name.
inline constexpr std::uint64_t kNoMark = 0;
inline std::uint64_t mark_of(std::string_view name) {
  return name.empty() ? kNoMark : XXH3_64bits(name.data(), name.size());
}

}  // namespace lanemq::core
