// SPDX-License-Identifier: Apache-2.0
#include "broker/whatif/window_peak.hpp"

#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace lanemq::whatif {
namespace {

using core::Duration;
using core::TimePoint;

TEST(WindowPeak, calls_a_whole_period_apart_are_in_no_window_together) {
  WindowPeak peak(Duration(100));
  peak.add(TimePoint(Duration(0)), 3);
  peak.add(TimePoint(Duration(99)), 2);
  peak.add(TimePoint(Duration(100)), 1);

  EXPECT_EQ(peak.peak(), 5);
  EXPECT_EQ(peak.total(), 6);
}

TEST(WindowPeak, is_the_largest_sum_of_any_window) {
  const bool holds = rc::check([](const std::vector<std::pair<std::uint8_t, std::uint8_t>>& steps) {
    WindowPeak peak(Duration(50));
    std::vector<std::pair<std::int64_t, std::int64_t>> calls;
    std::int64_t now = 0;
    for (const auto& [pause, amount] : steps) {
      now += pause % 40;
      calls.emplace_back(now, amount);
      peak.add(TimePoint(Duration(now)), amount);
    }

    std::int64_t largest = 0;
    for (const auto& [begin, ignored] : calls) {
      std::int64_t sum = 0;
      for (const auto& [at, amount] : calls)
        if (at >= begin && at < begin + 50) sum += amount;
      largest = std::max(largest, sum);
    }
    RC_ASSERT(peak.peak() == largest);
  });
  EXPECT_TRUE(holds);
}

}  // namespace
}  // namespace lanemq::whatif
