// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lanemq::cli {

using TableRow = std::vector<std::string>;

/// A line for each row, with columns as wide as their widest cell: the first to the left, the others to the
/// right. The first row is the head, which `colour` sets off.
std::string aligned_table(const std::vector<TableRow>& rows, bool colour);

}  // namespace lanemq::cli
