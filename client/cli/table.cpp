// SPDX-License-Identifier: Apache-2.0
#include "client/cli/table.hpp"

#include <algorithm>

namespace lanemq::cli {

std::string aligned_table(const std::vector<TableRow>& rows, bool colour) {
  std::vector<std::size_t> widths;
  for (const TableRow& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (std::size_t i = 0; i < rows[r].size(); ++i) {
      const std::string& cell = rows[r][i];
      const std::size_t space = widths[i] - cell.size();
      if (i > 0) line.append(space + 2, ' ');
      line += cell;
      if (i == 0) line.append(space, ' ');
    }
    text += colour && r == 0 ? "\x1b[1m" + line + "\x1b[0m\n" : line + "\n";
  }
  return text;
}

}  // namespace lanemq::cli
