// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lanemq::http {

/// The SHA-256 hash as 64 hexadecimal digits.
std::string sha256_hex(std::string_view bytes);

/// A secret for a caller's key: 192 random bits behind `lanemq-`. Throws std::runtime_error where the system
/// has none.
std::string fresh_secret();

}  // namespace lanemq::http
