// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/limiter.hpp"

#include <gtest/gtest.h>

#include "tests/unit/upstream/arrivals.hpp"

namespace lanemq::upstream {
namespace {

using namespace std::chrono_literals;

TEST(Limiter, counts_a_refused_call_in_neither_limit) {
  Limiter limiter({.requests = 2, .tokens = 100});
  ASSERT_TRUE(limiter.admit(60, kStart).accepted);

  const Verdict refused = limiter.admit(50, kStart + 1s);

  EXPECT_FALSE(refused.accepted);
  EXPECT_EQ(refused.dimension, Dimension::tokens);
  EXPECT_EQ(refused.wait, 59s);
  EXPECT_EQ(refused.limit, 100u);
  EXPECT_EQ(refused.used, 60u);
  EXPECT_EQ(refused.requested, 50u);
  EXPECT_EQ(limiter.gauge(Dimension::requests, kStart + 1s)->remaining, 1u);
  EXPECT_TRUE(limiter.admit(40, kStart + 1s).accepted);
}

TEST(Limiter, names_the_limit_with_the_longer_wait) {
  Limiter limiter({.requests = 2, .tokens = 100});
  ASSERT_TRUE(limiter.admit(50, kStart).accepted);
  ASSERT_TRUE(limiter.admit(50, kStart + 10s).accepted);

  EXPECT_EQ(limiter.admit(10, kStart + 10s).dimension, Dimension::requests);
  const Verdict both = limiter.admit(80, kStart + 10s);
  EXPECT_EQ(both.dimension, Dimension::tokens);
  EXPECT_EQ(both.wait, 60s);
}

TEST(Limiter, says_that_a_call_can_never_fit) {
  Limiter limiter({.requests = 10, .tokens = 100});

  const Verdict verdict = limiter.admit(101, kStart);

  EXPECT_FALSE(verdict.accepted);
  EXPECT_EQ(verdict.wait, std::nullopt);
  EXPECT_TRUE(verdict.too_large);
  EXPECT_EQ(verdict.limit, 100u);
  EXPECT_EQ(verdict.requested, 101u);
}

TEST(Limiter, gives_a_bucket_a_tenth_of_the_calls_and_all_of_the_tokens_by_default) {
  Limiter limiter({.requests = 600, .tokens = 5000, .window = WindowKind::bucket});

  EXPECT_EQ(limiter.gauge(Dimension::requests, kStart)->remaining, 60u);
  EXPECT_EQ(limiter.gauge(Dimension::tokens, kStart)->remaining, 5000u);
}

TEST(Limiter, without_limits_takes_everything_and_tells_no_gauge) {
  Limiter limiter({});

  EXPECT_TRUE(limiter.admit(1'000'000'000, kStart).accepted);
  EXPECT_FALSE(limiter.gauge(Dimension::requests, kStart).has_value());
}

TEST(Limiter, changes_its_limits_at_their_time) {
  Limiter limiter(
      {.requests = *parse_changing("4,2@30,6@60", kRequestsMax), .window = WindowKind::fixed, .period = 10s},
      kStart);
  const auto granted = [&](TimePoint now) {
    int count = 0;
    while (limiter.admit(1, now).accepted)
      ++count;
    return count;
  };

  EXPECT_EQ(granted(kStart), 4);
  EXPECT_EQ(granted(kStart + 30s - 1ns), 4);
  EXPECT_EQ(granted(kStart + 40s), 2);
  EXPECT_EQ(limiter.gauge(Dimension::requests, kStart + 40s)->limit, 2u);
  EXPECT_EQ(granted(kStart + 60s), 6);
}

TEST(Limiter, gives_a_bucket_that_changes_a_tenth_of_the_new_limit) {
  Limiter limiter({.requests = *parse_changing("600,300@1", kRequestsMax), .window = WindowKind::bucket},
                  kStart);

  EXPECT_EQ(limiter.gauge(Dimension::requests, kStart)->remaining, 60u);
  EXPECT_EQ(limiter.gauge(Dimension::requests, kStart + 1s)->remaining, 30u);
}

TEST(Limiter, refuses_the_call_over_the_places_and_tells_no_time) {
  Limiter limiter({.at_once = *parse_changing("2,1@10", kAtOnceMax)}, kStart);
  ASSERT_TRUE(limiter.admit(1, kStart).accepted);
  ASSERT_TRUE(limiter.admit(1, kStart).accepted);

  const Verdict refused = limiter.admit(1, kStart);
  EXPECT_FALSE(refused.accepted);
  EXPECT_EQ(refused.dimension, Dimension::at_once);
  EXPECT_EQ(refused.wait, std::nullopt);
  EXPECT_FALSE(refused.too_large);
  EXPECT_EQ(refused.limit, 2u);

  limiter.leave();
  EXPECT_TRUE(limiter.admit(1, kStart).accepted);
  limiter.leave();
  EXPECT_FALSE(limiter.admit(1, kStart + 10s).accepted) << "one of two is there, and one may be";
  EXPECT_EQ(limiter.at_once(kStart + 10s), 1u);
}

TEST(Limiter, counts_a_call_that_finds_no_place_in_no_window) {
  Limiter limiter({.requests = 10, .at_once = 1}, kStart);
  ASSERT_TRUE(limiter.admit(1, kStart).accepted);

  ASSERT_FALSE(limiter.admit(1, kStart).accepted);

  EXPECT_EQ(limiter.gauge(Dimension::requests, kStart)->remaining, 9u);
}

TEST(Limiter, lets_others_take_what_they_get_in_the_order_of_time) {
  Limiter limiter({.requests = 10, .others = *parse_others("4/s")}, kStart);

  // Theirs at 0, 0.25, 0.5, 0.75 s; that at 1 s comes behind ours.
  EXPECT_EQ(limiter.gauge(Dimension::requests, kStart + 1s)->remaining, 6u);
  ASSERT_TRUE(limiter.admit(1, kStart + 1s).accepted);
  EXPECT_EQ(limiter.gauge(Dimension::requests, kStart + 1500ms)->remaining, 3u);

  const OthersTally tally = limiter.others(kStart + 10s);
  EXPECT_EQ(tally.granted, 9u);
  EXPECT_EQ(tally.refused, 31u);
  EXPECT_FALSE(limiter.admit(1, kStart + 59s).accepted);
}

TEST(Limiter, lets_others_ask_at_half_the_pace_of_the_limit_whatever_that_is) {
  Limiter limiter({.requests = *parse_changing("120,60@60", kRequestsMax), .others = *parse_others("half")},
                  kStart);

  EXPECT_EQ(limiter.others(kStart + 60s).granted, 60u);
  EXPECT_EQ(limiter.others(kStart + 120s).granted, 90u);
}

TEST(Limiter, counts_the_tokens_of_others) {
  Limiter limiter({.tokens = 1000, .others = *parse_others("half"), .others_tokens = 50}, kStart);

  EXPECT_EQ(limiter.others(kStart + 60s).granted, 10u);
  EXPECT_EQ(limiter.gauge(Dimension::tokens, kStart + 59s + 999ms)->remaining, 500u);
}

TEST(Limiter, gives_others_places_for_as_long_as_their_calls_last) {
  Limiter limiter({.at_once = 3, .others = *parse_others("2/s"), .others_hold = 1s}, kStart);

  ASSERT_TRUE(limiter.admit(1, kStart + 900ms).accepted);  // Beside those of 0 and 0.5 s.
  EXPECT_FALSE(limiter.admit(1, kStart + 950ms).accepted);
  limiter.leave();
  EXPECT_TRUE(limiter.admit(1, kStart + 950ms).accepted);
  EXPECT_EQ(limiter.others(kStart + 10s).refused, 0u);
}

TEST(Limiter, cuts_a_step_that_is_too_long_and_says_so) {
  Limiter limiter({.others = *parse_others("10000/s")}, kStart);

  const OthersTally tally = limiter.others(kStart + 1h);

  EXPECT_EQ(tally.granted, Limiter::kAsksPerStepMax);
  EXPECT_EQ(tally.steps_cut, 1u);
  EXPECT_EQ(limiter.others(kStart + 1h + 1s).granted, Limiter::kAsksPerStepMax + 10'000);
}

TEST(Limiter, refuses_a_pace_that_rises_too_fast) {
  Limiter limiter({.slope = 2, .slope_floor = 3}, kStart);
  for (int call = 0; call < 3; ++call)
    ASSERT_TRUE(limiter.admit(1, kStart).accepted);

  const Verdict refused = limiter.admit(1, kStart);

  EXPECT_FALSE(refused.accepted);
  EXPECT_EQ(refused.dimension, Dimension::slope);
  EXPECT_EQ(refused.wait, std::nullopt);
}

TEST(Limiter, counts_by_the_wall_clock) {
  Limiter limiter({.requests = 1, .window = WindowKind::clock}, kStart, 1000s + 59s);  // 1059 = 17 * 60 + 39
  ASSERT_TRUE(limiter.admit(1, kStart).accepted);

  EXPECT_EQ(limiter.admit(1, kStart + 1s).wait, 20s);
  EXPECT_TRUE(limiter.admit(1, kStart + 21s).accepted);
}

}  // namespace
}  // namespace lanemq::upstream
