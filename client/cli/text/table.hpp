// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "client/cli/text/terminal.hpp"

namespace lanemq::cli {

using TableRow = std::vector<std::string>;

/// A line per row; columns are as wide as their widest cell, the first one left-aligned, the others
/// right-aligned. The first row is the head, which `colour` highlights. Where lines would be longer than
/// `columns`, the widest texts are cut and end with "..."; never in the first column, which people copy.
/// Numbers are not cut: a line of many numbers is longer.
std::string aligned_table(const std::vector<TableRow>& rows, bool colour,
                          std::size_t columns = output_columns());

/// The start of a line that fits so many columns.
std::string cropped(const std::string& line, std::size_t columns);

}  // namespace lanemq::cli
