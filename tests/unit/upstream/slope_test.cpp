// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/slope.hpp"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/upstream/arrivals.hpp"

namespace lanemq::upstream {
namespace {

using namespace std::chrono_literals;

// All that fit at this moment.
int taken(Slope& slope, TimePoint now) {
  int count = 0;
  for (; slope.fits(now); ++count)
    slope.take(now);
  return count;
}

TEST(Slope, lets_a_pace_grow_by_its_factor_a_second) {
  Slope slope(1.5, 10);

  EXPECT_EQ(taken(slope, kStart), 10);
  EXPECT_EQ(taken(slope, kStart + 1s), 15);
  EXPECT_EQ(taken(slope, kStart + 2s), 22);
  EXPECT_EQ(taken(slope, kStart + 3s), 33);
}

TEST(Slope, forgets_a_pace_after_two_seconds) {
  Slope slope(2, 10);
  ASSERT_EQ(taken(slope, kStart), 10);
  ASSERT_EQ(taken(slope, kStart + 1s), 20);

  EXPECT_EQ(taken(slope, kStart + 3s - 1ns), 40);
  EXPECT_EQ(taken(slope, kStart + 10s), 10);
}

TEST(Slope, holds_in_every_second_when_offered_without_end) {
  Slope slope(1.2, 5);
  std::vector<TimePoint> calls;

  for (TimePoint now = kStart; now < kStart + 12s; now += 3ms) {
    if (!slope.fits(now)) continue;
    slope.take(now);
    calls.push_back(now);
  }

  for (const TimePoint now : calls) {
    double last = 0;
    double before = 0;
    for (const TimePoint call : calls) {
      last += call > now - 1s && call <= now;
      before += call > now - 2s && call <= now - 1s;
    }
    ASSERT_LE(last, std::max(5.0, 1.2 * before));
  }
  EXPECT_GT(calls.size(), 100u);
}

}  // namespace
}  // namespace lanemq::upstream
