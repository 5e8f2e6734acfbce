// SPDX-License-Identifier: Apache-2.0
#include "common/http/server/base/turn_clock.hpp"

#include <gtest/gtest.h>

namespace lanemq::http {
namespace {

using namespace std::chrono_literals;

TEST(TurnClock, tells_the_longest_of_the_last_minute) {
  TurnClock clock;
  const TurnClock::TimePoint start{1000h};
  EXPECT_EQ(clock.longest(start), 0ms);

  clock.note(start, start + 7ms);
  clock.note(start + 1s, start + 1s + 3ms);
  clock.note(start + 30s, start + 30s + 4ms);

  EXPECT_EQ(clock.longest(start + 30s), 7ms);
  EXPECT_EQ(clock.longest(start + 54s), 7ms);
  EXPECT_EQ(clock.longest(start + 66s), 4ms);
  EXPECT_EQ(clock.longest(start + 96s), 0ms);
}

TEST(TurnClock, forgets_what_stood_in_a_slot_before) {
  TurnClock clock;
  const TurnClock::TimePoint start{1000h};
  clock.note(start, start + 9ms);

  clock.note(start + TurnClock::kWindow, start + TurnClock::kWindow + 1ms);

  EXPECT_EQ(clock.longest(start + TurnClock::kWindow), 1ms);
}

}  // namespace
}  // namespace lanemq::http
