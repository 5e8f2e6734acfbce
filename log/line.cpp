// SPDX-License-Identifier: Apache-2.0
#include "log/line.hpp"

#include <lanemq/text.hpp>

namespace lanemq::log {

void append_field(std::string& line, std::string_view name, std::string_view value) {
  std::string escaped;
  for (const char c : value) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c;
  }
  // What is made visible has backslashes of its own, which stand for themselves in quotes alone.
  const std::string shown = printable(escaped);
  const bool plain = shown == value && !value.empty() && value.find_first_of(" =") == std::string_view::npos;
  line.append(" ").append(name).append("=");
  if (plain)
    line += shown;
  else
    line.append("\"").append(shown).append("\"");
}

}  // namespace lanemq::log
