// SPDX-License-Identifier: Apache-2.0
#include "common/settings/help/help_text.hpp"

#include <algorithm>

namespace lanemq::settings {
namespace {

/// How far what goes on of a flag stands to the right of it.
constexpr std::size_t kFlagHangs = 4;

/// Where what goes on of a line begins.
std::size_t hang_of(std::string_view line, std::size_t columns) {
  const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t gap = line.find("  ", begin);
  const std::size_t second = gap == std::string_view::npos ? gap : line.find_first_not_of(' ', gap);
  if (second != std::string_view::npos && second <= columns / 2) return second;
  return begin > 0 && line.substr(begin).starts_with('-') ? begin + kFlagHangs : begin;
}

void add_wrapped(std::string& text, std::string_view line, std::size_t columns) {
  const std::size_t hang = hang_of(line, columns);
  std::size_t indent = 0;
  while (line.size() + indent > columns) {
    // The last space at which the line fits; without one the first space behind the word that is too long.
    const std::size_t from = indent > 0 ? 0 : std::min(hang, line.size());
    std::size_t cut = line.rfind(' ', columns - indent);
    if (cut == std::string_view::npos || cut <= from) cut = line.find(' ', from + 1);
    if (cut == std::string_view::npos) break;
    text.append(indent, ' ').append(line.substr(0, line.find_last_not_of(' ', cut) + 1)).append("\n");
    line.remove_prefix(std::min(line.find_first_not_of(' ', cut), line.size()));
    indent = hang;
  }
  text.append(indent, ' ').append(line).append("\n");
}

}  // namespace

std::string wrapped(std::string_view text, std::size_t columns) {
  std::string all;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    add_wrapped(all, text.substr(0, end), columns);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return all;
}

std::string in_sentences(std::string_view text) {
  std::string all;
  std::string_view before;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const auto stands_alone = [](std::string_view one) {
      return one.empty() || one.front() == ' ' || one.find("  ") != std::string_view::npos;
    };
    const bool sentence_ends = before.ends_with('.') || before.ends_with(':');
    const bool goes_on = !sentence_ends && !stands_alone(before) && !stands_alone(line);
    if (!all.empty()) all += goes_on ? ' ' : '\n';
    all += line;
    before = line;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return all;
}

}  // namespace lanemq::settings
