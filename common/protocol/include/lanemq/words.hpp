// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string_view>

/// Words of ASCII, as headers and forms have them; other bytes are left as they are. For every room: needs
/// nothing of the protocol.
namespace lanemq {

/// In lower case.
constexpr char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

/// Whether both are the same, in any case.
constexpr bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

/// Whether `text` begins with `word`, in any case.
constexpr bool begins_with_word(std::string_view text, std::string_view word) {
  return same_word(text.substr(0, word.size()), word);
}

/// What stands around a value in a line (RFC 9110, 5.6.3), and with the ends of lines.
inline constexpr std::string_view kSpaces = " \t", kSpacesAndLineEnds = " \t\r\n";

/// Without the `spaces` around it.
constexpr std::string_view trimmed(std::string_view text, std::string_view spaces = kSpaces) {
  const std::size_t begin = text.find_first_not_of(spaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(spaces) - begin + 1);
}

}  // namespace lanemq
