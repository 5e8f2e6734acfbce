// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/budgets.hpp"

#include <deque>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "broker/core/budgets/shared/bank.hpp"
#include "broker/core/jobs/stored.hpp"

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

BudgetOptions tokens(Resource resource, std::int64_t limit, std::int64_t capacity = 0,
                     WindowKind window = WindowKind::bucket) {
  BudgetOptions budget;
  budget.name = "b";
  budget.rates.push_back({"tokens_per_minute", limit, minutes(1), capacity, resource});
  budget.window = window;
  return budget;
}

/// The upstream asks for a pause, and says what its limits are.
bool pause(Budgets& budgets, const Reservation& reservation, TimePoint until, TimePoint now,
           std::string_view model = {}, std::string_view client = {}) {
  return budgets.pause(reservation, {.model = model, .client = client, .until = until, .told = true}, now,
                       [](std::size_t) { return false; }) != Budgets::HeldBack::nobody;
}

bool affordable(Budgets& budgets, BudgetSet set, TimePoint now, const Amounts& amounts = {}) {
  return !budgets.obstacle(set, {.amounts = amounts}, now);
}

/// When all budgets of the set may have room.
TimePoint when_affordable(Budgets& budgets, BudgetSet set, TimePoint now, const Amounts& amounts = {}) {
  TimePoint latest = now;
  for (const std::size_t budget : budgets.of(set)) {
    const Obstacle obstacle = budgets.obstacle_of(set, budget, {.amounts = amounts}, now);
    if (obstacle) latest = std::max(latest, obstacle.until);
  }
  return latest;
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
    ASSERT_TRUE(affordable(budgets, none, kStart));
    budgets.reserve(none, {.amounts = {}}, kStart);
  }
}

TEST(Budgets, a_job_that_one_budget_refuses_takes_nothing_from_the_others) {
  Budgets budgets({requests("wide", "", 2), requests("narrow", "s", 1)});
  const BudgetSet both = budgets.match("s", "", "", ""), wide = budgets.match("t", "", "", "");
  ASSERT_TRUE(affordable(budgets, both, kStart));
  budgets.reserve(both, {.amounts = {}}, kStart);

  for (int i = 0; i < 10; ++i)
    EXPECT_FALSE(affordable(budgets, both, kStart));

  EXPECT_TRUE(affordable(budgets, wide, kStart));
  budgets.reserve(wide, {.amounts = {}}, kStart);
  EXPECT_FALSE(affordable(budgets, wide, kStart));
}

TEST(Budgets, asking_costs_nothing) {
  Budgets budgets({requests("b", "", 1)});
  const BudgetSet set = budgets.match("s", "", "", "");
  for (int i = 0; i < 10; ++i)
    EXPECT_TRUE(affordable(budgets, set, kStart));
}

TEST(Budgets, settling_frees_the_place_and_keeps_the_request) {
  BudgetOptions options = requests("b", "", 2);
  options.concurrency = 1;
  Budgets budgets({options});
  const BudgetSet set = budgets.match("s", "", "", "");
  Reservation first = budgets.reserve(set, {.amounts = {}}, kStart);
  EXPECT_FALSE(affordable(budgets, set, kStart));
  EXPECT_EQ(when_affordable(budgets, set, kStart), kNever) << "only an outcome can tell";

  budgets.settle(first, std::nullopt, kStart);
  EXPECT_FALSE(first.held);
  ASSERT_TRUE(affordable(budgets, set, kStart));
  Reservation second = budgets.reserve(set, {.amounts = {}}, kStart);
  budgets.settle(second, std::nullopt, kStart);

  EXPECT_FALSE(affordable(budgets, set, kStart)) << "both requests are spent";
}

TEST(Budgets, releasing_gives_back_the_place_and_the_request) {
  BudgetOptions options = requests("b", "", 1);
  options.concurrency = 1;
  Budgets budgets({options});
  const BudgetSet set = budgets.match("s", "", "", "");
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(affordable(budgets, set, kStart));
    Reservation reservation = budgets.reserve(set, {.amounts = {}}, kStart);
    budgets.release(reservation, kStart);
  }
}

TEST(Budgets, a_pause_is_only_ever_lengthened) {
  Budgets budgets({requests("b", "", 60)});
  const BudgetSet set = budgets.match("s", "", "", "");

  EXPECT_TRUE(pause(budgets, {.set = set}, TimePoint(seconds(5)), kStart));
  EXPECT_TRUE(pause(budgets, {.set = set}, TimePoint(seconds(2)), TimePoint(seconds(1))));

  EXPECT_FALSE(affordable(budgets, set, TimePoint(seconds(5) - milliseconds(1))));
  EXPECT_EQ(when_affordable(budgets, set, kStart), TimePoint(seconds(5)));
  EXPECT_TRUE(affordable(budgets, set, TimePoint(seconds(5))));
}

TEST(Budgets, a_model_is_paused_alone_unless_two_are_refused) {
  Budgets budgets({requests("b", "", 60)});
  const BudgetSet set = budgets.match("s", "", "", "");
  const TimePoint later = kStart + seconds(1);
  budgets.succeeded({.set = set, .taken_at = kStart}, mark_of("good"), later);
  EXPECT_TRUE(pause(budgets, {.set = set}, kStart + std::chrono::hours(7), later, "new"));

  EXPECT_TRUE(affordable(budgets, set, later));
  const BudgetSet apart = budgets.match("s", "new", "", "");
  EXPECT_NE(apart, set);
  EXPECT_EQ(budgets.home(set, "s", "new"), apart);
  EXPECT_EQ(budgets.home(apart, "s", "good"), set);
  EXPECT_EQ(budgets.obstacle(apart, {}, later).name(), "b paused by model=new");
  EXPECT_EQ(budgets.upstream_pause(apart, later).until, later + kPauseProbedAfter + Budgets::kOthersFirst);
  EXPECT_TRUE(affordable(budgets, apart, kStart + std::chrono::hours(7)));

  // Two are refused, and no other is answered meanwhile: it is about all, and whoever comes next finds out.
  const TimePoint idle = later + Budgets::kOthersWithin + seconds(1);
  EXPECT_TRUE(pause(budgets, {.set = set}, idle + std::chrono::hours(7), idle, "third"));
  EXPECT_TRUE(affordable(budgets, set, idle)) << "the first one's refusal was long ago";
  EXPECT_TRUE(pause(budgets, {.set = set}, idle + std::chrono::hours(7), idle + seconds(1), "third"));
  EXPECT_TRUE(affordable(budgets, set, idle + seconds(1))) << "it alone was refused twice";
  budgets.succeeded({.set = set, .taken_at = idle}, mark_of("good"), idle + seconds(1));
  EXPECT_TRUE(pause(budgets, {.set = set}, idle + std::chrono::hours(7), idle + seconds(2), "fourth"));
  EXPECT_TRUE(affordable(budgets, set, idle + seconds(2)))
      << "another was answered after the third one's refusal";
  EXPECT_TRUE(pause(budgets, {.set = set}, idle + std::chrono::hours(7), idle + seconds(2), "third"));
  EXPECT_TRUE(affordable(budgets, set, idle + seconds(2))) << "another was answered a second before";
  const TimePoint silent = idle + seconds(2) + Budgets::kAnsweredLately;
  EXPECT_TRUE(pause(budgets, {.set = set}, silent + std::chrono::hours(7), silent, "third"));
  EXPECT_FALSE(affordable(budgets, set, silent));
  EXPECT_TRUE(affordable(budgets, set, silent + kPauseProbedAfter));
}

TEST(Budgets, of_models_apart_a_client_has_a_quarter_and_none_is_beyond_the_bound) {
  Budgets budgets({requests("b", "", 60)});
  const BudgetSet set = budgets.match("s", "", "", "");
  const auto refused = [&](int model, const std::string& client, TimePoint now) {
    budgets.succeeded({.set = set, .taken_at = now - seconds(1)}, mark_of("good"), now);
    return pause(budgets, {.set = set}, now + minutes(5), now, "m" + std::to_string(model), client);
  };
  const TimePoint now = kStart + seconds(1);
  for (int i = 0; i < 16; ++i)
    EXPECT_TRUE(refused(i, "noisy", now));
  EXPECT_FALSE(refused(16, "noisy", now)) << "its job waits itself";
  for (int i = 16; i < 64; ++i)
    EXPECT_TRUE(refused(i, "client-" + std::to_string(i / 16), now));
  EXPECT_FALSE(refused(64, "somebody", now));
  EXPECT_TRUE(refused(64, "somebody", now + minutes(6))) << "in the place of one that is over";
  EXPECT_TRUE(affordable(budgets, set, now + minutes(6)));
}

TEST(Budgets, a_pause_is_for_budgets_that_count_requests) {
  Budgets budgets({concurrent("c", "", 3)});
  const BudgetSet set = budgets.match("s", "", "", "");
  EXPECT_FALSE(pause(budgets, {.set = set}, TimePoint(seconds(5)), kStart));
  EXPECT_TRUE(affordable(budgets, set, kStart));
}

TEST(Budgets, names_the_limit_that_stands_in_the_way) {
  Budgets budgets({concurrent("slots", "s", 1), requests("rate", "t", 1), requests("paused", "u", 1)});
  const BudgetSet s = budgets.match("s", "", "", ""), t = budgets.match("t", "", "", ""),
                  u = budgets.match("u", "", "", "");
  EXPECT_EQ(budgets.obstacle(s, {}, kStart).name(), "");
  budgets.reserve(s, {.amounts = {}}, kStart);
  budgets.reserve(t, {.amounts = {}}, kStart);
  pause(budgets, {.set = u}, TimePoint(seconds(1)), kStart);

  EXPECT_EQ(budgets.obstacle(s, {}, kStart).name(), "slots concurrency");
  EXPECT_EQ(budgets.obstacle(t, {}, kStart).name(), "rate requests_per_minute");
  EXPECT_EQ(budgets.obstacle(u, {}, kStart).name(), "paused paused by its upstream");
}

TEST(Budgets, tokens_are_counted_as_the_limit_says) {
  const Amounts job{.input_tokens = 30, .output_tokens = 20};
  const std::pair<Resource, std::int64_t> takes[] = {{Resource::tokens, 50},
                                                     {Resource::input_tokens, 30},
                                                     {Resource::output_tokens, 20},
                                                     {Resource::requests, 1}};
  for (const auto& [resource, amount] : takes) {
    Budgets budgets({tokens(resource, 1000, 1000)});
    const BudgetSet set = budgets.match("s", "", "", "");
    EXPECT_EQ(budgets.counts_tokens(set), resource != Resource::requests);
    budgets.reserve(set, {.amounts = job}, kStart);
    EXPECT_EQ(budgets.all()[0].quota.rates()[0].available(kStart), 1000 - amount);
  }
}

// Others check and then act: many calls pass before the first is counted.
TEST(Budgets, what_is_taken_is_gone_for_the_next_at_once) {
  Budgets budgets({tokens(Resource::tokens, 100, 100)});
  const BudgetSet set = budgets.match("s", "", "", "");
  const Amounts job{.input_tokens = 40, .output_tokens = 20};
  int admitted = 0;
  for (int i = 0; i < 20; ++i) {
    if (!affordable(budgets, set, kStart, job)) continue;
    budgets.reserve(set, {.amounts = job}, kStart);
    ++admitted;
  }
  EXPECT_EQ(admitted, 1);
}

TEST(Budgets, settling_gives_back_what_was_not_used_and_owes_what_was_more) {
  Budgets budgets({tokens(Resource::tokens, 1000, 1000)});
  const BudgetSet set = budgets.match("s", "", "", "");
  RateLimit& rate = budgets.all()[0].quota.rates()[0];
  const Amounts expected{.input_tokens = 300, .output_tokens = 300};

  Reservation cheap = budgets.reserve(set, {.amounts = expected}, kStart);
  budgets.settle(cheap, Amounts{.input_tokens = 100, .output_tokens = 50}, kStart);
  EXPECT_EQ(rate.available(kStart), 850);

  Reservation unknown = budgets.reserve(set, {.amounts = expected}, kStart);
  budgets.settle(unknown, std::nullopt, kStart);
  EXPECT_EQ(rate.available(kStart), 250) << "what nobody knows is taken to be used";

  Reservation dear = budgets.reserve(set, {.amounts = {.input_tokens = 100, .output_tokens = 100}}, kStart);
  budgets.settle(dear, Amounts{.input_tokens = 700, .output_tokens = 100}, kStart);
  EXPECT_EQ(rate.available(kStart), -550) << "a debt";
  EXPECT_FALSE(affordable(budgets, set, kStart, {.input_tokens = 1}));
  EXPECT_EQ(rate.available(kStart + seconds(33)), 0) << "paid back at the limit's pace";
}

TEST(Budgets, an_upstream_that_counts_the_bound_of_an_answer_gives_nothing_back_of_it) {
  BudgetOptions options = tokens(Resource::tokens, 1000, 1000);
  options.output = OutputCount::bound;
  Budgets budgets({options});
  const BudgetSet set = budgets.match("s", "", "", "");
  EXPECT_TRUE(budgets.counts_bound(set));
  RateLimit& rate = budgets.all()[0].quota.rates()[0];
  Reservation sent = budgets.reserve(set, {.amounts = {.input_tokens = 100, .output_tokens = 300}}, kStart);
  budgets.settle(sent, Amounts{.input_tokens = 90, .output_tokens = 10}, kStart);
  EXPECT_EQ(rate.available(kStart), 1000 - 90 - 300);
  Reservation untouched =
      budgets.reserve(set, {.amounts = {.input_tokens = 100, .output_tokens = 300}}, kStart);
  budgets.release(untouched, kStart);
  EXPECT_EQ(rate.available(kStart), 1000 - 90 - 300);
}

TEST(Budgets, a_job_larger_than_the_burst_runs_when_the_bucket_is_full_and_leaves_debt) {
  Budgets budgets({tokens(Resource::tokens, 6000, 100)});
  const BudgetSet set = budgets.match("s", "", "", "");
  const Amounts large{.input_tokens = 1000};
  budgets.reserve(set, {.amounts = {.input_tokens = 1}}, kStart);
  EXPECT_FALSE(affordable(budgets, set, kStart, large));
  EXPECT_EQ(when_affordable(budgets, set, kStart, large), kStart + milliseconds(10));
  ASSERT_TRUE(affordable(budgets, set, kStart + milliseconds(10), large));
  budgets.reserve(set, {.amounts = large}, kStart + milliseconds(10));
  EXPECT_EQ(budgets.all()[0].quota.rates()[0].available(kStart + milliseconds(10)), -900);
  EXPECT_FALSE(budgets.unsatisfiable(set, large));
  const Obstacle never = budgets.unsatisfiable(set, {.input_tokens = 6001});
  ASSERT_TRUE(never);
  EXPECT_EQ(never.name(), "b tokens_per_minute");
}

TEST(Budgets, a_guessed_answer_never_asks_for_more_than_the_bursts) {
  Budgets budgets({tokens(Resource::tokens, 1000, 100), tokens(Resource::output_tokens, 600, 60)});
  const BudgetSet set = budgets.match("s", "", "", "");
  Amounts amounts{.input_tokens = 70, .output_tokens = 1024};
  budgets.cut_output(set, amounts);
  EXPECT_EQ(amounts.output_tokens, 30);
  EXPECT_FALSE(budgets.unsatisfiable(set, amounts));
}

TEST(Budgets, what_the_upstream_says_of_a_minute_counts_for_limits_of_a_minute) {
  BudgetOptions options = tokens(Resource::tokens, 1000);
  options.rates.push_back({"requests_per_minute", 60, minutes(1), 0, Resource::requests});
  options.rates.push_back({"requests_per_second", 10, seconds(1), 0, Resource::requests});
  Budgets budgets({options});
  const BudgetSet set = budgets.match("s", "", "", "");
  wire::UpstreamLimits said;
  said.limit_requests = 6;
  said.limit_tokens = 400;
  budgets.learn(budgets.reserve(set, {.amounts = {}}, kStart), said, kStart);
  auto& rates = budgets.all()[0].quota.rates();
  EXPECT_EQ(rates[0].effective_limit(kStart), 400);
  EXPECT_EQ(rates[1].effective_limit(kStart), 6);
  EXPECT_EQ(rates[2].effective_limit(kStart), 10);
  budgets.cut({.set = set}, kStart);
  EXPECT_EQ(rates[0].effective_limit(kStart), 320);
}

TEST(Budgets, an_overloaded_upstream_gets_fewer_jobs_at_once_and_answers_bring_them_back) {
  Budgets budgets({concurrent("b", "", 10)});
  const BudgetSet set = budgets.match("s", "", "", "");
  const ConcurrencyLimit& limit = budgets.all()[0].quota.concurrency();
  TimePoint now = kStart;
  std::vector<Reservation> wave;
  for (int i = 0; i < 10; ++i)
    wave.push_back(budgets.reserve(set, {.amounts = {}}, now));
  ASSERT_FALSE(affordable(budgets, set, now));

  now += seconds(1);
  for (Reservation& reservation : wave) {
    budgets.settle(reservation, std::nullopt, now);
    budgets.overloaded(reservation, now);
  }
  EXPECT_EQ(limit.limit(), 7) << "one wave is one sign";
  EXPECT_EQ(limit.running(), 0);
  for (int i = 0; i < 7; ++i)
    budgets.reserve(set, {.amounts = {}}, now);
  EXPECT_FALSE(affordable(budgets, set, now));

  for (int i = 0; i < 7; ++i)
    budgets.succeeded({.set = set, .taken_at = now}, kNoMark, now);
  EXPECT_EQ(limit.limit(), 8) << "one more for a full round";
  for (int i = 0; i < 100; ++i)
    budgets.succeeded({.set = set, .taken_at = now}, kNoMark, now);
  EXPECT_EQ(limit.limit(), 10) << "and never more than is configured";
  for (int i = 0; i < 20; ++i)
    budgets.overloaded({.set = set, .taken_at = now += seconds(1)}, now);
  EXPECT_EQ(limit.limit(), 1) << "one may always go";
}

TEST(Budgets, without_a_concurrency_an_overloaded_upstream_changes_nothing) {
  Budgets budgets({requests("b", "", 600)});
  const BudgetSet set = budgets.match("s", "", "", "");
  budgets.overloaded(budgets.reserve(set, {.amounts = {}}, kStart), kStart);
  EXPECT_TRUE(affordable(budgets, set, kStart));
  EXPECT_EQ(budgets.all()[0].quota.rates()[0].effective_limit(kStart), 600);
}

TEST(Budgets, a_pause_forgives_no_debt) {
  Budgets budgets({tokens(Resource::tokens, 6000, 1000)});
  const BudgetSet set = budgets.match("s", "", "", "");
  RateLimit& rate = budgets.all()[0].quota.rates()[0];
  Reservation dear = budgets.reserve(set, {.amounts = {.input_tokens = 100}}, kStart);
  budgets.settle(dear, Amounts{.input_tokens = 2000}, kStart);
  ASSERT_EQ(rate.available(kStart), -1000);

  pause(budgets, {.set = set}, TimePoint(seconds(2)), kStart);

  EXPECT_EQ(rate.available(kStart), -1000);
  EXPECT_EQ(rate.available(TimePoint(seconds(2))), -800) << "it is paid back at the limit's pace";
}

TEST(Budgets, a_short_pause_leaves_the_limit_of_a_day_alone) {
  BudgetOptions options = requests("b", "", 600);
  options.rates.push_back({"requests_per_day", 100, std::chrono::hours(24), 10, Resource::requests});
  Budgets budgets({options});
  const BudgetSet set = budgets.match("s", "", "", "");
  pause(budgets, {.set = set}, TimePoint(seconds(1)), kStart);
  EXPECT_EQ(budgets.all()[0].quota.rates()[0].available(TimePoint(seconds(1))), 1);
  EXPECT_EQ(budgets.all()[0].quota.rates()[1].available(TimePoint(seconds(1))), 10);
}

TEST(Budgets, says_which_of_them_may_have_room_for_another_reason_than_time) {
  BudgetOptions slots;
  slots.name = "slots";
  slots.concurrency = 1;
  Budgets budgets({tokens(Resource::tokens, 1000, 100), slots});
  const BudgetSet set = budgets.match("s", "", "", "");
  Reservation one = budgets.reserve(set, {.amounts = {.input_tokens = 50}}, kStart);
  EXPECT_THAT(budgets.take_eased(), testing::IsEmpty());

  budgets.settle(one, Amounts{.input_tokens = 50}, kStart);
  EXPECT_THAT(budgets.take_eased(), testing::ElementsAre(1)) << "a place is free";
  Reservation other = budgets.reserve(set, {.amounts = {.input_tokens = 50}}, kStart);
  budgets.settle(other, Amounts{.input_tokens = 49}, kStart);
  EXPECT_THAT(budgets.take_eased(), testing::ElementsAre(0, 1)) << "a token was given back, too";
  EXPECT_THAT(budgets.take_eased(), testing::IsEmpty());

  wire::UpstreamLimits said;
  said.limit_tokens = 500;
  budgets.learn(other, said, kStart);
  budgets.take_eased();
  budgets.learn(other, said, kStart);
  EXPECT_THAT(budgets.take_eased(), testing::IsEmpty()) << "nothing new was said";
  said.limit_tokens = 1000;
  budgets.learn(other, said, kStart);
  EXPECT_THAT(budgets.take_eased(), testing::ElementsAre(0)) << "the limit rises again";
}

/// Sends whatever may be sent, with sizes and errors of the guess drawn at random, and counts every window of
/// the upstream by itself: the limit holds but for what was guessed too low.
TEST(Budgets, no_window_holds_more_tokens_than_the_limit_but_for_the_guess) {
  const bool holds = rc::check([](const std::vector<std::uint16_t>& draws) {
    constexpr std::int64_t kLimit = 10000;
    Budgets budgets({tokens(Resource::tokens, kLimit, 0, WindowKind::sliding)});
    const BudgetSet set = budgets.match("s", "", "", "");
    std::vector<std::pair<TimePoint, std::int64_t>> sent;
    TimePoint now = kStart;
    std::int64_t largest_error = 0;
    for (const std::uint16_t draw : draws) {
      const std::int64_t guess = 1 + draw % 3000;
      const std::int64_t error = static_cast<std::int64_t>(draw % 7) * 20 - 60;
      const std::int64_t actual = std::max<std::int64_t>(guess + error, 0);
      const Amounts amounts{.input_tokens = guess};
      for (int waits = 0; !affordable(budgets, set, now, amounts); ++waits) {
        RC_ASSERT(waits < 20000);
        now = std::max(when_affordable(budgets, set, now, amounts), now + milliseconds(1));
      }
      Reservation reservation = budgets.reserve(set, {.amounts = amounts}, now);
      budgets.settle(reservation, Amounts{.input_tokens = actual}, now);
      sent.emplace_back(now, actual);
      largest_error = std::max(largest_error, actual - guess);
    }
    for (std::size_t first = 0; first < sent.size(); ++first) {
      std::int64_t sum = 0;
      for (std::size_t i = first; i < sent.size() && sent[i].first < sent[first].first + minutes(1); ++i)
        sum += sent[i].second;
      RC_ASSERT(sum <= kLimit + largest_error);
    }
  });
  EXPECT_TRUE(holds);
}

// ---- keys

KeyOptions key(const std::string& name, std::int64_t per_minute, std::int64_t capacity,
               const std::string& group = "") {
  KeyOptions options{.name = name, .quota_group = group};
  if (per_minute > 0)
    options.rates.push_back({.name = "requests_per_minute",
                             .limit = per_minute,
                             .period = std::chrono::minutes(1),
                             .capacity = capacity,
                             .resource = Resource::requests});
  return options;
}

Budgets with_keys(std::vector<KeyOptions> keys) {
  BudgetOptions options;
  options.name = "b";
  options.window = WindowKind::bucket;
  options.keys = std::move(keys);
  return Budgets({options});
}

TEST(Budgets, a_job_gets_the_key_with_the_most_room_for_what_it_can_hold) {
  Budgets budgets = with_keys({key("small", 60, 10), key("large", 600, 100)});
  const BudgetSet set = budgets.match("s", "", "", "");
  for (int i = 0; i < 110; ++i) {
    ASSERT_TRUE(affordable(budgets, set, kStart)) << i;
    budgets.reserve(set, {}, kStart);
  }
  EXPECT_FALSE(affordable(budgets, set, kStart));
  EXPECT_EQ(budgets.all()[0].keys[0].given, 10u);
  EXPECT_EQ(budgets.all()[0].keys[1].given, 100u);
}

TEST(Budgets, of_the_keys_the_one_with_the_most_room_is_given_first) {
  Budgets budgets = with_keys({key("small", 60, 10), key("large", 600, 100)});
  const BudgetSet set = budgets.match("s", "", "", "");
  // Of ten, one is a tenth; of a hundred, a hundredth: the larger one has more room until it is down to that.
  for (int i = 0; i < 9; ++i)
    EXPECT_EQ(budgets.key_of(budgets.reserve(set, {}, kStart)), "large") << i;
  EXPECT_EQ(budgets.key_of(budgets.reserve(set, {}, kStart)), "small");
  EXPECT_EQ(budgets.key_of(budgets.reserve(set, {}, kStart)), "large");
}

TEST(Budgets, keys_with_equal_room_are_given_by_weight) {
  Budgets budgets = with_keys({key("a", 0, 0), key("b", 0, 0)});
  budgets.all()[0].keys[0].weight = 3;
  const BudgetSet set = budgets.match("s", "", "", "");
  for (int i = 0; i < 400; ++i) {
    Reservation reservation = budgets.reserve(set, {}, kStart);
    budgets.settle(reservation, std::nullopt, kStart);
  }
  EXPECT_EQ(budgets.all()[0].keys[0].given, 300u);
}

TEST(Budgets, keys_of_a_group_share_one_limit_and_one_pause) {
  Budgets budgets = with_keys({key("a", 60, 5, "org"), key("b", 60, 5, "org")});
  const BudgetSet set = budgets.match("s", "", "", "");
  Reservation last;
  for (int i = 0; i < 5; ++i)
    last = budgets.reserve(set, {}, kStart);
  EXPECT_FALSE(affordable(budgets, set, kStart)) << "ten would be the limit times the number of keys";
  EXPECT_TRUE(affordable(budgets, set, kStart + seconds(1)));

  EXPECT_TRUE(pause(budgets, last, kStart + seconds(30), kStart));
  EXPECT_EQ(budgets.obstacle(set, {}, kStart + seconds(29)).name(), "b key org paused by its upstream");
  EXPECT_EQ(budgets.foreseen(set, {}, kStart), kStart + seconds(30));
}

TEST(Budgets, a_claim_gets_no_key_whose_account_somebody_else_saves) {
  Budgets budgets = with_keys({key("a", 60, 5), key("b", 60, 2)});
  const BudgetSet set = budgets.match("s", "", "", "");
  const Claim claim{.amounts = {}, .number = 7}, another{.amounts = {}, .number = 8};
  budgets.earmark(0, 0, claim);
  EXPECT_EQ(budgets.key_of(budgets.reserve(set, claim, kStart)), "b");
  EXPECT_EQ(budgets.key_of(budgets.reserve(set, another, kStart)), "a");
  budgets.reserve(set, claim, kStart);

  const Obstacle obstacle = budgets.obstacle_of(set, 0, claim, kStart);
  EXPECT_EQ(obstacle.account, &budgets.all()[0].accounts[1]) << "what it waits for is not the other's";
  EXPECT_EQ(obstacle.until, kStart + seconds(1));
  budgets.earmark(0, 1, claim);
  EXPECT_TRUE(budgets.obstacle_of(set, 0, claim, kStart));
  EXPECT_EQ(budgets.obstacle_of(set, 0, claim, kStart).until, kNever);
}

TEST(Budgets, a_pool_eases_when_one_of_its_accounts_does_and_when_a_key_is_spent) {
  BudgetOptions options;
  options.name = "b";
  options.keys = {key("a", 0, 0), key("b", 0, 0)};
  for (KeyOptions& one : options.keys)
    one.concurrency = 1;
  Budgets budgets({concurrent("other", "", 0), options});
  const BudgetSet set = budgets.match("s", "", "", "");
  Reservation first = budgets.reserve(set, {}, kStart), second = budgets.reserve(set, {}, kStart);
  budgets.settle(first, std::nullopt, kStart);
  EXPECT_THAT(budgets.take_eased(), testing::ElementsAre(1));
  budgets.spend_key(second, true, kStart);
  EXPECT_THAT(budgets.take_eased(), testing::ElementsAre(1));
}

TEST(Budgets, a_spent_key_rests_and_the_last_one_is_told) {
  Budgets budgets = with_keys({key("a", 0, 0), key("b", 0, 0)});
  const BudgetSet set = budgets.match("s", "", "", "");
  Reservation first = budgets.reserve(set, {}, kStart);
  EXPECT_EQ(budgets.key_of(first), "a");
  EXPECT_TRUE(budgets.spend_key(first, true, kStart).key_left);
  EXPECT_FALSE(budgets.spend_key(first, true, kStart).news)
      << "of two calls at once the second tells nothing new";
  Reservation second = budgets.reserve(set, {}, kStart);
  EXPECT_EQ(budgets.key_of(second), "b");
  EXPECT_FALSE(budgets.spend_key(second, false, kStart).news) << "its job has spent one already";
  EXPECT_FALSE(budgets.spend_key(second, true, kStart).key_left);
  EXPECT_EQ(budgets.obstacle(set, {}, kStart).name(), "b keys");
  EXPECT_EQ(when_affordable(budgets, set, kStart), kStart + Key::kRestMin);

  // The operator has seen to it. What is said of a call that was made before is out of date.
  budgets.configure({budgets.all()[0].options}, kStart + seconds(1));
  EXPECT_TRUE(budgets.spend_key(first, true, kStart + seconds(1)).key_left);
  EXPECT_TRUE(affordable(budgets, set, kStart + seconds(1)));
}

TEST(Budgets, a_key_that_drains_gets_no_job_again_whatever_is_said_of_it) {
  BudgetOptions options = requests("b", "", 600);
  options.keys = {key("old", 0, 0)};
  Budgets budgets({options});
  const BudgetSet set = budgets.match("s", "", "", "");
  const Reservation before = budgets.reserve(set, {}, kStart);
  for (const bool there : {true, false}) {
    options.keys = {key("new", 0, 0)};
    if (there) options.keys.push_back(key("old", 0, 0));
    if (there) options.keys.back().draining = true;
    budgets.configure({options}, kStart);

    Reservation late = before;
    late.taken_at = kStart + seconds(1);  // the same key, by a call after the reload
    const auto spending = budgets.spend_key(late, true, kStart + seconds(2));
    EXPECT_FALSE(spending.news);
    EXPECT_TRUE(spending.key_left);
    const TimePoint rested = kStart + std::chrono::hours(2);
    for (int i = 0; i < 20; ++i)
      EXPECT_EQ(budgets.all()[0].keys[budgets.reserve(set, {}, rested).key].name, "new");
    budgets.take_key(late, true, rested, 1);
    EXPECT_EQ(budgets.all()[0].keys[0].state, Key::State::draining);
  }
}

TEST(Budgets, a_key_that_has_rested_is_tried_with_one_job) {
  Budgets budgets = with_keys({key("a", 0, 0), key("b", 0, 0)});
  const BudgetSet set = budgets.match("s", "", "", "");
  Reservation first = budgets.reserve(set, {}, kStart);
  budgets.spend_key(first, true, kStart);
  budgets.settle(first, std::nullopt, kStart);

  const TimePoint rested = kStart + Key::kRestMin;
  EXPECT_EQ(budgets.key_of(budgets.reserve(set, {}, rested - milliseconds(1))), "b");
  EXPECT_EQ(budgets.key_of(budgets.reserve(set, {.amounts = {}, .key_refused = true}, rested)), "b");
  Reservation tries = budgets.reserve(set, {}, rested);
  EXPECT_EQ(budgets.key_of(tries), "a") << "before those that are taken";
  EXPECT_EQ(budgets.key_of(budgets.reserve(set, {}, rested)), "b") << "it is tried already";
  EXPECT_EQ(budgets.spend_key(tries, false, rested).rest, 2 * Key::kRestMin) << "that was known";
  budgets.settle(tries, std::nullopt, rested);

  const TimePoint again = rested + 2 * Key::kRestMin;
  tries = budgets.reserve(set, {}, again);
  EXPECT_EQ(budgets.key_of(tries), "a");
  budgets.settle(tries, std::nullopt, again);
  tries = budgets.reserve(set, {}, again);
  EXPECT_EQ(budgets.key_of(tries), "a") << "nobody knows how the first one ended";
  EXPECT_TRUE(budgets.take_key(tries, false));
  EXPECT_EQ(budgets.spend_key(tries, true, again).rest, 4 * Key::kRestMin) << "it was taken, and did nothing";
  EXPECT_FALSE(budgets.take_key(first, true)) << "a call of before says nothing of it";
  budgets.settle(tries, std::nullopt, again);

  const TimePoint last = again + 4 * Key::kRestMin;
  tries = budgets.reserve(set, {}, last);
  EXPECT_TRUE(budgets.take_key(tries, true));
  EXPECT_EQ(budgets.spend_key(tries, true, last).rest, Key::kRestMin) << "it has answered meanwhile";
}

TEST(Budgets, a_rest_is_bounded) {
  Key key{.name = "k", .refusals = 100};
  EXPECT_EQ(key.rest(), Key::kRestMax);
}

TEST(Budgets, what_changes_keeps_what_was_taken) {
  BudgetOptions options = requests("b", "", 60);
  options.window = WindowKind::bucket;
  options.rates[0].capacity = 20;
  Budgets budgets({options});
  const BudgetSet set = budgets.match("s", "", "", "");
  for (int i = 0; i < 15; ++i)
    budgets.reserve(set, {}, kStart);

  options.rates[0].limit = 600;
  options.rates[0].capacity = 100;
  options.keys = {key("k", 0, 0)};
  budgets.configure({options}, kStart);
  EXPECT_EQ(budgets.all()[0].quota.rates()[0].available(kStart), 5);
  EXPECT_EQ(budgets.all()[0].quota.rates()[0].available(kStart + seconds(1)), 15) << "at the new rate";
  Reservation with_key = budgets.reserve(set, {}, kStart + seconds(1));
  EXPECT_EQ(budgets.key_of(with_key), "k");

  options.keys.clear();
  budgets.configure({options}, kStart);
  Reservation without = budgets.reserve(set, {}, kStart + seconds(1));
  EXPECT_EQ(budgets.key_of(without), "");
  budgets.settle(with_key, std::nullopt, kStart + seconds(1));
  EXPECT_EQ(budgets.all()[0].keys[0].running, 0);
}

TEST(Budgets, a_strict_window_keeps_what_was_sent_when_its_limit_changes) {
  BudgetOptions larger = requests("b", "", 60);
  larger.window = WindowKind::sliding;
  Budgets budgets({larger});
  const BudgetSet set = budgets.match("s", "", "", "");
  for (int i = 0; i < 6; ++i)
    budgets.reserve(set, {}, kStart);
  larger.rates[0].limit = larger.rates[0].capacity = 6000;
  budgets.configure({larger}, kStart);
  int sent = 6;
  for (TimePoint now = kStart; now < kStart + seconds(59); now += milliseconds(2))
    if (affordable(budgets, set, now)) {
      budgets.reserve(set, {}, now);
      ++sent;
    }
  EXPECT_LE(sent, 6000);
  EXPECT_GE(sent, 5500);
}

TEST(Budgets, says_when_a_strict_window_is_likely_to_have_room) {
  BudgetOptions options = requests("b", "", 10);
  options.window = WindowKind::sliding;
  options.rates[0].capacity = 1;
  Budgets budgets({options});
  const BudgetSet set = budgets.match("s", "", "", "");
  budgets.reserve(set, {}, kStart);
  const TimePoint when = budgets.foreseen(set, {}, kStart);
  EXPECT_GE(when, kStart + seconds(5));
  EXPECT_LE(when, kStart + seconds(8)) << "one in six seconds";
}

// ---- words that cannot be true --------------------------------------------------------------------------

TEST(Budgets, what_says_that_it_costs_nothing_waits_for_a_debt_as_well) {
  for (const WindowKind window : {WindowKind::bucket, WindowKind::sliding}) {
    Budgets budgets({tokens(Resource::tokens, 6000, 600, window)});
    const BudgetSet set = budgets.match("s", "", "", "");
    const Amounts nothing{};
    ASSERT_TRUE(affordable(budgets, set, kStart, nothing));
    Reservation reservation = budgets.reserve(set, {.amounts = nothing}, kStart);
    budgets.settle(reservation, Amounts{.input_tokens = 3000}, kStart);

    EXPECT_FALSE(affordable(budgets, set, kStart, nothing));
    const TimePoint paid = when_affordable(budgets, set, kStart, nothing);
    EXPECT_GT(paid, kStart);
    EXPECT_LE(paid, kStart + seconds(61));
    EXPECT_TRUE(affordable(budgets, set, kStart + seconds(61), nothing));
  }
}

TEST(Budgets, no_usage_is_a_credit_or_a_debt_of_more_than_a_window) {
  for (const WindowKind window : {WindowKind::bucket, WindowKind::sliding})
    for (const std::int64_t absurd : {std::int64_t{1'000'000'000}, std::int64_t{1} << 62}) {
      Budgets budgets({tokens(Resource::input_tokens, 100'000, 10'000, window)});
      const BudgetSet set = budgets.match("s", "", "", "");
      Reservation reservation = budgets.reserve(set, {.amounts = {.input_tokens = 10}}, kStart);
      budgets.settle(reservation, Amounts{.input_tokens = absurd}, kStart);

      RateLimit& rate = budgets.all()[0].quota.rates()[0];
      EXPECT_LT(rate.available(kStart), 0);
      EXPECT_GE(rate.available(kStart), -100'010);
      EXPECT_GT(rate.available(kStart + minutes(2)), 0) << "a period pays it back";
    }
}

wire::UpstreamLimits limit_of_requests(std::int64_t limit) {
  wire::UpstreamLimits limits;
  limits.limit_requests = limit;
  return limits;
}

// ---- what changes nothing, and what is taken back ---------------------------------------------------------

TEST(Budgets, a_reload_without_a_change_changes_nothing_whatever_the_size) {
  for (const WindowKind window : {WindowKind::bucket, WindowKind::sliding})
    for (const std::int64_t limit : {std::int64_t{1'000'000'000}, std::int64_t{1'000'000'000'000}}) {
      BudgetOptions options;
      options.name = "b";
      options.window = window;
      options.rates.push_back({"tokens_per_day", limit, std::chrono::hours(24), 0, Resource::tokens});
      Budgets budgets({options});
      const BudgetSet set = budgets.match("s", "", "", "");
      budgets.reserve(set, {.amounts = {.input_tokens = 1000}}, kStart);
      RateLimit& rate = budgets.all()[0].quota.rates()[0];
      ASSERT_EQ(rate.available(kStart), limit / 10 - 1000);

      for (int i = 0; i < 3; ++i)
        budgets.configure({options}, kStart);
      EXPECT_EQ(budgets.all()[0].quota.rates()[0].available(kStart), limit / 10 - 1000);

      options.rates[0].limit = limit - 10;
      budgets.configure({options}, kStart);
      // A bucket's burst is a tenth of its limit, and what was used stays used.
      const std::int64_t whole = (window == WindowKind::bucket ? limit - 10 : limit) / 10;
      EXPECT_EQ(budgets.all()[0].quota.rates()[0].available(kStart), whole - 1000);
    }
}

TEST(Budgets, what_is_said_of_the_only_key_in_use_counts_for_the_budget) {
  BudgetOptions options = requests("b", "", 600);
  options.keys = {key("old", 0, 0)};
  Budgets budgets({options});
  const BudgetSet set = budgets.match("s", "", "", "");
  const Reservation before = budgets.reserve(set, {}, kStart);
  const auto limit = [&] { return budgets.all()[0].quota.rates()[0].effective_limit(kStart); };
  options.keys = {key("new", 0, 0)};
  budgets.configure({options}, kStart);

  budgets.learn(before, limit_of_requests(30), kStart);
  EXPECT_EQ(limit(), 600) << "another account's, and no job gets its key any more";
  budgets.learn(budgets.reserve(set, {}, kStart), limit_of_requests(60), kStart);
  EXPECT_EQ(limit(), 60);

  options.keys.push_back(key("other", 0, 0));
  budgets.configure({options}, kStart);
  budgets.learn(budgets.reserve(set, {}, kStart), limit_of_requests(50), kStart);
  EXPECT_EQ(limit(), 60) << "of two accounts neither says what both may have";
}

TEST(Budgets, keys_that_were_taken_out_count_for_what_a_bank_may_have) {
  const auto keys = [](int first, int count) {
    std::vector<KeyOptions> some;
    for (int i = first; i < first + count; ++i)
      some.push_back(key("k" + std::to_string(i), 0, 0));
    return some;
  };
  BudgetOptions options = requests("b", "", 600);
  options.shared = true;
  options.keys = keys(0, 20);
  Budgets budgets({options});
  budgets.shared.begin("a", 1, false);

  options.keys = keys(12, 20);
  ASSERT_THAT(cannot_configure(budgets, {options}), IsEmpty()) << "32, with the 12 that are gone";
  budgets.configure({options}, kStart);
  budgets.shared.want(0, {.lane = 0, .jobs = 1});
  const auto draws = budgets.shared.begin_draws(kStart);
  ASSERT_EQ(draws.size(), 1u);
  EXPECT_EQ(draws[0].options.keys.size(), 32u);
  EXPECT_THAT(Bank::cannot_share(draws[0].options), IsEmpty());

  options.keys = keys(13, 20);
  EXPECT_THAT(cannot_configure(budgets, {options}),
              AllOf(HasSubstr("33 keys"), HasSubstr("at most 32"), HasSubstr("restart")));
  EXPECT_THAT(cannot_configure(Budgets({options}), {options}), IsEmpty()) << "for a broker that starts";
}

TEST(Budgets, many_shared_budgets_draw_in_turn_while_what_they_draw_is_fresh) {
  constexpr std::size_t kBudgets = 150;
  constexpr Duration kDraw = milliseconds(5);
  std::vector<BudgetOptions> options;
  for (std::size_t i = 0; i < kBudgets; ++i) {
    options.push_back(requests("b" + std::to_string(i), "", 6000));
    options.back().window = WindowKind::sliding;
    options.back().shared = true;
  }
  Budgets budgets(options);
  budgets.shared.begin("a", 1, false);
  std::vector<std::string> rows(kBudgets);
  std::vector<std::size_t> usable(kBudgets);
  std::deque<DrawWanted> line;  // as before one connection to the bank
  TimePoint now = kStart + seconds(1000);
  for (const TimePoint until = now + seconds(10); now < until; now += kDraw) {
    if (!line.empty()) {
      const DrawWanted asked = std::move(line.front());
      line.pop_front();
      Bank bank(asked.options, 0);
      if (!rows[asked.budget].empty()) {
        ASSERT_TRUE(bank.restore(rows[asked.budget]));
      }
      const Drawn drawn = bank.draw(asked.draw, {.now = now, .server = 1});
      rows[asked.budget] = bank.save();
      budgets.shared.drawn(asked.budget, &drawn, now);
      usable[asked.budget] +=
          budgets.all()[asked.budget].slices->left(now).of(Resource::requests) > 0 ? 1 : 0;
    }
    for (std::size_t i = 0; i < kBudgets; ++i)
      budgets.shared.want(i, {.lane = 0, .jobs = 100, .all = {.requests = 100}});
    for (DrawWanted& wanted : budgets.shared.begin_draws(now))
      line.push_back(std::move(wanted));
    if (line.size() >= SharedBudgets::kDrawsMax) {
      ASSERT_EQ(budgets.shared.draw_due(now), kNever);
    }
  }
  // 2000 draws are done in the time, 13 of each budget.
  for (std::size_t i = 0; i < kBudgets; ++i)
    EXPECT_GE(usable[i], 10u) << i;
}

TEST(Budgets, keys_that_were_taken_out_are_bounded_without_a_bank_too) {
  BudgetOptions options = requests("b", "", 600);
  Budgets budgets({options});
  for (std::size_t i = 0; i < Budgets::kKeysSinceStartMax; ++i) {
    options.keys = {key("k" + std::to_string(i), 0, 0)};
    ASSERT_THAT(cannot_configure(budgets, {options}), IsEmpty()) << i;
    budgets.configure({options}, kStart);
  }
  EXPECT_THAT(cannot_configure(budgets, {options}), IsEmpty()) << "nothing new";
  options.keys = {key("another", 0, 0)};
  EXPECT_THAT(cannot_configure(budgets, {options}), HasSubstr("may be 1024"));
}

TEST(Budgets, a_reload_without_a_change_forgets_nothing_that_the_upstream_said) {
  BudgetOptions options = requests("b", "", 600);
  Budgets budgets({options});
  const BudgetSet set = budgets.match("s", "", "", "");
  Reservation reservation = budgets.reserve(set, {}, kStart);
  budgets.learn(reservation, limit_of_requests(60), kStart);
  pause(budgets, reservation, kStart + minutes(5), kStart);

  budgets.configure({options}, kStart);
  RateLimit& rate = budgets.all()[0].quota.rates()[0];
  EXPECT_EQ(rate.effective_limit(kStart), 60);
  EXPECT_EQ(budgets.all()[0].quota.paused_until(), kStart + minutes(5));
}

TEST(Budgets, an_operator_takes_back_what_the_upstream_said) {
  for (const bool by_another_limit : {false, true}) {
    BudgetOptions options = requests("b", "", 600);
    options.concurrency = 10;
    Budgets budgets({options});
    const BudgetSet set = budgets.match("s", "", "", "");
    Reservation reservation = budgets.reserve(set, {}, kStart);
    EXPECT_FALSE(budgets.can_lift(0, kStart));
    budgets.learn(reservation, limit_of_requests(1), kStart);
    budgets.overloaded(reservation, kStart);
    pause(budgets, reservation, kStart + std::chrono::hours(24), kStart);
    budgets.take_eased();
    ASSERT_TRUE(budgets.can_lift(0, kStart));

    if (by_another_limit) {
      options.rates[0].limit = 601;
      budgets.change_limits(options, kStart);
    } else {
      EXPECT_TRUE(budgets.lift(0, kStart));
      EXPECT_EQ(budgets.take_eased(), std::vector<std::size_t>{0}) << "who waits is asked again";
    }
    EXPECT_FALSE(budgets.can_lift(0, kStart));
    EXPECT_EQ(budgets.all()[0].quota.concurrency().limit(), 10);
    EXPECT_GE(budgets.all()[0].quota.rates()[0].available(kStart + seconds(1)), 9) << "at the whole pace";
  }
}

// ---- what is saved --------------------------------------------------------------------------------------

/// What is saved of all parts, as restore() wants it.
std::vector<StoredEntry> saved(Budgets& budgets) {
  std::vector<StoredEntry> entries;
  budgets.save_all();
  for (const Budgets::Part& part : budgets.take_unsaved())
    for (StoredEntry& entry : budgets.save(part, 0)) {
      if (part.account != Budgets::kOwnLimits)
        entry.name = Budgets::account_entry(budgets.all()[0].accounts[part.account].name, entry.name);
      entries.push_back(entry);
    }
  return entries;
}

/// The clock of the store that something comes back from is so far ahead of that of the first one.
constexpr Duration kShifts[] = {Duration(0), std::chrono::hours(3)};

std::vector<StoredEntry> shifted(std::vector<StoredEntry> entries, Duration by) {
  shift_history(entries, by);
  return entries;
}

TEST(Budgets, what_is_saved_comes_back_with_what_the_upstream_said) {
  for (const auto& [window, shift] :
       {std::pair{WindowKind::bucket, kShifts[0]}, std::pair{WindowKind::sliding, kShifts[0]},
        std::pair{WindowKind::bucket, kShifts[1]}, std::pair{WindowKind::sliding, kShifts[1]}}) {
    BudgetOptions options = requests("b", "", 600);
    options.window = window;
    options.rates[0].capacity = 100;
    options.keys = {key("k", 60, 10)};
    Budgets before({options}), after({options});
    const BudgetSet set = before.match("s", "", "", "");
    Reservation reservation;
    for (int i = 0; i < 5; ++i)
      reservation = before.reserve(set, {}, kStart + seconds(i));
    before.learn(reservation, limit_of_requests(30), kStart + seconds(5));
    pause(before, reservation, kStart + seconds(40), kStart + seconds(5));
    const TimePoint now = kStart + seconds(6);

    after.restore(after.all()[0], shifted(saved(before), shift), shift.count(), now);
    EXPECT_EQ(after.all()[0].quota.rates()[0].available(now),
              before.all()[0].quota.rates()[0].available(now));
    Quota &account = after.all()[0].accounts[0].quota, &was = before.all()[0].accounts[0].quota;
    EXPECT_EQ(account.rates()[0].effective_limit(now), 30);
    EXPECT_EQ(account.rates()[0].available(now), was.rates()[0].available(now));
    EXPECT_EQ(account.paused_until(), kStart + seconds(40));
    // The use of the last minute ends when it would have.
    for (int i = 0; i < 70; ++i)
      EXPECT_EQ(account.rates()[0].available(now + seconds(i)), was.rates()[0].available(now + seconds(i)));
  }
}

TEST(Budgets, places_that_refusals_have_shown_are_remembered_for_an_hour) {
  BudgetOptions options = requests("b", "", 600);
  for (const Duration shift : kShifts) {
    Budgets before({options}), after({options}), late({options}), again({options});
    const BudgetSet set = before.match("s", "", "", "");
    const TimePoint now = kStart;
    std::vector<Reservation> running;
    for (int i = 0; i < 4; ++i)
      running.push_back(before.reserve(set, {}, now));
    before.settle(running.back(), std::nullopt, now);
    before.pause(running.back(), {.until = now + seconds(1), .waits = false}, now,
                 [](std::size_t) { return false; });
    ASSERT_EQ(before.all()[0].quota.concurrency().limit(), 3);

    const std::vector<StoredEntry> entries = shifted(saved(before), shift);
    after.restore(after.all()[0], entries, shift.count(), now + minutes(59));
    EXPECT_EQ(after.all()[0].quota.concurrency().limit(), 3);
    late.restore(late.all()[0], entries, shift.count(), now + minutes(61));
    EXPECT_EQ(late.all()[0].quota.concurrency().limit(), 0);
    again.restore(again.all()[0], saved(after), 0, now + minutes(61));
    EXPECT_EQ(again.all()[0].quota.concurrency().limit(), 0) << "a restart makes nothing younger";
  }
}

TEST(Budgets, only_what_changed_is_saved) {
  std::vector<KeyOptions> keys;
  for (int i = 0; i < 256; ++i)
    keys.push_back(key("k" + std::to_string(i), 60, 10));
  Budgets budgets = with_keys(keys);
  const BudgetSet set = budgets.match("s", "", "", "");
  Reservation reservation = budgets.reserve(set, {}, kStart);
  EXPECT_EQ(budgets.take_unsaved().size(), 2u) << "the budget, and the account of the key";

  budgets.settle(reservation, std::nullopt, kStart);
  budgets.succeeded(reservation, kNoMark, kStart);
  EXPECT_FALSE(budgets.any_unsaved()) << "it used what it was expected to";
}

TEST(Budgets, what_an_earlier_version_saved_is_read) {
  BudgetOptions options = requests("b", "", 60);
  options.window = WindowKind::sliding;
  options.rates[0].capacity = 30;
  const std::int64_t second = 1'000'000;
  StoredNumbers own, rate;
  own.put(50 * second);  // paused until then
  for (const std::int64_t number :
       {std::int64_t{1000}, std::int64_t{4000}, 10 * second, std::int64_t{45}, std::int64_t{1000},
        std::int64_t{0}, std::int64_t{0}, std::int64_t{1000}, std::int64_t{0}, 9 * second, std::int64_t{26}})
    rate.put(number);
  for (const Duration shift : kShifts) {
    Budgets restored({options});
    restored.restore(restored.all()[0], shifted({{"own", own}, {"own\nrequests_per_minute", rate}}, shift),
                     shift.count(), TimePoint(seconds(10)));

    Quota& quota = restored.all()[0].quota;
    EXPECT_EQ(quota.paused_until(), TimePoint(seconds(50)));
    EXPECT_EQ(quota.rates()[0].effective_limit(TimePoint(seconds(10))), 45);
    EXPECT_EQ(quota.rates()[0].available(TimePoint(seconds(10))), 4);
    EXPECT_EQ(quota.rates()[0].available(TimePoint(seconds(75))), 30);
  }
}

TEST(Budgets, a_pause_from_the_disk_is_no_longer_than_it_was_asked_for) {
  BudgetOptions options = requests("b", "", 60);
  Budgets before({options}), after({options});
  const BudgetSet set = before.match("s", "", "", "");
  const TimePoint later(std::chrono::hours(30));
  Reservation reservation = before.reserve(set, {}, later);
  pause(before, reservation, later + seconds(10), later);

  after.restore(after.all()[0], saved(before), 0, TimePoint(seconds(1)));  // the clock went back
  EXPECT_EQ(after.all()[0].quota.paused_until(), TimePoint(seconds(11)));
}

/// A broker that dies: what goes out without waiting for the disk is covered by what is there.
TEST(Budgets, what_went_out_before_it_was_saved_is_on_disk_all_the_same) {
  const bool holds = rc::check([](const std::vector<std::uint8_t>& steps) {
    BudgetOptions options = tokens(Resource::requests, 600, 40);
    options.keys = {key("k", 300, 20), key("l", 300, 20)};
    Budgets budgets({options});
    const BudgetSet set = budgets.match("s", "", "", "");
    std::vector<StoredEntry> on_disk, on_its_way;
    std::map<std::string, StoredEntry> disk, way;
    bool watched = false;
    TimePoint now = kStart;
    int out = 0, waiting = 0;
    const auto save = [&] {
      for (const Budgets::Part& part : budgets.take_unsaved())
        for (StoredEntry& entry : budgets.save(part, 0)) {
          if (part.account != Budgets::kOwnLimits)
            entry.name = Budgets::account_entry(budgets.all()[0].accounts[part.account].name, entry.name);
          way.insert_or_assign(entry.name, entry);
        }
      watched = budgets.saving() || watched;
    };
    const auto commit = [&] {
      disk = way;
      out += std::exchange(waiting, 0);
      if (std::exchange(watched, false)) budgets.saved();
    };
    budgets.save_all();
    save();
    commit();
    for (const std::uint8_t step : steps) {
      if (step % 8 == 0) save(), commit();
      if (step % 8 == 1 && budgets.any_unsaved()) save();
      if (step % 8 < 2 || !affordable(budgets, set, now)) continue;
      const Reservation reservation = budgets.reserve(set, {}, now);
      if (budgets.use_ahead(reservation)) {
        ++out;
      } else {
        save();
        ++waiting;
      }
    }
    Budgets next({options});
    std::vector<StoredEntry> entries;
    for (const auto& [name, entry] : disk)
      entries.push_back(entry);
    next.restore(next.all()[0], entries, 0, now);
    RC_ASSERT(next.all()[0].quota.rates()[0].available(now) <= 40 - out);
    std::int64_t of_keys = 0;
    for (Account& account : next.all()[0].accounts)
      of_keys += account.quota.rates()[0].available(now);
    RC_ASSERT(of_keys <= 40 - out);
  });
  EXPECT_TRUE(holds);
}

TEST(Budgets, within_half_a_burst_nothing_waits_for_the_disk) {
  Budgets budgets({requests("b", "", 60)});
  const BudgetSet set = budgets.match("s", "", "", "");
  EXPECT_FALSE(budgets.use_ahead(budgets.reserve(set, {}, kStart))) << "the first one";
  EXPECT_TRUE(budgets.must_save());
  budgets.take_unsaved();
  ASSERT_TRUE(budgets.saving());
  budgets.saved();

  for (int i = 0; i < 30; ++i)
    EXPECT_TRUE(budgets.use_ahead(budgets.reserve(set, {}, kStart))) << i;
  EXPECT_FALSE(budgets.use_ahead(budgets.reserve(set, {}, kStart)));
  budgets.take_unsaved();
  ASSERT_TRUE(budgets.saving());
  EXPECT_FALSE(budgets.use_ahead(budgets.reserve(set, {}, kStart))) << "that is not on disk yet";
  budgets.saved();
  EXPECT_TRUE(budgets.use_ahead(budgets.reserve(set, {}, kStart)));

  budgets.end_leases();
  Budgets next({requests("b", "", 60)});
  next.restore(next.all()[0], saved(budgets), 0, kStart);
  EXPECT_EQ(next.all()[0].quota.rates()[0].available(kStart), 60 - 34)
      << "a broker that stops forgets nothing";
}

}  // namespace
}  // namespace lanemq::core
