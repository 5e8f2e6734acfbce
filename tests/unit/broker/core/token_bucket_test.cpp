// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/token_bucket.hpp"

#include <limits>

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace lanemq::core {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(TokenBucket, starts_full_and_refills_to_its_capacity) {
  TokenBucket bucket(60, minutes(1), 10);
  EXPECT_EQ(bucket.level(), 10);

  bucket.take(10);
  bucket.refill(TimePoint(seconds(3)));
  EXPECT_EQ(bucket.level(), 3);
  bucket.refill(TimePoint(hours(3)));
  EXPECT_EQ(bucket.level(), 10);
}

TEST(TokenBucket, refills_for_as_long_as_nobody_looks) {
  TokenBucket bucket(1000, hours(24), 1000);
  bucket.take(2000);
  bucket.refill(TimePoint(hours(48)));
  EXPECT_EQ(bucket.level(), 1000);
}

TEST(TokenBucket, loses_no_fraction_however_often_it_is_looked_at) {
  // 7 a second, looked at every 3 us for a while: a bucket that rounded would never fill.
  TokenBucket bucket(7, seconds(1), 100);
  bucket.take(100);
  TimePoint now{};
  for (; now < TimePoint(seconds(1)); now += microseconds(3))
    bucket.refill(now);
  bucket.refill(TimePoint(seconds(1)));

  EXPECT_EQ(bucket.level(), 7);
}

TEST(TokenBucket, goes_into_debt_and_comes_out_when_it_says) {
  TokenBucket bucket(10, seconds(1), 5);
  bucket.take(12);
  EXPECT_EQ(bucket.level(), -7);

  const TimePoint when = bucket.when_level(1, TimePoint{});
  EXPECT_EQ(when, TimePoint(std::chrono::milliseconds(800)));
  bucket.refill(when - microseconds(1));
  EXPECT_EQ(bucket.level(), 0);
  bucket.refill(when);
  EXPECT_EQ(bucket.level(), 1);
}

TEST(TokenBucket, does_not_mind_a_time_that_goes_back) {
  TokenBucket bucket(10, seconds(1), 5);
  bucket.refill(TimePoint(seconds(10)));
  bucket.take(5);
  bucket.refill(TimePoint(seconds(9)));
  EXPECT_EQ(bucket.level(), 0);
}

TEST(TokenBucket, given_back_tokens_stay_within_the_capacity) {
  TokenBucket bucket(10, seconds(1), 5);
  bucket.take(2);
  bucket.give(4);
  EXPECT_EQ(bucket.level(), 5);
}

TEST(TokenBucket, holds_the_largest_numbers_there_are) {
  const std::int64_t full = 100'000'000'000;
  TokenBucket bucket(1'000'000'000'000, hours(24), full);
  EXPECT_EQ(bucket.capacity(), full);
  EXPECT_EQ(bucket.level(), full);
  bucket.take(full);
  EXPECT_EQ(bucket.level(), 0);
  bucket.refill(TimePoint(hours(1)));
  EXPECT_EQ(bucket.level(), 41'666'666'666);
  bucket.refill(TimePoint(hours(24)));
  EXPECT_EQ(bucket.level(), full);
}

TEST(TokenBucket, does_not_overflow) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  TokenBucket bucket(10, seconds(1), 5);
  for (int i = 0; i < 100; ++i)
    bucket.take(kMost);
  EXPECT_LE(bucket.level(), -TokenBucket::kLevelMax);
  EXPECT_GT(bucket.when_level(5, TimePoint{}), TimePoint(hours(24 * 365)));
  bucket.raise_to(-10);
  EXPECT_EQ(bucket.level(), -10);
  for (int i = 0; i < 100; ++i)
    bucket.give(kMost);
  EXPECT_EQ(bucket.level(), 5);
}

TEST(TokenBucket, is_exact_over_any_sequence) {
  // The law itself, in wide integers and without a bucket's shortcuts.
  const bool holds = rc::check([](std::vector<std::pair<std::uint32_t, std::uint8_t>> steps) {
    const auto rate = *rc::gen::inRange<std::int64_t>(1, 100000);
    const auto capacity = *rc::gen::inRange<std::int64_t>(1, 1000);
    const Duration period =
        *rc::gen::element(Duration(seconds(1)), Duration(minutes(1)), Duration(hours(24)));
    TokenBucket bucket(rate, period, capacity);
    Int128 level = static_cast<Int128>(capacity) * period.count();
    const Int128 full = level;
    TimePoint now{};
    for (const auto& [gap, tokens] : steps) {
      now += microseconds(gap);
      level = std::min(level + static_cast<Int128>(gap) * rate, full);
      bucket.refill(now);
      bucket.take(tokens);
      level -= static_cast<Int128>(tokens) * period.count();
      const Int128 whole =
          level >= 0 ? level / period.count() : -((-level + period.count() - 1) / period.count());
      RC_ASSERT(bucket.level() == static_cast<std::int64_t>(whole));
      const TimePoint when = bucket.when_level(1, now);
      RC_ASSERT((when == now) == (bucket.level() >= 1));
    }
  });
  EXPECT_TRUE(holds);
}

}  // namespace
}  // namespace lanemq::core
