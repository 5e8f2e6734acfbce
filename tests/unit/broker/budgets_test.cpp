// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets.hpp"

#include <gtest/gtest.h>

namespace lanemq::core {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr TimePoint kStart{};

BudgetOptions requests(std::string name, std::string service, std::int64_t limit) {
  BudgetOptions budget;
  budget.name = std::move(name);
  budget.service = std::move(service);
  budget.rates = {{.name = "requests_per_minute", .limit = limit, .period = minutes(1), .capacity = limit}};
  budget.window = WindowKind::bucket;
  return budget;
}

BudgetOptions concurrent(std::string name, std::string service, std::int64_t concurrency) {
  BudgetOptions budget;
  budget.name = std::move(name);
  budget.service = std::move(service);
  budget.concurrency = concurrency;
  return budget;
}

TEST(Budgets, a_job_is_under_every_budget_whose_patterns_fit) {
  BudgetOptions model = requests("model", "", 5);
  model.model = "gpt-4*";
  BudgetOptions client = requests("client", "", 5);
  client.client = "team-?";
  BudgetOptions lane = requests("lane", "", 5);
  lane.lane = "batch";
  Budgets budgets({requests("all", "", 5), model, client, lane});

  const BudgetSet plain = budgets.match("s", "m", "c", "normal");
  EXPECT_EQ(budgets.match("t", "n", "d", "high"), plain) << "equal sets are one set";
  EXPECT_NE(budgets.match("s", "gpt-4.1", "c", "normal"), plain);
  EXPECT_NE(budgets.match("s", "m", "team-1", "normal"), plain);
  EXPECT_EQ(budgets.match("s", "m", "team-12", "normal"), plain);
  EXPECT_NE(budgets.match("s", "m", "c", "batch"), plain);
}

TEST(Budgets, without_budgets_everything_is_affordable) {
  Budgets budgets({});
  const BudgetSet none = budgets.match("s", "m", "c", "l");
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(budgets.affordable(none, kStart));
    budgets.reserve(none, kStart);
  }
}

TEST(Budgets, a_job_that_one_budget_refuses_takes_nothing_from_the_others) {
  Budgets budgets({requests("wide", "", 2), requests("narrow", "s", 1)});
  const BudgetSet both = budgets.match("s", "", "", ""), wide = budgets.match("t", "", "", "");
  ASSERT_TRUE(budgets.affordable(both, kStart));
  budgets.reserve(both, kStart);

  for (int i = 0; i < 10; ++i)
    EXPECT_FALSE(budgets.affordable(both, kStart));

  EXPECT_TRUE(budgets.affordable(wide, kStart));
  budgets.reserve(wide, kStart);
  EXPECT_FALSE(budgets.affordable(wide, kStart));
}

TEST(Budgets, asking_costs_nothing) {
  Budgets budgets({requests("b", "", 1)});
  const BudgetSet set = budgets.match("s", "", "", "");
  for (int i = 0; i < 10; ++i)
    EXPECT_TRUE(budgets.affordable(set, kStart));
}

TEST(Budgets, settling_frees_the_place_and_keeps_the_request) {
  BudgetOptions options = requests("b", "", 2);
  options.concurrency = 1;
  Budgets budgets({options});
  const BudgetSet set = budgets.match("s", "", "", "");
  Reservation first = budgets.reserve(set, kStart);
  EXPECT_FALSE(budgets.affordable(set, kStart));
  EXPECT_EQ(budgets.when_affordable(set, kStart), kNever) << "only an outcome can tell";

  budgets.settle(first);
  EXPECT_FALSE(first.held);
  ASSERT_TRUE(budgets.affordable(set, kStart));
  Reservation second = budgets.reserve(set, kStart);
  budgets.settle(second);

  EXPECT_FALSE(budgets.affordable(set, kStart)) << "both requests are spent";
}

TEST(Budgets, releasing_gives_back_the_place_and_the_request) {
  BudgetOptions options = requests("b", "", 1);
  options.concurrency = 1;
  Budgets budgets({options});
  const BudgetSet set = budgets.match("s", "", "", "");
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(budgets.affordable(set, kStart));
    Reservation reservation = budgets.reserve(set, kStart);
    budgets.release(reservation, kStart);
  }
}

TEST(Budgets, a_pause_is_only_ever_lengthened) {
  Budgets budgets({requests("b", "", 10)});
  const BudgetSet set = budgets.match("s", "", "", "");

  EXPECT_TRUE(budgets.pause(set, TimePoint(seconds(5))));
  EXPECT_TRUE(budgets.pause(set, TimePoint(seconds(2))));

  EXPECT_FALSE(budgets.affordable(set, TimePoint(seconds(5) - milliseconds(1))));
  EXPECT_EQ(budgets.when_affordable(set, kStart), TimePoint(seconds(5)));
  EXPECT_TRUE(budgets.affordable(set, TimePoint(seconds(5))));
}

TEST(Budgets, a_pause_is_for_budgets_that_count_requests) {
  Budgets budgets({concurrent("c", "", 3)});
  const BudgetSet set = budgets.match("s", "", "", "");
  EXPECT_FALSE(budgets.pause(set, TimePoint(seconds(5))));
  EXPECT_TRUE(budgets.affordable(set, kStart));
}

TEST(Budgets, names_the_limit_that_stands_in_the_way) {
  Budgets budgets({concurrent("slots", "s", 1), requests("rate", "t", 1), requests("paused", "u", 1)});
  const BudgetSet s = budgets.match("s", "", "", ""), t = budgets.match("t", "", "", ""),
                  u = budgets.match("u", "", "", "");
  EXPECT_EQ(budgets.blocked_by(s, kStart), "");
  budgets.reserve(s, kStart);
  budgets.reserve(t, kStart);
  budgets.pause(u, TimePoint(seconds(1)));

  EXPECT_EQ(budgets.blocked_by(s, kStart), "budget slots concurrency");
  EXPECT_EQ(budgets.blocked_by(t, kStart), "budget rate requests_per_minute");
  EXPECT_EQ(budgets.blocked_by(u, kStart), "budget paused paused by its upstream");
}

}  // namespace
}  // namespace lanemq::core
