// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace lanemq {

/// 16 hexadecimal digits, with leading zeros.
inline std::string hex(std::uint64_t value) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out(16, '0');
  for (std::size_t i = out.size(); i-- > 0; value >>= 4)
    out[i] = kDigits[value & 15];
  return out;
}

}  // namespace lanemq
