// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/limiter.hpp"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace lanemq::upstream {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kStart = TimePoint() + 1h;

struct Arrival {
  TimePoint at;
  std::uint64_t amount;
};

// Arrivals in bursts and with pauses up to more than a window, sometimes exactly one window apart.
std::vector<Arrival> draw_arrivals(std::uint64_t amount_max) {
  const auto gap =
      rc::gen::weightedOneOf<std::int64_t>({{4, rc::gen::just<std::int64_t>(0)},
                                            {4, rc::gen::inRange<std::int64_t>(0, 2'000'000'000)},
                                            {4, rc::gen::inRange<std::int64_t>(0, 20'000'000'000)},
                                            {2, rc::gen::just<std::int64_t>(kWindow.count())},
                                            {1, rc::gen::inRange<std::int64_t>(0, 90'000'000'000)}});
  const auto draws = *rc::gen::container<std::vector<std::pair<std::int64_t, std::uint64_t>>>(
      rc::gen::pair(gap, rc::gen::inRange<std::uint64_t>(1, amount_max + 1)));
  std::vector<Arrival> arrivals;
  TimePoint now = kStart;
  for (const auto& [pause, amount] : draws) {
    now += Duration(pause);
    arrivals.push_back({now, amount});
  }
  return arrivals;
}

// What a refusal promises: the amount fits when the wait is over, and not a nanosecond earlier.
template <typename AnyCounter>
void expect_exact_wait(const AnyCounter& counter, std::uint64_t amount, TimePoint now) {
  AnyCounter early = counter;
  AnyCounter late = counter;
  const auto wait = AnyCounter(counter).wait(amount, now);
  RC_ASSERT(wait.has_value());
  RC_ASSERT(*wait > Duration::zero());
  RC_ASSERT(*early.wait(amount, now + *wait - 1ns) == 1ns);
  RC_ASSERT(*late.wait(amount, now + *wait) == Duration::zero());
}

TEST(SlidingWindow, agrees_with_brute_force_over_random_arrivals) {
  EXPECT_TRUE(rc::check([] {
    const auto limit = *rc::gen::inRange<std::uint64_t>(1, 12);
    SlidingWindow window(limit);
    std::vector<Arrival> accepted;

    for (const auto& [now, amount] : draw_arrivals(limit)) {
      std::uint64_t used = 0;
      for (const Arrival& earlier : accepted)
        used += now - earlier.at < kWindow ? earlier.amount : 0;
      RC_ASSERT(window.remaining(now) == limit - used);
      if (used + amount > limit) {
        expect_exact_wait(window, amount, now);
        continue;
      }
      RC_ASSERT(*window.wait(amount, now) == Duration::zero());
      window.take(amount, now);
      RC_ASSERT(window.reset(now) == kWindow);
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
    ASSERT_GE(accepted[first + 600] - accepted[first], kWindow);
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

TEST(Bucket, takes_exactly_what_capacity_and_refill_allow_over_random_arrivals) {
  EXPECT_TRUE(rc::check([] {
    const auto limit = *rc::gen::inRange<std::uint64_t>(1, 40);
    const auto capacity = *rc::gen::inRange<std::uint64_t>(1, 12);
    Bucket bucket(limit, capacity);
    std::vector<Arrival> accepted;

    for (const auto& [now, amount] : draw_arrivals(capacity)) {
      // A bucket is the bound capacity + limit * t over the span from any earlier call to this one.
      bool fits = true;
      std::uint64_t taken = amount;
      for (auto earlier = accepted.rbegin(); earlier != accepted.rend(); ++earlier) {
        taken += earlier->amount;
        const auto span = static_cast<std::uint64_t>((now - earlier->at).count());
        fits = fits && taken * kWindow.count() <= capacity * kWindow.count() + limit * span;
      }
      if (!fits) {
        expect_exact_wait(bucket, amount, now);
        continue;
      }
      RC_ASSERT(*bucket.wait(amount, now) == Duration::zero());
      RC_ASSERT(bucket.remaining(now) >= amount);
      bucket.take(amount, now);
      accepted.push_back({now, amount});
    }
  }));
}

TEST(Bucket, begins_full_and_refills_continuously) {
  Bucket bucket(600, 3);
  for (int call = 0; call < 3; ++call)
    bucket.take(1, kStart);

  EXPECT_EQ(bucket.remaining(kStart), 0u);
  EXPECT_EQ(bucket.wait(1, kStart), 100ms);
  EXPECT_EQ(bucket.reset(kStart), 300ms);
  EXPECT_EQ(bucket.remaining(kStart + 250ms), 2u);
  EXPECT_EQ(bucket.remaining(kStart + 24h), 3u);
}

TEST(Bucket, rounds_a_wait_up_to_the_nanosecond_in_which_the_call_fits) {
  Bucket bucket(7, 1);
  bucket.take(1, kStart);

  EXPECT_EQ(bucket.wait(1, kStart), 8'571'428'572ns);
  EXPECT_EQ(bucket.wait(1, kStart + 8'571'428'571ns), 1ns);
  EXPECT_EQ(bucket.wait(1, kStart + 8'571'428'572ns), 0ns);
}

TEST(Bucket, survives_the_largest_limits_and_a_long_pause) {
  Bucket bucket(kTokensPerMinuteMax, kTokensPerMinuteMax);
  bucket.take(kTokensPerMinuteMax, kStart);

  EXPECT_EQ(bucket.wait(kTokensPerMinuteMax, kStart), kWindow);
  EXPECT_EQ(bucket.remaining(kStart + 30s), kTokensPerMinuteMax / 2);
  EXPECT_EQ(bucket.remaining(kStart + 24h * 365), kTokensPerMinuteMax);
}

TEST(Bucket, never_takes_more_than_its_capacity_at_once) {
  Bucket bucket(600, 10);

  EXPECT_EQ(bucket.wait(11, kStart), std::nullopt);
  EXPECT_EQ(bucket.ceiling(), 10u);
  EXPECT_EQ(bucket.limit(), 600u);
}

TEST(Limiter, counts_a_refused_call_in_neither_limit) {
  Limiter limiter({.requests_per_minute = 2, .tokens_per_minute = 100});
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
  Limiter limiter({.requests_per_minute = 2, .tokens_per_minute = 100});
  ASSERT_TRUE(limiter.admit(50, kStart).accepted);
  ASSERT_TRUE(limiter.admit(50, kStart + 10s).accepted);

  EXPECT_EQ(limiter.admit(10, kStart + 10s).dimension, Dimension::requests);
  const Verdict both = limiter.admit(80, kStart + 10s);
  EXPECT_EQ(both.dimension, Dimension::tokens);
  EXPECT_EQ(both.wait, 60s);
}

TEST(Limiter, says_that_a_call_can_never_fit) {
  Limiter limiter({.requests_per_minute = 10, .tokens_per_minute = 100});

  const Verdict verdict = limiter.admit(101, kStart);

  EXPECT_FALSE(verdict.accepted);
  EXPECT_EQ(verdict.wait, std::nullopt);
  EXPECT_EQ(verdict.limit, 100u);
  EXPECT_EQ(verdict.requested, 101u);
}

TEST(Limiter, gives_a_bucket_a_tenth_of_the_calls_and_all_of_the_tokens_by_default) {
  Limiter limiter({.requests_per_minute = 600, .tokens_per_minute = 5000, .window = WindowKind::bucket});

  EXPECT_EQ(limiter.gauge(Dimension::requests, kStart)->remaining, 60u);
  EXPECT_EQ(limiter.gauge(Dimension::tokens, kStart)->remaining, 5000u);
}

TEST(Limiter, without_limits_takes_everything_and_tells_no_gauge) {
  Limiter limiter({});

  EXPECT_TRUE(limiter.admit(1'000'000'000, kStart).accepted);
  EXPECT_EQ(limiter.gauge(Dimension::requests, kStart), std::nullopt);
}

}  // namespace
}  // namespace lanemq::upstream
