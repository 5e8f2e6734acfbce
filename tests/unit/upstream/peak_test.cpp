// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/peak.hpp"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace lanemq::upstream {
namespace {

using namespace std::chrono_literals;

TEST(PeakMeter, agrees_with_counting_from_every_arrival) {
  EXPECT_TRUE(rc::check([] {
    const auto gaps = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 30'000));
    PeakMeter meter;
    std::vector<std::chrono::milliseconds> arrivals;
    std::chrono::milliseconds now(0);

    for (const int gap : gaps) {
      now += std::chrono::milliseconds(gap);
      arrivals.push_back(now);
      meter.add(now, 10);
    }

    std::uint64_t peak = 0;
    for (const auto begin : arrivals) {
      const auto count = std::count_if(arrivals.begin(), arrivals.end(),
                                       [&](auto at) { return at >= begin && at < begin + 60s; });
      peak = std::max<std::uint64_t>(peak, count);
    }
    RC_ASSERT(meter.calls() == peak);
    RC_ASSERT(meter.tokens() == 10 * peak);
  }));
}

TEST(PeakMeter, counts_calls_sixty_seconds_apart_in_two_windows) {
  PeakMeter meter;

  meter.add(0s, 5);
  meter.add(60s, 7);

  EXPECT_EQ(meter.calls(), 1u);
  EXPECT_EQ(meter.tokens(), 7u);
}

}  // namespace
}  // namespace lanemq::upstream
