// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace lanemq::metrics {

/// Durations counted in buckets, as a histogram of Families takes them. `bounds`: rising, in seconds; a
/// duration belongs to the first bucket whose bound it does not exceed, and the last bucket has none.
template <const auto& bounds>
struct Durations {
  static constexpr const auto& kBounds = bounds;

  std::array<std::uint64_t, bounds.size() + 1> counts{};
  double sum = 0;

  void add(std::chrono::nanoseconds time) {
    const double seconds = std::chrono::duration<double>(time).count();
    const auto at = std::lower_bound(bounds.begin(), bounds.end(), seconds);
    ++counts[static_cast<std::size_t>(at - bounds.begin())];
    sum += seconds;
  }
};

}  // namespace lanemq::metrics
