// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lanemq::gateway {

/// 64 hexadecimal digits.
std::string sha256_hex(std::string_view bytes);

}  // namespace lanemq::gateway
