// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lanemq::cli {

using TableRow = std::vector<std::string>;

/// A line per row; columns are as wide as their widest cell, the first one left-aligned, the others
/// right-aligned. The first row is the head, which `colour` highlights.
std::string aligned_table(const std::vector<TableRow>& rows, bool colour);

}  // namespace lanemq::cli
