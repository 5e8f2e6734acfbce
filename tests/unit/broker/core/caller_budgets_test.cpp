// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/caller_budgets.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace lanemq::core {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct CallerBudgetsTest : testing::Test {
  CallerBudgets budgets;
  TimePoint now{seconds(1'000)};
  CallerBudgets::Limits limits{.requests_per_minute = 60, .tokens_per_minute = 600, .concurrency = 4};

  CallerBudgets::Asked ask(std::string_view session, CallerBudgets::Use requests = {},
                           CallerBudgets::Use tokens = {}, CallerBudgets::Use places = {}) {
    return {.key = "team",
            .session = session,
            .address = session,
            .limits = limits,
            .requests = requests,
            .tokens = tokens,
            .places = places};
  }
  CallerBudgets::Granted spend(const CallerBudgets::Asked& asked) {
    const auto granted = budgets.spend(asked, now);
    EXPECT_TRUE(granted);
    return granted.value_or(CallerBudgets::Granted{});
  }
};

TEST_F(CallerBudgetsTest, two_gateways_get_no_more_than_one_would) {
  EXPECT_EQ(spend(ask("a", {.ahead = 40})).requests, 40);
  const auto second = spend(ask("b", {.ahead = 40}));
  EXPECT_EQ(second.requests, 20);
  EXPECT_EQ(second.requests_left, 0);
  EXPECT_EQ(second.requests_wait, seconds(1));

  now += seconds(1);
  EXPECT_EQ(spend(ask("b", {.used = 20, .ahead = 40})).requests, 21);
}

TEST_F(CallerBudgetsTest, what_is_said_twice_counts_once) {
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(spend(ask("a", {.used = 0, .ahead = 10})).requests, 10);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(spend(ask("a", {.used = 10, .ahead = 10})).requests, 20);
  EXPECT_EQ(spend(ask("a", {.used = 10, .ahead = 10})).requests_left, 40);
}

TEST_F(CallerBudgetsTest, what_is_not_wanted_any_more_goes_to_others) {
  EXPECT_EQ(spend(ask("a", {.ahead = 60})).requests, 60);
  EXPECT_EQ(spend(ask("b", {.ahead = 60})).requests, 0);
  EXPECT_EQ(spend(ask("a", {.used = 5})).requests, 5);
  EXPECT_EQ(spend(ask("b", {.ahead = 60})).requests, 55);
}

TEST_F(CallerBudgetsTest, tokens_beyond_what_was_given_are_a_debt_of_all) {
  EXPECT_EQ(spend(ask("a", {}, {.ahead = 1})).tokens, 1);
  EXPECT_EQ(spend(ask("a", {}, {.used = 1'200, .ahead = 1})).tokens, 1'200);

  const auto other = spend(ask("b", {}, {.ahead = 1}));
  EXPECT_EQ(other.tokens, 0);
  EXPECT_EQ(other.tokens_left, 0);
  EXPECT_EQ(other.tokens_wait, milliseconds(60'100));
}

TEST_F(CallerBudgetsTest, places_are_held_until_they_are_given_back) {
  EXPECT_EQ(spend(ask("a", {}, {}, {.used = 2, .ahead = 1})).places, 3);
  EXPECT_EQ(spend(ask("b", {}, {}, {.ahead = 3})).places, 1);
  EXPECT_EQ(spend(ask("a", {}, {}, {.used = 2})).places, 2);
  EXPECT_EQ(spend(ask("b", {}, {}, {.used = 1, .ahead = 3})).places, 2);
  // What runs, runs: a place in use is counted, also one beyond the limit.
  EXPECT_EQ(spend(ask("a", {}, {}, {.used = 9, .ahead = 1})).places, 9);
  EXPECT_EQ(spend(ask("b", {}, {}, {.used = 1, .ahead = 3})).places, 1);
}

TEST_F(CallerBudgetsTest, places_of_a_gateway_that_died_come_back_with_its_jobs) {
  spend(ask("a", {}, {}, {.used = 4}));
  budgets.lost("a", now);
  now += CallerBudgets::kLostPause - milliseconds(1);
  EXPECT_EQ(spend(ask("b", {}, {}, {.ahead = 4})).places, 0);
  now += milliseconds(1);
  EXPECT_EQ(spend(ask("b", {}, {}, {.ahead = 4})).places, 4);
}

TEST_F(CallerBudgetsTest, a_gateway_that_comes_back_by_another_connection_keeps_its_places) {
  spend(ask("a", {.ahead = 10}, {}, {.used = 4}));
  budgets.lost("a", now);
  auto again = ask("a", {.used = 10, .ahead = 10}, {}, {.used = 4});
  again.address = "elsewhere";
  now += CallerBudgets::kLostPause - milliseconds(1);
  EXPECT_EQ(spend(again).requests, 20);
  now += CallerBudgets::kLostPause;
  EXPECT_EQ(spend(ask("b", {}, {}, {.ahead = 4})).places, 0);
}

TEST_F(CallerBudgetsTest, a_silent_session_is_over_but_not_for_the_brokers_own_sleep) {
  spend(ask("a", {}, {}, {.used = 4}));
  now += seconds(100);
  budgets.stood_still(seconds(100));
  EXPECT_EQ(spend(ask("b", {}, {}, {.ahead = 4})).places, 0);
  now += CallerBudgets::kSilenceMax;
  EXPECT_EQ(spend(ask("b", {}, {}, {.ahead = 4})).places, 4);
}

TEST_F(CallerBudgetsTest, a_session_that_is_new_here_is_booked_from_where_it_is) {
  const auto granted = spend(ask("a", {.used = 1'000'000, .ahead = 10}, {.used = 50'000, .ahead = 1}));
  EXPECT_EQ(granted.requests, 1'000'010);
  EXPECT_EQ(granted.requests_left, 50);
  EXPECT_EQ(granted.tokens_left, 599);
}

TEST_F(CallerBudgetsTest, a_changed_limit_keeps_what_was_used) {
  spend(ask("a", {.ahead = 50}));
  limits.requests_per_minute = 40;
  EXPECT_EQ(spend(ask("a", {.used = 50, .ahead = 5})).requests, 50);
  limits.requests_per_minute = 120;
  EXPECT_EQ(spend(ask("a", {.used = 50, .ahead = 100})).requests, 120);
  limits.requests_per_minute = 0;
  EXPECT_EQ(spend(ask("a", {.used = 50, .ahead = 1'000})).requests, 1'050);
}

TEST_F(CallerBudgetsTest, tables_are_bounded_and_what_is_idle_makes_room) {
  const auto of_key = [&](const std::string& key, std::string_view session) {
    auto asked = ask(session, {.used = 0, .ahead = 1});
    asked.key = key;
    return budgets.spend(asked, now);
  };
  for (std::size_t i = 0; i < CallerBudgets::kKeysMax; ++i)
    ASSERT_TRUE(of_key(std::to_string(i), "a"));
  EXPECT_FALSE(of_key("one more", "a"));
  for (std::size_t i = budgets.sessions(); i < CallerBudgets::kSessionsMax; ++i)
    ASSERT_TRUE(of_key("0", "session " + std::to_string(i)));
  EXPECT_FALSE(of_key("0", "one more"));

  now += CallerBudgets::kSilenceMax + seconds(60);
  EXPECT_TRUE(of_key("one more", "one more"));
  EXPECT_EQ(budgets.keys(), CallerBudgets::kKeysMax);
  EXPECT_EQ(budgets.sessions(), 1u);
}

TEST_F(CallerBudgetsTest, pairs_of_keys_and_sessions_are_bounded) {
  const auto pair = [&](std::size_t number) {
    const std::string key = std::to_string(number % 1'000), session = std::to_string(number / 1'000);
    auto asked = ask(session, {.ahead = 1});
    asked.key = key;
    return budgets.spend(asked, now).has_value();
  };
  for (std::size_t i = 0; i < CallerBudgets::kHoldersMax; ++i)
    ASSERT_TRUE(pair(i));
  EXPECT_FALSE(pair(CallerBudgets::kHoldersMax));
  EXPECT_TRUE(pair(0));

  now += CallerBudgets::kSilenceMax;
  EXPECT_TRUE(pair(CallerBudgets::kHoldersMax));
}

TEST_F(CallerBudgetsTest, a_tenant_leaves_three_quarters_to_others) {
  const auto of = [&](const std::string& space, std::size_t key, std::size_t session) {
    auto asked = ask("", {.ahead = 1});
    const std::string key_name = space + std::to_string(key), session_name = space + std::to_string(session);
    asked.key = key_name;
    asked.session = session_name;
    return budgets.spend(asked, now).has_value();
  };
  for (std::size_t i = 0; i < CallerBudgets::kSessionsMax / 4; ++i)
    ASSERT_TRUE(of("@acme/", 0, i));
  EXPECT_FALSE(of("@acme/", 0, 9'999));
  for (std::size_t i = 1; i < CallerBudgets::kKeysMax / 4; ++i)
    ASSERT_TRUE(of("@acme/", i, 0));
  EXPECT_FALSE(of("@acme/", 9'999, 0));
  const std::size_t pairs = CallerBudgets::kSessionsMax / 4 + CallerBudgets::kKeysMax / 4 - 1;
  for (std::size_t i = 0; i < CallerBudgets::kHoldersMax / 4 - pairs; ++i)
    ASSERT_TRUE(of("@acme/", 1 + i / 255, 1 + i % 255));
  EXPECT_FALSE(of("@acme/", 2'000, 1));

  // Others find room, a tenant and who is of none; what acme has goes on.
  EXPECT_TRUE(of("@zeta/", 0, 0));
  for (std::size_t i = budgets.sessions(); i < CallerBudgets::kSessionsMax; ++i)
    ASSERT_TRUE(of("", 0, i));
  EXPECT_TRUE(of("@acme/", 0, 0));

  // What is idle makes room for the tenant's own.
  now += CallerBudgets::kSilenceMax + seconds(60);
  EXPECT_TRUE(of("@acme/", 9'999, 9'999));
  EXPECT_EQ(budgets.sessions(), 1u);
  EXPECT_EQ(budgets.keys(), CallerBudgets::kKeysMax / 4 + 2);
}

/// As many keys as there may be come again and again, each with a session of its own, which is over when the
/// next come in their place.
TEST_F(CallerBudgetsTest, what_was_held_of_keys_that_made_room_is_counted_no_more) {
  constexpr std::size_t kRounds = CallerBudgets::kHoldersMax / CallerBudgets::kKeysMax + 2;
  for (std::size_t round = 0; round < kRounds; ++round) {
    const std::string session = "session " + std::to_string(round);
    for (std::size_t i = 0; i < CallerBudgets::kKeysMax; ++i) {
      const std::string key = std::to_string(round) + '/' + std::to_string(i);
      auto asked = ask(session, {.ahead = 1});
      asked.key = key;
      ASSERT_TRUE(budgets.spend(asked, now)) << key;
    }
    now += CallerBudgets::kSilenceMax + seconds(60);
  }
}

/// Gateways that take, use, give back, go and come in any order, and messages that are lost on either way:
/// what all have used in any time is no more than a minute's worth and what that time brought.
TEST_F(CallerBudgetsTest, never_more_than_the_limit_whoever_asks) {
  struct Gateway {
    std::int64_t used = 0, granted = 0, running = 0, places = 0;
  };
  for (unsigned seed = 1; seed <= 50; ++seed) {
    std::mt19937 random(seed);
    const auto chance = [&](int of) { return static_cast<int>(random() % static_cast<unsigned>(of)); };
    CallerBudgets shared;
    std::map<std::string, Gateway> gateways;
    std::int64_t used = 0;
    const TimePoint began = now;
    for (int step = 0; step < 2'000; ++step) {
      now += milliseconds(chance(100));
      const std::string name = "g" + std::to_string(chance(4));
      Gateway& one = gateways[name];
      if (chance(300) == 0) {  // dies; its places come back once its jobs have ended
        shared.lost(name, now);
        now += CallerBudgets::kLostPause;
        gateways.erase(name);
        continue;
      }
      if (one.used < one.granted && one.running < one.places) ++one.used, ++one.running, ++used;
      if (one.running > 0 && chance(2) == 0) --one.running;
      if (chance(3) > 0) {
        const CallerBudgets::Use requests{.used = one.used, .ahead = chance(8)};
        const CallerBudgets::Use places{.used = one.running, .ahead = chance(3)};
        // What it does not want any more it does not use any more, whether there is an answer or not.
        one.granted = std::min(one.granted, requests.used + requests.ahead);
        one.places = std::min(one.places, places.used + places.ahead);
        const auto granted = shared.spend(ask(name, requests, {}, places), now);
        ASSERT_TRUE(granted);
        if (chance(10) > 0) one.granted = granted->requests, one.places = granted->places;
      }
      std::int64_t running = 0;
      for (const auto& [_, gateway] : gateways)
        running += gateway.running;
      ASSERT_LE(running, limits.concurrency) << "seed " << seed << ", step " << step;
      const double passed = std::chrono::duration<double>(now - began).count();
      ASSERT_LE(static_cast<double>(used), 60 + passed) << "seed " << seed << ", step " << step;
    }
  }
}

}  // namespace
}  // namespace lanemq::core
