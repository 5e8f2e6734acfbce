// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/learnt_budgets.hpp"

#include <gtest/gtest.h>

#include "broker/core/base/stored_entry.hpp"
#include "broker/core/budgets/budgets.hpp"

namespace lanemq::core {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr TimePoint kBegin{minutes(10)};

wire::UpstreamLimits stated(std::int64_t requests) {
  wire::UpstreamLimits limits;
  limits.limit_requests = requests;
  return limits;
}

BudgetSet learn(Budgets& budgets, std::string model, const wire::UpstreamLimits* limits, TimePoint now,
                std::string client = "c", bool in_use = false) {
  const BudgetSet before = budgets.match("chat", model, client, "normal");
  const BudgetSet set = budgets.begin_to_learn(
      before, {.service = "chat", .model = std::move(model), .client = std::move(client), .heard_at = now},
      limits, 0, [&](std::size_t) { return in_use; });
  if (limits != nullptr) budgets.learn({.set = set, .taken_at = now}, *limits, now);
  return set;
}

/// A call that is answered with these limits.
void call(Budgets& budgets, BudgetSet set, const wire::UpstreamLimits& limits, TimePoint now) {
  Reservation one = budgets.reserve(set, {}, now);
  budgets.settle(one, std::nullopt, now);
  budgets.learn(one, limits, now);
}

std::int64_t limit_of(Budgets& budgets, BudgetSet set, TimePoint now) {
  return budgets.all()[budgets.of(set).front()].quota.rates().front().effective_limit(now);
}

TEST(LearntBudgets, count_the_calls_of_their_service_and_model_alone) {
  Budgets budgets({}, true);
  const BudgetSet none = budgets.match("chat", "m", "c", "normal");
  EXPECT_TRUE(budgets.learns(none));
  const wire::UpstreamLimits limits = stated(40);

  const BudgetSet set = learn(budgets, "m", &limits, kBegin);

  EXPECT_TRUE(budgets.is_learnt(set));
  EXPECT_EQ(limit_of(budgets, set, kBegin), 40);
  EXPECT_EQ(budgets.match("chat", "m", "another", "low"), set);
  EXPECT_EQ(budgets.match("chat", "other", "c", "normal"), none);
  EXPECT_EQ(budgets.home(none, "chat", "m"), set) << "jobs that came before move";
  EXPECT_EQ(budgets.home(set, "chat", "other"), none) << "and go again where the place is another one's";
  EXPECT_EQ(learn(budgets, "m", &limits, kBegin), set) << "there is one for each";
}

TEST(LearntBudgets, are_not_made_where_a_budget_counts_or_nobody_asks_for_them) {
  BudgetOptions configured{.name = "b", .service = "chat"};
  configured.concurrency = 9;
  Budgets budgets({configured}, true);
  EXPECT_FALSE(budgets.learns(budgets.match("chat", "m", "c", "normal")));
  EXPECT_TRUE(budgets.learns(budgets.match("mail", "m", "c", "normal")));
  Budgets off({}, false);
  EXPECT_FALSE(off.learns(off.match("chat", "m", "c", "normal")));
}

TEST(LearntBudgets, follow_the_upstream_up_and_down) {
  Budgets budgets({}, true);
  wire::UpstreamLimits limits = stated(40);
  const BudgetSet set = learn(budgets, "m", &limits, kBegin);
  for (const std::int64_t now_stated : {20, 500}) {
    limits = stated(now_stated);
    budgets.learn({.set = set, .taken_at = kBegin}, limits, kBegin);
    EXPECT_EQ(limit_of(budgets, set, kBegin), now_stated);
  }
}

TEST(LearntBudgets, take_limits_that_are_stated_later) {
  Budgets budgets({}, true);
  wire::UpstreamLimits limits = stated(40);
  const BudgetSet set = learn(budgets, "m", &limits, kBegin);
  EXPECT_TRUE(budgets.take_relearnt());
  EXPECT_FALSE(budgets.counts_tokens(set));

  limits.limit_tokens = 9000;
  budgets.learn({.set = set, .taken_at = kBegin}, limits, kBegin);

  EXPECT_TRUE(budgets.take_relearnt()) << "jobs that wait cost tokens from now on";
  EXPECT_TRUE(budgets.counts_tokens(set));
  EXPECT_FALSE(budgets.obstacle(set, {.amounts = {.input_tokens = 9000}}, kBegin));
  EXPECT_EQ(budgets.obstacle(set, {.amounts = {.input_tokens = 9000}, .hold = 1000}, kBegin).name(), "");
}

TEST(LearntBudgets, count_what_is_under_way) {
  Budgets budgets({}, true);
  Reservation running = budgets.reserve(budgets.match("chat", "m", "c", "normal"), {}, kBegin);
  wire::UpstreamLimits limits = stated(1);
  limits.limit_concurrency = 1;
  const BudgetSet set = learn(budgets, "m", &limits, kBegin + seconds(1));

  budgets.move(running, set, kBegin + seconds(1));

  EXPECT_EQ(budgets.obstacle(set, {}, kBegin + seconds(1)).name(), "learnt:chat/m concurrency learnt=1");
  budgets.settle(running, std::nullopt, kBegin + seconds(2));
  EXPECT_EQ(budgets.obstacle(set, {}, kBegin + seconds(2)).name(),
            "learnt:chat/m requests_per_minute learnt=1");
  EXPECT_FALSE(budgets.obstacle(set, {}, kBegin + minutes(2)));
}

TEST(LearntBudgets, fall_to_what_was_sent_where_refusals_alone_show_the_limit) {
  Budgets budgets({}, true);
  const BudgetSet set = learn(budgets, "m", nullptr, kBegin);
  std::vector<Reservation> sent;
  for (int i = 0; i < 900; ++i)
    sent.push_back(budgets.reserve(set, {}, kBegin + i * std::chrono::milliseconds(50)));
  const TimePoint refused = kBegin + seconds(45);
  for (Reservation& one : sent)
    budgets.settle(one, Amounts{}, refused);

  budgets.cut({.set = set, .taken_at = refused}, refused);

  EXPECT_EQ(limit_of(budgets, set, refused), 900);
  budgets.cut({.set = set, .taken_at = refused}, refused + seconds(3));
  EXPECT_EQ(limit_of(budgets, set, refused + seconds(3)), 900) << "nothing was answered that went since";
  EXPECT_EQ(limit_of(budgets, set, refused + seconds(12)), 900) << "and it does not rise";
  budgets.succeeded({.set = set, .taken_at = refused + seconds(3)}, kNoMark, refused + seconds(12));
  budgets.cut({.set = set, .taken_at = refused}, refused + seconds(12));
  EXPECT_EQ(limit_of(budgets, set, refused + seconds(12)), 720);
  EXPECT_EQ(limit_of(budgets, set, refused + minutes(2)), 720) << "nothing goes";
  for (TimePoint now = refused + minutes(2); now < refused + minutes(4); now += std::chrono::milliseconds(50))
    if (!budgets.obstacle(set, {}, now)) {
      Reservation one = budgets.reserve(set, {}, now);
      budgets.settle(one, Amounts{}, now);
    }
  EXPECT_GT(limit_of(budgets, set, refused + minutes(4)), 2000) << "and it asks for more by and by";
}

TEST(LearntBudgets, make_way_when_nothing_is_heard_of_them_any_more) {
  Budgets budgets({}, true);
  const wire::UpstreamLimits limits = stated(40);
  for (std::size_t i = 0; i < LearntBudgets::kMax; ++i)
    ASSERT_TRUE(budgets.is_learnt(
        learn(budgets, "m" + std::to_string(i), &limits, kBegin, "client" + std::to_string(i % 8))));

  EXPECT_FALSE(budgets.is_learnt(learn(budgets, "more", &limits, kBegin + minutes(9))));
  EXPECT_FALSE(budgets.is_learnt(learn(budgets, "more", &limits, kBegin + minutes(11), "c", true)))
      << "jobs wait for each";
  for (Budget& budget : budgets.all())
    budget.paused = true;
  EXPECT_FALSE(budgets.is_learnt(learn(budgets, "more", &limits, kBegin + minutes(11))))
      << "an operator paused each";
  for (Budget& budget : budgets.all())
    budget.paused = false;
  EXPECT_TRUE(budgets.is_learnt(learn(budgets, "more", &limits, kBegin + minutes(11))));
  EXPECT_FALSE(budgets.is_learnt(budgets.match("chat", "m0", "c", "normal")));
  EXPECT_TRUE(budgets.is_learnt(budgets.match("chat", "m1", "c", "normal")));
}

TEST(LearntBudgets, are_not_one_clients_alone) {
  Budgets budgets({}, true);
  const wire::UpstreamLimits limits = stated(40);
  std::size_t made = 0;
  for (std::size_t i = 0; i < LearntBudgets::kMax; ++i)
    made += budgets.is_learnt(learn(budgets, "m" + std::to_string(i), &limits, kBegin)) ? 1 : 0;
  EXPECT_EQ(made, LearntBudgets::kMax - LearntBudgets::kForOthers);
  EXPECT_TRUE(budgets.is_learnt(learn(budgets, "other", &limits, kBegin, "another")));
}

TEST(LearntBudgets, are_known_after_a_restart_for_a_day) {
  Budgets before({}, true);
  wire::UpstreamLimits limits = stated(40);
  limits.limit_tokens = 9000;
  const BudgetSet set = learn(before, "m", &limits, kBegin);
  for (int i = 0; i < 30; ++i) {
    Reservation sent = before.reserve(set, {}, kBegin);
    before.settle(sent, std::nullopt, kBegin);
  }
  const std::vector<StoredEntry> saved = before.save({.budget = before.of(set).front()}, 0);

  BudgetOptions configured{.name = "b", .service = "mail"};
  Budgets after({configured}, true);
  after.restore_learnt(saved, 0, kBegin + seconds(1));

  const BudgetSet again = after.match("chat", "m", "c", "normal");
  ASSERT_TRUE(after.is_learnt(again));
  EXPECT_EQ(limit_of(after, again, kBegin + seconds(1)), 40);
  EXPECT_TRUE(after.counts_tokens(again));
  EXPECT_EQ(after.all()[after.of(again).front()].quota.rates().front().room(kBegin + seconds(1)), 10);

  Budgets counted({{.name = "b", .service = "ch*"}}, true);
  counted.restore_learnt(saved, 0, kBegin + seconds(1));
  EXPECT_EQ(counted.all().size(), 1U) << "all its jobs have a budget now";

  Budgets late({}, true);
  late.restore_learnt(saved, 0, kBegin + hours(25));
  EXPECT_FALSE(late.is_learnt(late.match("chat", "m", "c", "normal")));
}

TEST(LearntBudgets, have_the_burst_of_a_limit_that_is_configured) {
  Budgets budgets({}, true);
  const wire::UpstreamLimits limits = stated(600);
  const BudgetSet set = learn(budgets, "m", &limits, kBegin);
  int sent = 0;
  for (; !budgets.obstacle(set, {}, kBegin); ++sent) {
    Reservation one = budgets.reserve(set, {}, kBegin);
    budgets.settle(one, std::nullopt, kBegin);
  }
  EXPECT_EQ(sent, 60);
}

TEST(LearntBudgets, count_no_call_that_was_refused) {
  Budgets budgets({}, true);
  std::vector<Reservation> under_way;
  for (int i = 0; i < 9; ++i)
    under_way.push_back(budgets.reserve(budgets.match("chat", "m", "c", "normal"), {}, kBegin));
  const wire::UpstreamLimits limits = stated(20);
  const BudgetSet set = learn(budgets, "m", &limits, kBegin + seconds(1));
  for (Reservation& one : under_way)
    budgets.move(one, set, kBegin + seconds(1));
  RateLimit& rate = budgets.all()[budgets.of(set).front()].quota.rates().front();
  EXPECT_EQ(rate.room(kBegin + seconds(1)), 11);
  for (Reservation& one : under_way)
    budgets.release(one, kBegin + seconds(2));
  EXPECT_EQ(rate.room(kBegin + seconds(2)), 20);
}

TEST(LearntBudgets, believe_a_limit_of_a_day_that_is_stated_time_and_again) {
  Budgets budgets({}, true);
  wire::UpstreamLimits limits = stated(5);
  limits.period_requests_ms = 86'400'000;
  const BudgetSet set = learn(budgets, "m", &limits, kBegin);
  EXPECT_GT(limit_of(budgets, set, kBegin), 5) << "a stray word";
  for (int i = 0; i < 2; ++i)
    budgets.learn({.set = set, .taken_at = kBegin}, limits, kBegin);
  EXPECT_EQ(limit_of(budgets, set, kBegin), 5);
}

TEST(LearntBudgets, drop_a_limit_whose_words_are_about_a_shorter_period) {
  Budgets budgets({}, true);
  wire::UpstreamLimits limits = stated(10);
  limits.remaining_requests = 9;
  limits.reset_requests_ms = 1000;
  const BudgetSet set = learn(budgets, "m", &limits, kBegin);
  for (int second = 0; second <= 42; second += 6)
    call(budgets, set, limits, kBegin + seconds(second));
  EXPECT_GT(limit_of(budgets, set, kBegin + seconds(42)), 1000);
  call(budgets, set, limits, kBegin + seconds(48));
  EXPECT_GT(limit_of(budgets, set, kBegin + seconds(48)), 1000) << "none of them is believed any more";
}

TEST(LearntBudgets, keep_a_limit_whose_bucket_is_nearly_full) {
  Budgets budgets({}, true);
  wire::UpstreamLimits limits = stated(600);
  limits.remaining_requests = 598;
  limits.reset_requests_ms = 200;
  const BudgetSet set = learn(budgets, "m", &limits, kBegin);
  for (int second = 1; second <= 60; ++second)
    call(budgets, set, limits, kBegin + seconds(second));
  EXPECT_EQ(limit_of(budgets, set, kBegin + seconds(60)), 600);
}

TEST(LearntBudgets, hold_back_a_job_alone_that_is_refused_while_others_are_answered) {
  Budgets budgets({}, true);
  const BudgetSet set = learn(budgets, "m", nullptr, kBegin);
  const auto refuse = [&](std::uint64_t job, TimePoint now) {
    return budgets.pause({.set = set, .taken_at = now},
                         {.model = "m", .client = "c", .until = now + seconds(2), .job = job}, now,
                         [](std::size_t) { return false; });
  };
  EXPECT_EQ(refuse(7, kBegin), Budgets::HeldBack::all);
  EXPECT_EQ(budgets.refuses_again(set), 0U);
  EXPECT_EQ(refuse(7, kBegin + seconds(2)), Budgets::HeldBack::all) << "nobody else was answered";
  EXPECT_EQ(budgets.refuses_again(set), 1U);
  for (int i = 0; i < 3; ++i)
    budgets.succeeded({.set = set, .taken_at = kBegin + seconds(4)}, kNoMark, kBegin + seconds(4));
  EXPECT_EQ(refuse(7, kBegin + seconds(5)), Budgets::HeldBack::nobody);
  EXPECT_EQ(refuse(7, kBegin + seconds(6)), Budgets::HeldBack::nobody);
  EXPECT_EQ(refuse(8, kBegin + seconds(7)), Budgets::HeldBack::all) << "another one is refused, too";
  EXPECT_EQ(budgets.refuses_again(set), 0U);
}

TEST(Budgets, hold_back_a_job_alone_that_is_refused_each_time_when_another_was_answered) {
  Budgets budgets(
      {{.name = "b", .rates = {{.name = "requests_per_minute", .limit = 600, .period = minutes(1)}}}}, false);
  const BudgetSet set = budgets.match("chat", "", "c", "normal");
  TimePoint now = kBegin;
  const auto refuse = [&] {
    now += seconds(1);
    return budgets.pause({.set = set, .taken_at = now},
                         {.client = "c", .until = now + seconds(1), .by = LimitedBy::rate, .job = 7}, now,
                         [](std::size_t) { return false; });
  };
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(refuse(), Budgets::HeldBack::all);
    now += seconds(2);
    budgets.succeeded({.set = set, .taken_at = now}, kNoMark, now);
  }
  EXPECT_LT(limit_of(budgets, set, now), 600);
  EXPECT_EQ(refuse(), Budgets::HeldBack::nobody);
  EXPECT_EQ(limit_of(budgets, set, now), 600) << "they were about that job";
}

TEST(LearntBudgets, have_names_that_an_operator_can_say) {
  EXPECT_EQ(LearntBudgets::options_for({.service = "chat", .model = ""}).name, "learnt:chat");
  const std::string long_name =
      LearntBudgets::options_for({.service = std::string(120, 's'), .model = "éé"}).name;
  EXPECT_LE(long_name.size(), 128u);
  EXPECT_EQ(long_name.substr(0, 7), "learnt:");
}

}  // namespace
}  // namespace lanemq::core
