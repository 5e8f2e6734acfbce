// SPDX-License-Identifier: Apache-2.0
#include "common/log/line.hpp"

#include <utility>

#include <lanemq/text.hpp>
#include <lanemq/unprintable.hpp>

#include "common/json/members.hpp"

namespace lanemq::log {

void append_field(std::string& line, std::string_view name, std::string_view value) {
  std::string escaped;
  for (const char c : value) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c;
  }
  // printable() adds backslashes. They stand for themselves only inside quotes, so the text is quoted.
  const std::string shown = printable(escaped);
  const bool plain = shown == value && !value.empty() && value.find_first_of(" =") == std::string_view::npos;
  line.append(" ").append(name).append("=");
  if (plain)
    line += shown;
  else
    line.append("\"").append(shown).append("\"");
}

Line::Line(Format format, std::string_view event)
    : format_(format),
      text_(format == Format::json ? "{\"event\":" + json_text(event) : std::string(event)) {}

Line& Line::field(std::string_view name, std::string_view value) {
  if (format_ == Format::json) return written(name, escape_unprintable(json_text(value)));
  append_field(text_, name, value);
  return *this;
}

Line& Line::written(std::string_view name, std::string_view value) {
  const bool as_json = format_ == Format::json;
  text_.append(as_json ? ",\"" : " ").append(name).append(as_json ? "\":" : "=").append(value);
  return *this;
}

std::string Line::take() {
  if (format_ == Format::json) text_ += '}';
  return std::exchange(text_, {});
}

}  // namespace lanemq::log
