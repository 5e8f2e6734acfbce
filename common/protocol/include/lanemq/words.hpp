// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string_view>

/// ASCII words of headers and forms; other bytes stay as they are. Usable in every room: needs nothing of the
/// protocol.
namespace lanemq {

/// The letter in lower case.
constexpr char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

/// Whether both are equal, ignoring case.
constexpr bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

/// Whether `text` begins with `word`, ignoring case.
constexpr bool begins_with_word(std::string_view text, std::string_view word) {
  return same_word(text.substr(0, word.size()), word);
}

/// White space around values in a line (RFC 9110, 5.6.3); and the same with line ends.
inline constexpr std::string_view kSpaces = " \t", kSpacesAndLineEnds = " \t\r\n";

/// The text without `spaces` at both ends.
constexpr std::string_view trimmed(std::string_view text, std::string_view spaces = kSpaces) {
  const std::size_t begin = text.find_first_not_of(spaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(spaces) - begin + 1);
}

}  // namespace lanemq
