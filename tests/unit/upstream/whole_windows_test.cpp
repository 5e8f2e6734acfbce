// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/whole_windows.hpp"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "tests/unit/upstream/arrivals.hpp"

namespace lanemq::upstream {
namespace {

using namespace std::chrono_literals;

TEST(FixedWindow, begins_with_the_first_call_behind_the_end_of_the_last) {
  FixedWindow window(2, 10s);
  window.take(1, kStart + 3s);
  window.take(1, kStart + 12s);

  EXPECT_EQ(window.wait(1, kStart + 12s), 1s);
  EXPECT_EQ(window.reset(kStart + 12s), 1s);
  EXPECT_EQ(window.remaining(kStart + 13s), 2u);
  EXPECT_EQ(window.reset(kStart + 13s), Duration::zero());
  window.take(1, kStart + 20s);
  EXPECT_EQ(window.reset(kStart + 20s), 10s);
}

TEST(FixedWindow, passes_twice_its_limit_around_an_end) {
  FixedWindow window(2, 10s);
  window.take(1, kStart);
  window.take(1, kStart + 9s);

  EXPECT_EQ(window.remaining(kStart + 10s), 2u);
}

TEST(FixedWindow, never_takes_more_than_its_limit_at_once) {
  EXPECT_EQ(FixedWindow(5).wait(6, kStart), std::nullopt);
}

TEST(FixedWindow, whose_limit_falls_keeps_what_was_taken) {
  FixedWindow window(4, 10s);
  window.take(3, kStart);

  window.set({.limit = 2}, kStart + 1s);

  EXPECT_EQ(window.remaining(kStart + 1s), 0u);
  EXPECT_EQ(window.wait(1, kStart + 1s), 9s);
  EXPECT_EQ(window.remaining(kStart + 10s), 2u);
}

TEST(ClockWindow, ends_with_the_period_of_the_clock) {
  ClockWindow window(2, 1s, kStart + 300ms);
  window.take(2, kStart + 1s + 200ms);

  EXPECT_EQ(window.wait(1, kStart + 1s + 299ms), 1ms);
  EXPECT_EQ(window.wait(1, kStart + 1s + 300ms), Duration::zero());
  window.take(1, kStart + 5s);
  EXPECT_EQ(window.reset(kStart + 5s), 300ms);
}

TEST(ClockWindow, knows_its_edge_from_either_side) {
  ClockWindow window(1, 10s, kStart + 1h);
  window.take(1, kStart + 9s);

  EXPECT_EQ(window.reset(kStart + 9s), 1s);
}

TEST(WholeWindows, agree_with_brute_force_over_random_arrivals) {
  EXPECT_TRUE(rc::check([] {
    const auto limit = *rc::gen::inRange<std::uint64_t>(1, 12);
    FixedWindow fixed(limit, 10s);
    ClockWindow clock(limit, 10s, kStart);
    std::vector<Arrival> accepted;
    TimePoint began = kStart - 1h;
    std::vector<Arrival> in_clock;

    for (const auto& [now, amount] : draw_arrivals(limit, 10s)) {
      std::uint64_t used = 0;
      for (const Arrival& earlier : accepted)
        used += earlier.at >= began && now < began + 10s ? earlier.amount : 0;
      if (used + amount > limit) {
        expect_exact_wait(fixed, amount, now);
      } else {
        RC_ASSERT(*fixed.wait(amount, now) == Duration::zero());
        fixed.take(amount, now);
        if (now >= began + 10s) began = now;
        accepted.push_back({now, amount});
      }

      std::uint64_t of_clock = 0;
      for (const Arrival& earlier : in_clock)
        of_clock += (earlier.at - kStart) / 10s == (now - kStart) / 10s ? earlier.amount : 0;
      RC_ASSERT(clock.remaining(now) == limit - of_clock);
      if (of_clock + amount > limit) {
        expect_exact_wait(clock, amount, now);
      } else {
        clock.take(amount, now);
        in_clock.push_back({now, amount});
      }
    }
  }));
}

}  // namespace
}  // namespace lanemq::upstream
