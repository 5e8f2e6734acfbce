// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/figures/account_cell.hpp"

namespace lanemq::figures {

/// What many cells came to, by their kinds without the resource, each beside its bounds.
class AccountFigures {
 public:
  void note(std::uint64_t seed, const Cell& cell, const CellFigures& figures);
  /// Prints those that are out of their bounds, or all, and what they came to together. True if none is out.
  bool print(bool all) const;

 private:
  struct Row {
    Cell cell;  ///< one of them
    std::vector<double> shares, longer, refused;
    std::uint64_t worst_seed = 0;
    double worst = 0;
  };
  std::map<std::string, Row> rows_;
};

/// Runs the cells of the seeds. True if all kinds are within their bounds.
bool run_accounts(std::uint64_t first, std::uint64_t last, bool print_all);

}  // namespace lanemq::figures
