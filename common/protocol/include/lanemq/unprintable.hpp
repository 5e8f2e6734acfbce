// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lanemq {

/// The bytes of the character at `at`, where JSON may have it as it stands, and it moves a terminal, turns
/// the direction in which a line is read, ends a line for some readers, or is not seen: DEL, a C1 control
/// (U+0080..U+009F), U+061C, U+200B, U+200E, U+200F, U+2028..U+202E, U+2060..U+206F, U+FEFF, U+FFF9..U+FFFB
/// and the tags U+E0000..U+E007F. 0: it is none.
std::size_t unprintable_bytes(std::string_view text, std::size_t at);

/// The length of the well-formed UTF-8 sequence at `at`; 0: there is none.
std::size_t utf8_length(std::string_view text, std::size_t at);

/// How many bytes at the end may begin a character whose other bytes are still to come: at most 3.
std::size_t unfinished_bytes(std::string_view text);

/// The text with those as `\uNNNN`: JSON remains the same value.
std::string escape_unprintable(std::string_view text);

}  // namespace lanemq
