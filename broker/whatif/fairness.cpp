// SPDX-License-Identifier: Apache-2.0
#include "broker/whatif/fairness.hpp"

#include <algorithm>
#include <numeric>

namespace lanemq::whatif {

std::vector<double> max_min_shares(std::span<const double> demands, double total) {
  std::vector<std::size_t> by_demand(demands.size());
  std::iota(by_demand.begin(), by_demand.end(), std::size_t{0});
  std::stable_sort(by_demand.begin(), by_demand.end(),
                   [&](std::size_t a, std::size_t b) { return demands[a] < demands[b]; });
  std::vector<double> shares(demands.size());
  double left = total;
  for (std::size_t i = 0; i < by_demand.size(); ++i) {
    const double even = left / static_cast<double>(by_demand.size() - i);
    double& share = shares[by_demand[i]];
    share = std::min(demands[by_demand[i]], even);
    left -= share;
  }
  return shares;
}

double jain_index(std::span<const double> values) {
  double sum = 0, squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  return squares > 0 ? sum * sum / (static_cast<double>(values.size()) * squares) : 1;
}

}  // namespace lanemq::whatif
