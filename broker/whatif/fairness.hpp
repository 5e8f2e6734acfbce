// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

namespace lanemq::whatif {

/// What each would get of `total` under max-min fairness: nobody more than it asked for, and what that leaves
/// is shared evenly by the rest (Bertsekas & Gallager, Data Networks, 6.5.2). Requires: no demand below 0.
std::vector<double> max_min_shares(std::span<const double> demands, double total);

/// Jain's index of how even values are: 1 when all are the same, 1/n when one has everything (Jain, Chiu &
/// Hawe, 1984). 1 for no values, and for zeros alone.
double jain_index(std::span<const double> values);

}  // namespace lanemq::whatif
