// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/concurrency_limit.hpp"

#include <gtest/gtest.h>

namespace lanemq::core {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Shown = ConcurrencyLimit::Shown;

constexpr TimePoint kSentAt{seconds(100)}, kRefusedAt = kSentAt + milliseconds(50);

/// `running` calls are sent at once, and those above `taken` are refused.
ConcurrencyLimit burst_of(int running, int taken) {
  ConcurrencyLimit limit(0);
  for (int i = 0; i < running; ++i)
    limit.take();
  for (int i = taken; i < running; ++i) {
    limit.free();
    EXPECT_EQ(limit.refused(kSentAt, kRefusedAt, false), Shown::places);
  }
  return limit;
}

TEST(ConcurrencyLimit, as_many_are_taken_as_were_under_way_when_the_others_of_a_burst_were_refused) {
  const ConcurrencyLimit limit = burst_of(12, 8);
  EXPECT_EQ(limit.limit(), 8);
  EXPECT_TRUE(limit.full());
  EXPECT_TRUE(limit.is_learnt());
}

TEST(ConcurrencyLimit, a_fall_to_an_eighth_is_no_pace) {
  const ConcurrencyLimit limit = burst_of(40, 5);
  EXPECT_EQ(limit.limit(), 5);
}

TEST(ConcurrencyLimit, refusals_of_calls_made_after_each_cut_are_no_pace_while_some_are_under_way) {
  ConcurrencyLimit limit = burst_of(20, 19);
  TimePoint now = kRefusedAt;
  for (const int left : {13, 9, 6, 4, 2}) {
    now += milliseconds(100);
    limit.free();
    EXPECT_EQ(limit.refused(now, now, false), Shown::places);
    EXPECT_EQ(limit.limit(), left);
  }
}

TEST(ConcurrencyLimit, one_more_is_tried_after_a_time_that_doubles_while_it_is_refused) {
  ConcurrencyLimit limit = burst_of(12, 8);
  TimePoint now = kRefusedAt;
  Duration waits[4];
  for (Duration& waited : waits) {
    const TimePoint since = now;
    while (limit.limit() == 8) {
      now += milliseconds(100);
      limit.free();
      limit.succeeded(kRefusedAt, now);
      limit.take();
    }
    waited = now - since;
    limit.take();
    limit.free();
    EXPECT_EQ(limit.refused(now, now, false), Shown::places);
    EXPECT_EQ(limit.limit(), 8);
  }
  EXPECT_EQ(waits[0], seconds(1));
  EXPECT_EQ(waits[1], seconds(2));
  EXPECT_EQ(waits[2], seconds(4));
  EXPECT_EQ(waits[3], seconds(8));
}

TEST(ConcurrencyLimit, while_more_is_taken_more_is_tried) {
  ConcurrencyLimit limit = burst_of(12, 8);
  TimePoint now = kRefusedAt;
  for (int i = 0; i < 2000 && limit.limit() < 200; ++i) {
    now += milliseconds(10);
    limit.free();
    limit.succeeded(now - milliseconds(5), now);
    while (!limit.full())
      limit.take();
  }
  EXPECT_GE(limit.limit(), 200);
}

TEST(ConcurrencyLimit, refusals_that_go_on_with_few_under_way_are_about_the_pace) {
  ConcurrencyLimit limit = burst_of(12, 11);
  TimePoint now = kRefusedAt;
  int refusals = 0;
  for (Shown shown = Shown::places; shown == Shown::places && refusals < 100; ++refusals) {
    now += seconds(1);
    while (limit.running() >= limit.limit())
      limit.free();
    shown = limit.refused(now, now, false);
  }
  EXPECT_LE(refusals, 5);
  EXPECT_EQ(limit.limit(), 0) << "any number may run again";
  EXPECT_EQ(limit.refused(now + seconds(1), now + seconds(1), false), Shown::pace)
      << "that is known for a while";
}

TEST(ConcurrencyLimit, what_the_upstream_states_counts_up_to_what_is_configured) {
  ConcurrencyLimit limit(20);
  limit.learn(5, kRefusedAt);
  EXPECT_EQ(limit.limit(), 5);
  limit.learn(500, kRefusedAt);
  EXPECT_EQ(limit.limit(), 20);
  limit.learn(5, kRefusedAt);
  EXPECT_TRUE(limit.lift());
  EXPECT_EQ(limit.limit(), 20);
}

}  // namespace
}  // namespace lanemq::core
