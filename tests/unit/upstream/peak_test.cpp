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

TEST(PeakMeter, counts_by_its_period) {
  PeakMeter meter(1s);
  for (const auto at : {0ms, 900ms, 1000ms, 1899ms, 1900ms})
    meter.add(at, 1);

  EXPECT_EQ(meter.calls(), 3u);
  EXPECT_EQ(peak_name("calls", 1s), "peak_calls_1s");
  EXPECT_EQ(peak_name("tokens", 500ms), "peak_tokens_0.5s");
}

TEST(PeakMeter, counts_windows_that_begin_with_a_call) {
  PeakMeter meter(10s, PeakMeter::Spans::fixed);
  for (const auto at : {0s, 9s, 10s, 11s, 19s, 25s})
    meter.add(at, 1);

  EXPECT_EQ(meter.calls(), 3u) << "those of 10, 11 and 19 s; wherever they begin it would be four";
}

TEST(PeakMeter, counts_whole_periods_of_the_clock) {
  PeakMeter meter(60s, PeakMeter::Spans::clock, 100s);  // Periods end at 20 and at 80 s of the meter.
  for (const auto at : {0s, 19s, 20s, 30s, 79s, 80s})
    meter.add(at, 1);

  EXPECT_EQ(meter.calls(), 3u);
}

}  // namespace
}  // namespace lanemq::upstream
