// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/batches/batch_runner.hpp"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lanemq::gateway {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr WallTime kStart{milliseconds(1'000'000)};
constexpr milliseconds kWindow{10'000};

std::vector<std::pair<std::int64_t, int>> pairs(const std::vector<BatchLine>& lines) {
  std::vector<std::pair<std::int64_t, int>> result;
  for (const BatchLine line : lines)
    result.emplace_back(line.batch, static_cast<int>(line.line));
  return result;
}

class Runner : public testing::Test {
 protected:
  void add(std::int64_t number, std::size_t lines, const char* caller = "a") {
    runner_.add(
        {.number = number, .caller = caller, .done = std::vector<bool>(lines), .deadline = kStart + kWindow});
  }
  BatchRunner runner_{RunnerLimits{.in_flight_max = 5}};  // of which one batch takes four
};

using P = std::pair<std::int64_t, int>;

TEST_F(Runner, gives_batches_turns_and_bounds_what_is_in_flight) {
  add(1, 10);
  add(2, 1);

  EXPECT_THAT(pairs(runner_.advance(kStart).submit), ElementsAre(P{1, 0}, P{2, 0}, P{1, 1}, P{1, 2}));
  EXPECT_THAT(pairs(runner_.advance(kStart).submit), IsEmpty());

  runner_.settled({1, 1});
  runner_.settled({2, 0});
  const auto actions = runner_.advance(kStart);
  EXPECT_THAT(pairs(actions.submit), ElementsAre(P{1, 3}, P{1, 4}));
  EXPECT_THAT(actions.finished, ElementsAre(2));
  EXPECT_EQ(runner_.started_to(1), 5u);
}

TEST_F(Runner, callers_take_turns_and_their_batches_inside) {
  runner_ = BatchRunner(RunnerLimits{.in_flight_max = 7});
  add(1, 9, "a");
  add(2, 9, "a");
  add(3, 9, "a");
  add(4, 9, "b");
  EXPECT_THAT(pairs(runner_.advance(kStart).submit),
              ElementsAre(P{1, 0}, P{4, 0}, P{2, 0}, P{4, 1}, P{3, 0}, P{4, 2}));
  std::map<std::int64_t, int> served;
  BatchLine over{1, 0};
  for (int i = 0; i < 16; ++i) {
    runner_.settled(over);
    const std::vector<BatchLine> next = runner_.advance(kStart).submit;
    ASSERT_EQ(next.size(), 1u);
    over = next[0];
    ++served[over.batch];
  }
  EXPECT_EQ(served[4], 6) << "which then has no more";
}

/// Lines that wait at the broker, for hours perhaps.
TEST_F(Runner, whose_lines_are_not_answered_leaves_places_to_other_batches_and_callers) {
  runner_ = BatchRunner(RunnerLimits{.in_flight_max = 256});
  add(1, 1000, "a");
  EXPECT_EQ(runner_.advance(kStart).submit.size(), 204u) << "four fifths";
  add(2, 1000, "a");
  EXPECT_THAT(runner_.advance(kStart).submit,
              testing::SizeIs(testing::AllOf(testing::Ge(30u), testing::Le(45u))));
  for (std::int64_t number = 3; number < 40; ++number)
    add(number, 1000, "a");
  runner_.advance(kStart);
  EXPECT_THAT(runner_.in_flight(), testing::AllOf(testing::Ge(236u), testing::Le(244u)))
      << "sixteen parts of seventeen";
  add(50, 1000, "b");
  const auto actions = runner_.advance(kStart);
  EXPECT_THAT(actions.submit, testing::SizeIs(testing::Ge(8u)));
  EXPECT_EQ(actions.submit[0].batch, 50);
  runner_.settled(actions.submit[0]);
  EXPECT_THAT(pairs(runner_.advance(kStart).submit),
              ElementsAre(P{50, static_cast<int>(actions.submit.size())}));
}

TEST_F(Runner, one_place_alone_is_used) {
  runner_ = BatchRunner(RunnerLimits{.in_flight_max = 1});
  add(1, 2, "a");
  add(2, 2, "b");
  EXPECT_THAT(pairs(runner_.advance(kStart).submit), ElementsAre(P{1, 0}));
  runner_.settled({1, 0});
  EXPECT_THAT(pairs(runner_.advance(kStart).submit), ElementsAre(P{2, 0}));
}

TEST_F(Runner, ends_a_batch_when_every_line_has_its_answer) {
  add(1, 2);
  runner_.advance(kStart);

  runner_.settled({1, 0});
  EXPECT_THAT(runner_.advance(kStart).finished, IsEmpty());
  runner_.settled({1, 1});
  EXPECT_THAT(runner_.advance(kStart).finished, ElementsAre(1));
  EXPECT_EQ(runner_.batches(), 0u);
  EXPECT_EQ(runner_.next_wakeup(), std::nullopt);
}

TEST_F(Runner, waits_as_long_as_a_refusal_says) {
  add(1, 2);
  runner_.advance(kStart);

  runner_.refused({1, 0}, milliseconds(700), kStart);
  runner_.refused({1, 1}, milliseconds(700), kStart);
  EXPECT_THAT(pairs(runner_.advance(kStart + milliseconds(699)).submit), IsEmpty());
  EXPECT_EQ(runner_.next_wakeup(), kStart + milliseconds(700));
  EXPECT_THAT(pairs(runner_.advance(kStart + milliseconds(700)).submit), ElementsAre(P{1, 0}, P{1, 1}));
}

TEST_F(Runner, waits_longer_after_each_refusal_that_does_not_say_and_lets_others_go_on) {
  add(1, 1);
  WallTime now = kStart;
  for (const int expected : {100, 200, 400, 800, 1'600}) {
    ASSERT_THAT(pairs(runner_.advance(now).submit), ElementsAre(P{1, 0}));
    runner_.refused({1, 0}, std::nullopt, now);
    EXPECT_THAT(pairs(runner_.advance(now).submit), IsEmpty());
    ASSERT_EQ(runner_.next_wakeup(), now + milliseconds(expected));
    now += milliseconds(expected);
  }

  runner_.advance(now);
  runner_.refused({1, 0}, std::nullopt, now);
  add(2, 1);
  EXPECT_THAT(pairs(runner_.advance(now).submit), ElementsAre(P{2, 0}));
}

TEST_F(Runner, cancels_what_is_in_flight_and_ends_when_that_is_over) {
  add(1, 10);
  runner_.advance(kStart);
  runner_.settled({1, 0});

  runner_.cancel(1);
  auto actions = runner_.advance(kStart);
  EXPECT_THAT(pairs(actions.cancel), ElementsAre(P{1, 1}, P{1, 2}, P{1, 3}));
  EXPECT_THAT(actions.submit, IsEmpty());
  EXPECT_THAT(actions.finished, IsEmpty());
  EXPECT_TRUE(runner_.stopping(1));

  for (const std::uint32_t line : {1u, 2u, 3u})
    runner_.settled({1, line});
  EXPECT_THAT(runner_.advance(kStart).finished, ElementsAre(1));
}

TEST_F(Runner, does_not_wait_for_ever_for_what_it_cancelled) {
  add(1, 2);
  runner_.advance(kStart);
  runner_.cancel(1);
  runner_.advance(kStart);
  const WallTime patience = *runner_.next_wakeup();

  EXPECT_THAT(runner_.advance(patience - milliseconds(1)).finished, IsEmpty());
  EXPECT_THAT(runner_.advance(patience).finished, ElementsAre(1));
  EXPECT_EQ(runner_.in_flight(), 0u);
  runner_.settled({1, 0});  // too late, and nobody minds
}

TEST_F(Runner, expires_at_the_deadline) {
  add(1, 5);
  runner_.advance(kStart);

  EXPECT_EQ(runner_.next_wakeup(), kStart + kWindow);
  EXPECT_THAT(pairs(runner_.advance(kStart + kWindow).cancel),
              ElementsAre(P{1, 0}, P{1, 1}, P{1, 2}, P{1, 3}));
}

TEST_F(Runner, goes_on_where_an_earlier_life_stopped) {
  runner_.add({.number = 3,
               .done = {true, false, true, false, false},
               .started_to = 4,
               .deadline = kStart + kWindow});

  EXPECT_THAT(pairs(runner_.advance(kStart).submit), ElementsAre(P{3, 1}, P{3, 3}, P{3, 4}));
}

TEST_F(Runner, collects_what_an_earlier_life_may_have_left_at_the_broker) {
  runner_.add({.number = 3,
               .done = {true, false, true, false, false},
               .started_to = 4,
               .deadline = kStart + kWindow,
               .cancelling = true});

  const auto actions = runner_.advance(kStart);
  EXPECT_THAT(pairs(actions.collect), ElementsAre(P{3, 1}, P{3, 3}));
  EXPECT_THAT(actions.cancel, IsEmpty());
  EXPECT_THAT(actions.submit, IsEmpty());
  EXPECT_THAT(actions.finished, IsEmpty());
  runner_.settled({3, 1});
  EXPECT_THAT(runner_.advance(kStart).finished, IsEmpty());
  runner_.settled({3, 3});
  EXPECT_THAT(runner_.advance(kStart).finished, ElementsAre(3));
  EXPECT_EQ(runner_.in_flight(), 0u);
}

}  // namespace
}  // namespace lanemq::gateway
