// SPDX-License-Identifier: Apache-2.0
#include "client/cli/text/table.hpp"

#include <algorithm>
#include <numeric>

namespace lanemq::cli {
namespace {

constexpr std::size_t kGap = 2;
/// Texts up to this length are not cut: numbers, and words such as tokens_per_minute, upstream_rejected.
constexpr std::size_t kNeverCut = 20;
/// Least length of a cut sentence, which is in the last column.
constexpr std::size_t kSentenceMin = 10;
constexpr std::string_view kCutMark = "...";

bool begins_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
}

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

std::vector<std::size_t> widths_of(const std::vector<TableRow>& rows) {
  std::vector<std::size_t> widths;
  for (const TableRow& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], width_of(row[i]));
  }
  return widths;
}

/// Makes the widest columns less wide, one character after the other, until a line is no longer than that.
void fit(std::vector<std::size_t>& widths, std::size_t columns) {
  if (widths.size() < 2) return;
  const bool ends_with_sentences = widths.back() > kNeverCut;
  std::size_t line = std::accumulate(widths.begin(), widths.end(), kGap * (widths.size() - 1));
  for (; line > columns; --line) {
    std::size_t& widest = *std::max_element(widths.begin() + 1, widths.end());
    if (widest > kNeverCut)
      --widest;
    else if (ends_with_sentences && widths.back() > kSentenceMin)
      --widths.back();
    else
      return;
  }
}

}  // namespace

std::string cropped(const std::string& line, std::size_t columns) {
  std::size_t shown_columns = 0, at = 0;
  for (; at < line.size(); ++at)
    if (begins_character(line[at]) && shown_columns++ == columns) break;
  return line.substr(0, at);
}

std::string aligned_table(const std::vector<TableRow>& rows, bool colour, std::size_t columns) {
  std::vector<std::size_t> widths = widths_of(rows);
  fit(widths, columns);
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (std::size_t i = 0; i < rows[r].size(); ++i) {
      std::string cell = rows[r][i];
      if (width_of(cell) > widths[i]) cell = cropped(cell, widths[i] - kCutMark.size()).append(kCutMark);
      const std::size_t space = widths[i] - width_of(cell);
      if (i > 0) line.append(space + kGap, ' ');
      line += cell;
      if (i == 0) line.append(space, ' ');
    }
    text += colour && r == 0 ? "\x1b[1m" + line + "\x1b[0m\n" : line + "\n";
  }
  return text;
}

}  // namespace lanemq::cli
