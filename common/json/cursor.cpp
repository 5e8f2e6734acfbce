// SPDX-License-Identifier: Apache-2.0
#include "common/json/cursor.hpp"

#include <algorithm>
#include <cstdint>

namespace lanemq {
namespace {

constexpr std::string_view kValueEnds = ",]} \t\r\n";

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0 | (code >> 6));
  } else if (code < 0x10000) {
    put(0xE0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3F));
  } else {
    put(0xF0 | (code >> 18));
    put(0x80 | ((code >> 12) & 0x3F));
    put(0x80 | ((code >> 6) & 0x3F));
  }
  put(0x80 | (code & 0x3F));
}

std::optional<std::uint32_t> take_hex4(std::string_view& rest) {
  if (rest.size() < 4) return std::nullopt;
  std::uint32_t code = 0;
  for (const char c : rest.substr(0, 4)) {
    const char low = static_cast<char>(c | 0x20);
    if (c >= '0' && c <= '9')
      code = code * 16 + static_cast<std::uint32_t>(c - '0');
    else if (low >= 'a' && low <= 'f')
      code = code * 16 + static_cast<std::uint32_t>(low - 'a' + 10);
    else
      return std::nullopt;
  }
  rest.remove_prefix(4);
  return code;
}

/// The code point behind `\u`, with the second half of a surrogate pair.
std::optional<std::uint32_t> take_code(std::string_view& rest) {
  const auto first = take_hex4(rest);
  if (!first || *first < 0xD800 || *first > 0xDFFF) return first;
  if (*first > 0xDBFF || !rest.starts_with("\\u")) return std::nullopt;
  rest.remove_prefix(2);
  const auto second = take_hex4(rest);
  if (!second || *second < 0xDC00 || *second > 0xDFFF) return std::nullopt;
  return 0x10000 + ((*first - 0xD800) << 10) + (*second - 0xDC00);
}

std::optional<std::string> unescaped(std::string_view rest) {
  static constexpr std::string_view kEscapes = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
  std::string out;
  out.reserve(rest.size());
  while (!rest.empty()) {
    const std::size_t plain = std::min(rest.find('\\'), rest.size());
    out.append(rest.substr(0, plain));
    rest.remove_prefix(plain);
    if (rest.empty()) break;
    if (rest.size() < 2) return std::nullopt;
    const char escape = rest[1];
    rest.remove_prefix(2);
    if (escape == 'u') {
      const auto code = take_code(rest);
      if (!code) return std::nullopt;
      append_utf8(out, *code);
      continue;
    }
    const std::size_t which = kEscapes.find(escape);
    if (which == std::string_view::npos) return std::nullopt;
    out += kMeanings[which];
  }
  return out;
}

}  // namespace

void JsonCursor::skip_space() {
  while (at_ < text_.size() && is_space(text_[at_]))
    ++at_;
}

char JsonCursor::peek() {
  skip_space();
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool JsonCursor::enter(char bracket) {
  if (peek() != bracket) return false;
  ++at_;
  return fresh_ = true;
}

/// Whether another member or element follows; if so it begins here.
bool JsonCursor::next_in(char closing) {
  const bool first = fresh_;
  fresh_ = false;
  const char next = peek();
  if (next == closing) {
    ++at_;
    return false;
  }
  if (first) return next != '\0' || fail();
  if (next != ',') return fail();
  ++at_;
  return true;
}

bool JsonCursor::member(std::string_view& key) {
  if (!next_in('}')) return false;
  if (peek() != '"') return fail();
  const std::size_t begin = at_;
  if (!skip_string()) return false;
  key = text_.substr(begin + 1, at_ - begin - 2);
  if (peek() != ':') return fail();
  ++at_;
  return true;
}

bool JsonCursor::element() {
  return next_in(']');
}

std::string_view JsonCursor::value() {
  fresh_ = false;
  const char first = peek();
  const std::size_t begin = at_;
  if (first == '"') {
    if (!skip_string()) return {};
  } else if (first == '{' || first == '[') {
    if (!skip_nested()) return {};
  } else {
    at_ = std::min(text_.find_first_of(kValueEnds, at_), text_.size());
    if (at_ == begin) return fail(), std::string_view();
  }
  return text_.substr(begin, at_ - begin);
}

/// Requires: the cursor stands at a quote.
bool JsonCursor::skip_string() {
  for (std::size_t quote = at_ + 1;; ++quote) {
    quote = text_.find('"', quote);
    if (quote == std::string_view::npos) return fail();
    std::size_t escapes = 0;
    while (text_[quote - 1 - escapes] == '\\')
      ++escapes;  // ends at the opening quote at the latest
    if (escapes % 2 == 1) continue;
    at_ = quote + 1;
    return true;
  }
}

/// Requires: the cursor stands at a bracket.
bool JsonCursor::skip_nested() {
  std::size_t depth = 0;
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '"') {
      if (!skip_string()) return false;
      continue;
    }
    ++at_;
    if (c == '{' || c == '[')
      ++depth;
    else if ((c == '}' || c == ']') && --depth == 0)
      return true;
  }
  return fail();
}

bool json_says(std::string_view escaped, std::string_view plain) {
  if (escaped.find('\\') == std::string_view::npos) return escaped == plain;
  return unescaped(escaped) == plain;
}

std::optional<std::string> unquoted_json(std::string_view value) {
  if (value.size() < 2 || value.front() != '"') return std::nullopt;
  return unescaped(value.substr(1, value.size() - 2));
}

}  // namespace lanemq
