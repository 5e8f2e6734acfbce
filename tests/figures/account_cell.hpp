// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/figures/account.hpp"

namespace lanemq::figures {

/// An account that is limited in some way, told of in some way and used by others in some way; and what a
/// broker does with it that knows its limit, or not.
struct Cell {
  Account::Rules rules{};
  bool bulk = true;         ///< forty calls at once; else one each two seconds
  bool configured = true;   ///< the broker has a budget with the limit
  TimePoint from{}, end{};  ///< of what is measured

  /// Cells are drawn in turn, so that so many seeds have each of them once.
  static constexpr std::uint64_t kKinds = 5 * 3 * 4 * 2 * 2 * 2;
  static Cell draw(std::uint64_t seed);
  /// As `bucket/all/half/bulk/requests/configured`.
  std::string kind() const;
  /// With its numbers.
  std::string describe() const;
};

/// What came of a cell.
struct CellFigures {
  std::int64_t granted = 0, refused = 0;  ///< calls
  double amount = 0;                      ///< calls or tokens that were granted
  double left = 0;                        ///< of them: what others left
  std::vector<Duration> waits;            ///< of single calls, those too that are not over
  Witness witness;

  /// Of what others left, or, where they take what they can, of what the witness got.
  double share(const Cell& cell) const;
  double refused_share() const {
    return static_cast<double>(refused) / static_cast<double>(std::max<std::int64_t>(granted, 1));
  }
};
CellFigures measure(const Cell& cell);

}  // namespace lanemq::figures
