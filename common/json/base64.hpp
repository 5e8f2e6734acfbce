// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lanemq {

/// Bytes in base64 (RFC 4648, chapter 4), with padding.
std::string to_base64(std::string_view bytes);
/// The bytes; none where the text is not base64 with padding and nothing else.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace lanemq
