// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/sliding_window.hpp"

#include <cstdint>
#include <iterator>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "tests/unit/upstream/arrivals.hpp"

namespace lanemq::upstream {
namespace {

using namespace std::chrono_literals;

TEST(SlidingWindow, agrees_with_brute_force_over_random_arrivals) {
  EXPECT_TRUE(rc::check([] {
    const auto limit = *rc::gen::inRange<std::uint64_t>(1, 12);
    const Duration period =
        *rc::gen::elementOf(std::vector<Duration>(std::begin(kPeriods), std::end(kPeriods)));
    SlidingWindow window(limit, period);
    std::vector<Arrival> accepted;

    for (const auto& [now, amount] : draw_arrivals(limit, period)) {
      std::uint64_t used = 0;
      for (const Arrival& earlier : accepted)
        used += now - earlier.at < period ? earlier.amount : 0;
      RC_ASSERT(window.remaining(now) == limit - used);
      if (used + amount > limit) {
        expect_exact_wait(window, amount, now);
        continue;
      }
      RC_ASSERT(*window.wait(amount, now) == Duration::zero());
      window.take(amount, now);
      RC_ASSERT(window.reset(now) == period);
      accepted.push_back({now, amount});
    }
  }));
}

TEST(SlidingWindow, holds_the_limit_in_every_window_when_offered_without_end) {
  SlidingWindow window(600);
  std::vector<TimePoint> accepted;

  for (TimePoint now = kStart; now < kStart + 5min; now += 7ms) {
    if (*window.wait(1, now) > Duration::zero()) continue;
    window.take(1, now);
    accepted.push_back(now);
  }

  for (std::size_t first = 0; first + 600 < accepted.size(); ++first) {
    ASSERT_GE(accepted[first + 600] - accepted[first], 60s);
  }
  EXPECT_EQ(accepted.size(), 3000u);
}

TEST(SlidingWindow, frees_a_place_exactly_sixty_seconds_after_it_was_taken) {
  SlidingWindow window(1);
  window.take(1, kStart);

  EXPECT_EQ(window.wait(1, kStart + 60s - 1ns), 1ns);
  EXPECT_EQ(window.wait(1, kStart + 60s), Duration::zero());
}

TEST(SlidingWindow, never_takes_more_than_its_limit_at_once) {
  SlidingWindow window(5);

  EXPECT_EQ(window.wait(6, kStart), std::nullopt);
  EXPECT_EQ(window.ceiling(), 5u);
}

TEST(SlidingWindow, of_a_second_frees_a_place_exactly_a_second_after_it_was_taken) {
  SlidingWindow window(2, 1s);
  window.take(1, kStart);
  window.take(1, kStart + 400ms);

  EXPECT_EQ(window.wait(1, kStart + 1s - 1ns), 1ns);
  EXPECT_EQ(window.wait(1, kStart + 1s), Duration::zero());
  EXPECT_EQ(window.reset(kStart + 1s), 400ms);
}

TEST(SlidingWindow, whose_limit_falls_keeps_what_was_taken) {
  SlidingWindow window(4, 10s);
  for (int call = 0; call < 4; ++call)
    window.take(1, kStart + call * 1s);

  window.set({.limit = 2}, kStart + 4s);

  EXPECT_EQ(window.remaining(kStart + 4s), 0u);
  EXPECT_EQ(window.wait(1, kStart + 4s), 8s) << "the third of the four has to leave, too";
  EXPECT_EQ(window.wait(1, kStart + 12s), Duration::zero());
  window.set({.limit = 5}, kStart + 12s);
  EXPECT_EQ(window.remaining(kStart + 12s), 4u);
}

}  // namespace
}  // namespace lanemq::upstream
