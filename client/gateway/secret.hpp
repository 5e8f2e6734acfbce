// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lanemq::gateway {

/// 64 hexadecimal digits.
std::string sha256_hex(std::string_view bytes);

/// Whether two texts are the same, in a time that does not depend on where they differ.
bool equal_in_constant_time(std::string_view one, std::string_view other);

}  // namespace lanemq::gateway
