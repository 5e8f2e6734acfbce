// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/shared/slices.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "broker/core/budgets/shared/bank.hpp"

namespace lanemq::core {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::IsEmpty;
using testing::SizeIs;

constexpr TimePoint kBank{std::chrono::hours(500'000)};

BudgetOptions a_budget() {
  BudgetOptions budget{.name = "shared"};
  budget.rates.push_back({.name = "requests_per_minute", .limit = 60, .period = minutes(1), .capacity = 30});
  return budget;
}

class SlicesTest : public testing::Test {
 protected:
  static LaneWant want(std::int64_t jobs, std::size_t lane = 0) {
    return {.lane = lane, .jobs = jobs, .all = {.requests = jobs}};
  }
  /// A draw that takes no time, and is granted so many requests.
  Draw grant(std::int64_t amount, std::size_t lane = 0) {
    const Draw draw = slices.begin_draw(now);
    Drawn drawn{.number = draw.number, .at = bank_time(), .reported_at = bank_time()};
    if (amount > 0)
      drawn.slices.push_back(
          {.number = ++number, .lane = lane, .amounts = Counts(Amounts{.requests = amount})});
    slices.drawn(drawn, now);
    return draw;
  }
  TimePoint bank_time() const { return kBank + now.time_since_epoch(); }

  TimePoint now{seconds(100)};
  std::uint64_t number = 0;
  Slices slices{"a", 1, a_budget()};
};

TEST_F(SlicesTest, hands_over_what_was_granted_and_no_more) {
  slices.want(want(3));
  EXPECT_FALSE(slices.affordable(0, {}, now));
  grant(2);

  EXPECT_TRUE(slices.take(0, {}, now));
  EXPECT_TRUE(slices.take(0, {}, now));
  EXPECT_FALSE(slices.take(0, {}, now));
}

TEST_F(SlicesTest, a_slice_is_not_used_after_its_time_since_it_was_asked_for) {
  slices.want(want(3));
  const Draw draw = slices.begin_draw(now);
  now += milliseconds(300);  // the answer takes its time
  slices.drawn({.number = draw.number,
                .at = bank_time(),
                .slices = {{.number = 1, .amounts = Counts(Amounts{.requests = 2})}}},
               now);

  now += milliseconds(199);
  EXPECT_TRUE(slices.affordable(0, {}, now));
  now += milliseconds(1);
  EXPECT_FALSE(slices.affordable(0, {}, now)) << "a thousandth before the end, for slow clocks";
}

TEST_F(SlicesTest, what_waited_too_long_for_its_commit_is_not_sent_and_not_used) {
  slices.want(want(1));
  grant(2);
  const auto taken = slices.take(0, {}, now);
  ASSERT_TRUE(taken);

  now += seconds(30);  // a pause
  EXPECT_FALSE(slices.send(taken->use, now));

  const Draw draw = slices.begin_draw(now);
  ASSERT_THAT(draw.report.slices, SizeIs(1));
  EXPECT_THAT(draw.report.slices[0].uses, IsEmpty());
}

TEST_F(SlicesTest, reports_each_use_at_its_age_rounded_up) {
  slices.want(want(1));
  grant(2);
  for (int i = 0; i < 2; ++i) {
    now += milliseconds(101);
    ASSERT_TRUE(slices.send(slices.take(0, {}, now)->use, now));
  }
  now += milliseconds(298);

  const Draw draw = slices.begin_draw(now);

  ASSERT_THAT(draw.report.slices, SizeIs(1));
  ASSERT_THAT(draw.report.slices[0].uses, SizeIs(2));
  EXPECT_EQ(draw.report.slices[0].uses[0].age, milliseconds(110));
  EXPECT_EQ(draw.report.slices[0].uses[1].age, milliseconds(210));
}

TEST_F(SlicesTest, a_slice_is_not_reported_while_a_use_waits_for_its_commit) {
  slices.want(want(1));
  grant(1);
  const auto taken = slices.take(0, {}, now);
  now += milliseconds(450);
  EXPECT_THAT(slices.begin_draw(now).report.slices, IsEmpty());
  slices.lost(now);

  ASSERT_TRUE(slices.send(taken->use, now));
  EXPECT_THAT(slices.begin_draw(now).report.slices, SizeIs(1));
}

TEST_F(SlicesTest, a_report_is_said_until_the_bank_has_it) {
  slices.want(want(1));
  grant(1);
  slices.send(slices.take(0, {}, now)->use, now);
  now += milliseconds(500);
  const Draw first = slices.begin_draw(now);
  ASSERT_EQ(first.report.number, first.number);
  slices.lost(now);

  now += milliseconds(500);
  const Draw second = grant(0);
  EXPECT_EQ(second.report.number, first.number);
  ASSERT_THAT(second.report.slices, SizeIs(1));
  now += milliseconds(500);
  const Draw third = slices.begin_draw(now);
  EXPECT_THAT(third.report.slices, IsEmpty());
  EXPECT_THAT(third.report.disclaimed, testing::ElementsAre(first.number));
}

TEST_F(SlicesTest, the_answer_of_a_draw_that_was_given_up_is_not_used) {
  slices.want(want(1));
  const Draw draw = slices.begin_draw(now);
  slices.lost(now);

  slices.drawn({.number = draw.number,
                .at = bank_time(),
                .slices = {{.number = 1, .amounts = Counts(Amounts{.requests = 2})}}},
               now);

  EXPECT_FALSE(slices.affordable(0, {}, now));
}

TEST_F(SlicesTest, what_was_used_less_is_given_back_at_the_time_at_which_the_bank_counts_it) {
  BudgetOptions budget = a_budget();
  budget.rates[0].resource = Resource::tokens;
  Slices tokens("a", 1, budget);
  const Amounts cost{.input_tokens = 10};
  tokens.want({.head = cost, .jobs = 1, .all = cost});
  const Draw draw = tokens.begin_draw(now);
  tokens.drawn({.number = draw.number, .at = bank_time(), .slices = {{.number = 1, .amounts = Counts(cost)}}},
               now);
  const TimePoint granted_at = bank_time();
  now += milliseconds(42);
  const auto taken = tokens.take(0, cost, now);
  ASSERT_TRUE(tokens.send(taken->use, now));
  now += milliseconds(500);
  const Draw reported = tokens.begin_draw(now);
  ASSERT_THAT(reported.report.slices, SizeIs(1));
  tokens.drawn({.number = reported.number, .at = bank_time(), .reported_at = bank_time()}, now);

  const Amounts used{.input_tokens = 4};
  tokens.settle(taken->use, &used);

  now += milliseconds(500);
  const Draw corrected = tokens.begin_draw(now);
  ASSERT_THAT(corrected.report.corrections, SizeIs(1));
  EXPECT_EQ(corrected.report.corrections[0].at, granted_at + milliseconds(50));
  EXPECT_EQ(corrected.report.corrections[0].more.of(Resource::tokens), -6);
}

TEST_F(SlicesTest, what_ends_before_its_report_is_reported_as_it_was) {
  BudgetOptions budget = a_budget();
  budget.rates[0].resource = Resource::tokens;
  Slices tokens("a", 1, budget);
  const Amounts cost{.input_tokens = 10}, used{.input_tokens = 4};
  tokens.want({.head = cost, .jobs = 1, .all = cost});
  const Draw draw = tokens.begin_draw(now);
  tokens.drawn({.number = draw.number, .at = bank_time(), .slices = {{.number = 1, .amounts = Counts(cost)}}},
               now);
  const auto taken = tokens.take(0, cost, now);
  ASSERT_TRUE(tokens.send(taken->use, now));
  tokens.settle(taken->use, &used);

  now += milliseconds(500);
  const Draw reported = tokens.begin_draw(now);
  ASSERT_THAT(reported.report.slices, SizeIs(1));
  ASSERT_THAT(reported.report.slices[0].uses, SizeIs(1));
  EXPECT_EQ(reported.report.slices[0].uses[0].used.of(Resource::tokens), 4);
}

TEST_F(SlicesTest, the_top_lane_draws_at_once_and_others_twice_a_second) {
  slices.want(want(5, 1));
  EXPECT_EQ(slices.draw_due(now), now);
  grant(0);
  EXPECT_EQ(slices.draw_due(now), now + kSliceTime);

  now += milliseconds(100);
  slices.want(want(1, 0));
  EXPECT_EQ(slices.draw_due(now), now);
}

TEST_F(SlicesTest, the_top_lane_draws_less_often_while_the_bank_has_nothing_for_it) {
  slices.want(want(5));
  std::vector<Duration> waits;
  for (int i = 0; i < 6; ++i) {
    const Draw draw = slices.begin_draw(now);
    slices.drawn({.number = draw.number,
                  .at = bank_time(),
                  .lanes = {{.refusal = DrawRefusal::room, .retry_after = milliseconds(1)}}},
                 now);
    waits.push_back(slices.draw_due(now) - now);
    now += waits.back();
  }
  EXPECT_THAT(waits, testing::ElementsAre(milliseconds(20), milliseconds(40), milliseconds(80),
                                          milliseconds(160), milliseconds(250), milliseconds(250)));
}

TEST_F(SlicesTest, the_top_lane_draws_less_often_while_the_bank_does_not_answer) {
  slices.want(want(5));
  std::vector<Duration> waits;
  for (int i = 0; i < 5; ++i) {
    slices.begin_draw(now);
    slices.lost(now);
    waits.push_back(slices.draw_due(now) - now);
    now += waits.back();
  }
  EXPECT_THAT(waits, testing::ElementsAre(milliseconds(20), milliseconds(40), milliseconds(80),
                                          milliseconds(160), milliseconds(250)));
}

TEST_F(SlicesTest, what_the_bank_said_of_a_lane_holds_until_it_is_silent) {
  slices.want(want(5));
  const Draw draw = slices.begin_draw(now);
  slices.drawn({.number = draw.number, .at = bank_time(), .lanes = {{.refusal = DrawRefusal::others_turn}}},
               now);
  EXPECT_EQ(slices.answer(0)->refusal, DrawRefusal::others_turn);
  now += milliseconds(500);
  slices.begin_draw(now);
  slices.lost(now);
  EXPECT_EQ(slices.answer(0)->refusal, DrawRefusal::none);
}

TEST_F(SlicesTest, a_lane_uses_the_slices_of_lower_lanes_and_not_of_higher_ones) {
  slices.want(want(5, 1));
  grant(2, 1);
  EXPECT_TRUE(slices.affordable(0, {}, now));
  EXPECT_TRUE(slices.affordable(1, {}, now));
  EXPECT_FALSE(slices.affordable(2, {}, now));
}

TEST_F(SlicesTest, says_a_time_of_the_bank_that_is_not_ahead_of_what_passed) {
  slices.want(want(1));
  EXPECT_FALSE(slices.begin_draw(now).saw);
  slices.lost(now);
  grant(0);
  const TimePoint heard = bank_time();

  now += seconds(10);

  EXPECT_EQ(slices.begin_draw(now).saw, heard + seconds(10) - milliseconds(10));
}

TEST_F(SlicesTest, hands_no_job_over_without_a_place_and_gives_back_what_it_does_not_need) {
  BudgetOptions budget = a_budget();
  budget.concurrency = 4;
  Slices placed("a", 1, budget);
  placed.want(want(5));
  const Draw draw = placed.begin_draw(now);
  ASSERT_THAT(draw.places, SizeIs(1));
  EXPECT_EQ(draw.places[0].wanted, 5);
  placed.drawn({.number = draw.number,
                .at = bank_time(),
                .slices = {{.number = 1, .amounts = Counts(Amounts{.requests = 5})}},
                .places = {{.places = 2, .allowed = 1}}},
               now);

  const auto taken = placed.take(0, {}, now);
  ASSERT_TRUE(taken);
  EXPECT_FALSE(placed.affordable(0, {}, now)) << "the second place is for other shards";
  ASSERT_TRUE(placed.send(taken->use, now));
  placed.settle(taken->use, nullptr);
  placed.want(want(0));
  const Draw next = placed.begin_draw(now);
  EXPECT_EQ(next.places[0].held, 0);
}

TEST_F(SlicesTest, says_what_runs_in_places_while_any_does) {
  BudgetOptions budget = a_budget();
  budget.concurrency = 4;
  Slices placed("a", 1, budget);
  placed.adopt(Claim::kNoKey);
  const Draw draw = placed.begin_draw(now);
  placed.drawn({.number = draw.number, .at = bank_time(), .places = {{.places = 1, .allowed = 1}}}, now);

  EXPECT_EQ(placed.draw_due(now), now + seconds(5)) << "though it wants nothing";
  now += seconds(5);
  placed.begin_draw(now);
  placed.lost(now);
  EXPECT_EQ(placed.draw_due(now), now + kSliceTime) << "again";
  placed.leave(Claim::kNoKey);
  now += seconds(5);
  placed.drawn({.number = placed.begin_draw(now).number, .at = bank_time(), .places = {{}}}, now);
  EXPECT_EQ(placed.draw_due(now), kNever);
}

TEST_F(SlicesTest, knows_of_draws_as_long_as_calls_may_run_unsaid) {
  Slices placed("a", 1, {.name = "shared", .concurrency = 4});
  placed.drawn({.number = placed.begin_draw(now).number, .at = bank_time(), .draws = 7}, now);
  now += seconds(15);
  EXPECT_EQ(placed.begin_draw(now).draws_known, 7u);
  placed.lost(now);
  now += seconds(1);
  EXPECT_EQ(placed.begin_draw(now).draws_known, 0u);
}

TEST_F(SlicesTest, the_only_owner_draws_though_its_epoch_came_of_a_clock_that_was_set_back) {
  Bank bank(a_budget());
  bank.draw({.shard = "a", .epoch = 5000, .number = 1}, {.now = bank_time()});
  Slices only("a", 100, a_budget(), true);
  only.want(want(3));
  only.drawn(bank.draw(only.begin_draw(now), {.now = bank_time()}), now);
  EXPECT_FALSE(only.affordable(0, {}, now));
  EXPECT_EQ(only.answer(0)->refusal, DrawRefusal::superseded);
  EXPECT_TRUE(only.is_contested(now));

  now += milliseconds(500);
  ASSERT_LE(only.draw_due(now), now);
  only.drawn(bank.draw(only.begin_draw(now), {.now = bank_time()}), now);
  EXPECT_TRUE(only.affordable(0, {}, now));
  EXPECT_TRUE(only.is_contested(now)) << "the other one may draw again";
  now += std::chrono::seconds(10);
  EXPECT_FALSE(only.is_contested(now));
}

TEST_F(SlicesTest, says_how_many_draws_it_knows_of_as_long_as_they_count) {
  slices.want(want(1));
  const Draw first = slices.begin_draw(now);
  EXPECT_EQ(first.draws_known, 0u);
  slices.drawn({.number = first.number, .at = bank_time(), .draws = 7}, now);
  now += milliseconds(500);
  const Draw second = slices.begin_draw(now);
  EXPECT_EQ(second.draws_known, 7u);
  slices.lost(now);
  now += std::chrono::minutes(2);
  EXPECT_EQ(slices.begin_draw(now).draws_known, 0u);
}

/// Of two keys, the first of which may have rested.
class RefusedKeys : public SlicesTest {
 protected:
  void grant_both(bool tries_key = false) {
    slices.want(want(6));
    const Draw draw = slices.begin_draw(now);
    Drawn drawn{.number = draw.number, .at = bank_time(), .reported_at = bank_time()};
    const Counts three(Amounts{.requests = 3});
    drawn.slices.push_back({.number = 1, .key = 0, .tries_key = tries_key, .amounts = three});
    drawn.slices.push_back({.number = 2, .key = 1, .amounts = three});
    slices.drawn(drawn, now);
  }
};

TEST_F(RefusedKeys, a_job_takes_of_no_slice_whose_key_was_refused_to_it) {
  grant_both();
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(slices.take(0, {}, now, {.any = true, .key = 0})->key, 1);
  EXPECT_FALSE(slices.affordable(0, {}, now, {.any = true, .key = 0}));
  EXPECT_FALSE(slices.take(0, {}, now, {.any = true, .key = 0}));
  EXPECT_EQ(slices.take(0, {}, now)->key, 0);
}

TEST_F(RefusedKeys, a_job_that_was_refused_one_is_the_last_to_try_another) {
  grant_both(true);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(slices.take(0, {}, now, {.any = true})->key, 1);
  EXPECT_TRUE(slices.take(0, {}, now, {.any = true})->tries_key);
}

TEST_F(RefusedKeys, one_job_tries_a_key_though_it_takes_nothing_that_counts) {
  Slices uncounted("a", 1, {.name = "shared", .keys = {{.name = "k1"}}});
  uncounted.want(want(2));
  const Draw draw = uncounted.begin_draw(now);
  uncounted.drawn({.number = draw.number,
                   .at = bank_time(),
                   .slices = {{.number = 1, .key = 0, .tries_key = true, .amounts = Counts(Amounts{})}}},
                  now);

  const auto taken = uncounted.take(0, {}, now);
  ASSERT_TRUE(taken);
  EXPECT_FALSE(uncounted.affordable(0, {}, now));
  EXPECT_TRUE(uncounted.send(taken->use, now));
  EXPECT_FALSE(uncounted.take(0, {}, now));
}

TEST_F(RefusedKeys, what_is_left_of_its_slices_is_given_back_at_once) {
  grant_both();
  const auto sent = slices.take(0, {}, now), unsent = slices.take(0, {}, now);
  ASSERT_TRUE(slices.send(sent->use, now));
  now += milliseconds(50);
  slices.hear({.kind = UpstreamWord::Kind::key_refused, .key = 0}, now - milliseconds(50), now);

  EXPECT_FALSE(slices.send(unsent->use, now)) << "it has time to have another key";
  EXPECT_EQ(slices.left(now).of(Resource::requests), 3);
  ASSERT_EQ(slices.draw_due(now), now);
  const Draw draw = slices.begin_draw(now);
  ASSERT_THAT(draw.report.slices, SizeIs(1));
  EXPECT_EQ(draw.report.slices[0].slice, 1u);
  EXPECT_THAT(draw.report.slices[0].uses, SizeIs(1));
}

TEST_F(SlicesTest, a_former_owner_draws_no_more) {
  slices.want(want(1));
  const Draw draw = slices.begin_draw(now);
  slices.drawn({.outcome = Drawn::Outcome::superseded, .number = draw.number, .at = bank_time()}, now);

  EXPECT_TRUE(slices.superseded());
  EXPECT_EQ(slices.draw_due(now), kNever);
}

}  // namespace
}  // namespace lanemq::core
