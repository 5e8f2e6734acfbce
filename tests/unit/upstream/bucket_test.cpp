// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/bucket.hpp"

#include <cstdint>
#include <iterator>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "tests/unit/upstream/arrivals.hpp"

namespace lanemq::upstream {
namespace {

using namespace std::chrono_literals;

TEST(Bucket, takes_exactly_what_capacity_and_refill_allow_over_random_arrivals) {
  EXPECT_TRUE(rc::check([] {
    const auto limit = *rc::gen::inRange<std::uint64_t>(1, 40);
    const auto capacity = *rc::gen::inRange<std::uint64_t>(1, 12);
    const Duration period =
        *rc::gen::elementOf(std::vector<Duration>(std::begin(kPeriods), std::end(kPeriods)));
    Bucket bucket(limit, capacity, period);
    std::vector<Arrival> accepted;

    for (const auto& [now, amount] : draw_arrivals(capacity, period)) {
      // A bucket is the bound capacity + limit * t over the span from any earlier call to this one.
      bool fits = true;
      std::uint64_t taken = amount;
      for (auto earlier = accepted.rbegin(); earlier != accepted.rend(); ++earlier) {
        taken += earlier->amount;
        const auto span = static_cast<std::uint64_t>((now - earlier->at).count());
        fits = fits && taken * period.count() <= capacity * period.count() + limit * span;
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
  Bucket bucket(kTokensMax, kTokensMax);
  bucket.take(kTokensMax, kStart);

  EXPECT_EQ(bucket.wait(kTokensMax, kStart), 60s);
  EXPECT_EQ(bucket.remaining(kStart + 30s), kTokensMax / 2);
  EXPECT_EQ(bucket.remaining(kStart + 24h * 365), kTokensMax);
}

TEST(Bucket, never_takes_more_than_its_capacity_at_once) {
  Bucket bucket(600, 10);

  EXPECT_EQ(bucket.wait(11, kStart), std::nullopt);
  EXPECT_EQ(bucket.ceiling(), 10u);
  EXPECT_EQ(bucket.limit(), 600u);
}

TEST(Bucket, of_the_longest_period_and_the_largest_limit_counts_on) {
  Bucket bucket(kTokensMax, kTokensMax, kPeriodMax);
  bucket.take(kTokensMax, kStart);

  EXPECT_EQ(bucket.reset(kStart), kPeriodMax);
  EXPECT_EQ(bucket.remaining(kStart + kPeriodMax / 4), kTokensMax / 4);
}

TEST(Bucket, that_becomes_smaller_keeps_what_it_has_room_for) {
  Bucket bucket(600, 60);
  bucket.take(20, kStart);

  bucket.set({.limit = 300, .capacity = 30}, kStart);
  EXPECT_EQ(bucket.remaining(kStart), 30u);
  bucket.take(30, kStart);
  EXPECT_EQ(bucket.wait(1, kStart), 200ms);

  bucket.set({.limit = 600, .capacity = 60}, kStart + 200ms);
  EXPECT_EQ(bucket.remaining(kStart + 200ms), 1u) << "a larger one is no fuller";
  EXPECT_EQ(bucket.remaining(kStart + 300ms), 2u);
}

}  // namespace
}  // namespace lanemq::upstream
