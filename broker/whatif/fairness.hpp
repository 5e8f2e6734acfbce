// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

namespace lanemq::whatif {

/// Splits `total` by max-min fairness: no share is above its demand, and what that leaves is split evenly
/// among the others (Bertsekas & Gallager, Data Networks, 6.5.2). Requires: no negative demand.
std::vector<double> max_min_shares(std::span<const double> demands, double total);

/// Jain's index of evenness: 1 when all values are equal, 1/n when one has everything (Jain, Chiu & Hawe,
/// 1984). 1 for no values, and for zeros alone.
double jain_index(std::span<const double> values);

}  // namespace lanemq::whatif
