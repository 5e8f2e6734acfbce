// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "client/gateway/settings.hpp"

namespace lanemq::gateway {

/// The secret that stands at `env:VARIABLE`, `file:PATH` or `credential:NAME` (a file in
/// $CREDENTIALS_DIRECTORY), without its last line end. Throws UsageError, which names the place and never a
/// value.
std::string read_secret(const std::string& source, const Environment& environment);

/// 64 hexadecimal digits.
std::string sha256_hex(std::string_view bytes);

/// Whether two texts are the same, in a time that does not depend on where they differ.
bool equal_in_constant_time(std::string_view one, std::string_view other);

}  // namespace lanemq::gateway
