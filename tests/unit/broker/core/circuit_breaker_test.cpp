// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/circuit_breaker.hpp"

#include <gtest/gtest.h>

namespace lanemq::core {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using BreakerState = CircuitBreaker::State;

/// A breaker in virtual time.
struct Upstream {
  CircuitBreaker breaker;
  std::mt19937_64 random{1};
  TimePoint now{seconds(100)};

  void call(Verdict verdict) { end(breaker.called(now), verdict); }
  void end(CircuitBreaker::Period called_in, Verdict verdict) { call_of({.client = 1}, verdict, called_in); }
  CircuitBreaker::Finding call_of(Caller caller, Verdict verdict, CircuitBreaker::Period called_in) {
    const auto finding = breaker.ended(verdict, called_in, caller, now, random);
    // Nobody else waits.
    if (finding == CircuitBreaker::Finding::one_client_fails) breaker.open(breaker.suspect(), now, random);
    return finding;
  }
  CircuitBreaker::Finding call_of(Caller caller, Verdict verdict) {
    return call_of(caller, verdict, breaker.called(now));
  }
  void calls(int count, Verdict verdict) {
    for (int i = 0; i < count; ++i)
      call(verdict);
  }
  void pass(Duration time) {
    now += time;
    breaker.advance(now);
  }
  void pass_until_half_open() {
    now = breaker.admits_at(false);
    breaker.advance(now);
  }
  void open() { calls(CircuitBreaker::kUnreachableMax, Verdict::unreachable); }
  bool admits(bool top_lane = false) const { return breaker.admits(top_lane, now); }
  Duration wait() const { return breaker.admits_at(false) - now; }
};

TEST(CircuitBreaker, opens_when_half_of_the_last_calls_failed) {
  Upstream upstream;
  upstream.calls(5, Verdict::success);
  upstream.calls(4, Verdict::failure);
  EXPECT_TRUE(upstream.breaker.closed()) << "nine calls say nothing";
  upstream.call(Verdict::failure);
  EXPECT_EQ(upstream.breaker.state(), BreakerState::open);
  EXPECT_FALSE(upstream.admits());
}

constexpr Caller kAlice{.client = 1, .model = 7}, kBob{.client = 2, .model = 7};

TEST(CircuitBreaker, what_one_client_asks_for_opens_it_for_nobody_else) {
  Upstream upstream;
  for (int i = 0; i < 100; ++i) {
    upstream.call_of(kAlice, Verdict::failure);
    if (i % 8 == 0) upstream.call_of(kBob, Verdict::success);
  }
  EXPECT_TRUE(upstream.breaker.closed());
  // Those of the other one fail, too.
  int calls = 0;
  for (; upstream.breaker.closed(); ++calls)
    upstream.call_of(kBob, Verdict::failure);
  EXPECT_LE(calls, 5);
  EXPECT_EQ(upstream.breaker.only_client(), kNoMark);
}

TEST(CircuitBreaker, opens_for_several_as_soon_as_for_one) {
  Upstream upstream;
  int calls = 0;
  for (; upstream.breaker.closed(); ++calls)
    upstream.call_of(calls % 2 == 0 ? kAlice : kBob, Verdict::failure);
  EXPECT_LE(calls, 10);
}

TEST(CircuitBreaker, a_newcomer_tries_once_what_failed_for_one_client_alone) {
  Upstream upstream;
  for (int i = 0; i < 10; ++i)
    upstream.call_of(kAlice, Verdict::failure);
  EXPECT_EQ(upstream.breaker.only_client(), kAlice.client);
  EXPECT_FALSE(upstream.admits());
  upstream.breaker.try_now(upstream.now);
  EXPECT_TRUE(upstream.admits());
  const auto trial = upstream.breaker.called(upstream.now);
  EXPECT_FALSE(upstream.admits()) << "one, and no more before it is answered";
  upstream.call_of(kBob, Verdict::failure, trial);
  EXPECT_EQ(upstream.breaker.state(), BreakerState::open);
  EXPECT_EQ(upstream.breaker.only_client(), kNoMark)
      << "it fails for several: no newcomer is the first any more";
  EXPECT_GE(upstream.wait(), seconds(8)) << "the wait doubles as ever";
}

TEST(CircuitBreaker, two_trials_of_one_client_say_nothing_of_others) {
  Upstream upstream;
  upstream.open();
  for (int i = 0; i < 2; ++i) {
    upstream.pass_until_half_open();
    upstream.call_of(kAlice, Verdict::failure);
    EXPECT_EQ(upstream.breaker.only_client(), i == 0 ? kNoMark : kAlice.client);
  }
  // Neither does one after somebody else was answered.
  Upstream other;
  other.open();
  other.pass_until_half_open();
  other.call_of(kBob, Verdict::success);
  other.call_of(kAlice, Verdict::failure);
  EXPECT_EQ(other.breaker.only_client(), kAlice.client);
}

/// A client of a tenant, which may name as many as it likes.
constexpr Caller acme(std::uint64_t client) {
  return {.client = client, .model = 7, .tenant = 1'000};
}

TEST(CircuitBreaker, a_tenants_clients_open_it_for_that_tenant_alone) {
  Upstream upstream;
  for (std::uint64_t i = 0; upstream.breaker.closed(); ++i)
    upstream.call_of(acme(10 + i % 6), Verdict::failure);
  EXPECT_EQ(upstream.breaker.only_client(), 1'000u);
  // As it stays where more of its clients try.
  for (std::uint64_t i = 0; i < 5; ++i) {
    upstream.pass_until_half_open();
    upstream.call_of(acme(20 + i), Verdict::failure);
    EXPECT_EQ(upstream.breaker.only_client(), 1'000u);
  }
  // Beside calls of others it is not opened at all.
  Upstream shared;
  for (std::uint64_t i = 0; i < 100; ++i) {
    if (i % 8 == 0) shared.call_of(kBob, Verdict::success);
    shared.call_of(acme(10 + i), Verdict::failure);
  }
  EXPECT_TRUE(shared.breaker.closed());
}

TEST(CircuitBreaker, a_failed_trial_after_another_tenants_is_the_whole_tenants) {
  Upstream upstream;
  upstream.open();
  upstream.pass_until_half_open();
  upstream.call_of(kBob, Verdict::success);
  upstream.call_of(acme(10), Verdict::failure);
  EXPECT_EQ(upstream.breaker.only_client(), 1'000u);
  Upstream inside;
  inside.open();
  inside.pass_until_half_open();
  inside.call_of(acme(10), Verdict::success);
  inside.call_of(acme(11), Verdict::failure);
  EXPECT_EQ(inside.breaker.only_client(), 11u);
}

TEST(CircuitBreaker, one_client_of_a_tenant_opens_it_for_no_other_one) {
  Upstream upstream;
  for (std::uint64_t i = 0; i < 100; ++i) {
    upstream.call_of(acme(10), Verdict::failure);
    if (i % 8 == 0) upstream.call_of(acme(11), Verdict::success);
  }
  EXPECT_TRUE(upstream.breaker.closed());
  Upstream alone;
  for (int i = 0; i < 10; ++i)
    alone.call_of(acme(10), Verdict::failure);
  EXPECT_EQ(alone.breaker.only_client(), 10u);
}

TEST(CircuitBreaker, what_one_tenant_cannot_reach_says_nothing_where_others_are_answered) {
  Upstream upstream;
  upstream.call_of(kBob, Verdict::success);
  for (std::uint64_t i = 0; i < 20; ++i)
    upstream.call_of(acme(10 + i), Verdict::unreachable);
  EXPECT_TRUE(upstream.breaker.closed());
  // Nor of others where nobody else called.
  Upstream alone;
  for (std::uint64_t i = 0; alone.breaker.closed(); ++i)
    alone.call_of(acme(10 + i), Verdict::unreachable);
  EXPECT_EQ(alone.breaker.only_client(), 1'000u);
}

TEST(CircuitBreaker, tells_of_a_model_that_fails_while_others_are_answered) {
  using Finding = CircuitBreaker::Finding;
  constexpr Caller kOther{.client = 1, .model = 8};
  Upstream upstream;
  upstream.call_of(kOther, Verdict::success);
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(upstream.call_of(kAlice, Verdict::failure), Finding::nothing);
  EXPECT_EQ(upstream.call_of(kAlice, Verdict::failure), Finding::one_model_fails);
  EXPECT_EQ(upstream.breaker.only_caller_of(kAlice.model).client, kAlice.client);
  EXPECT_TRUE(upstream.breaker.closed());
  // Not where it fails for one client of several.
  Upstream shared;
  for (const Caller& caller : {kBob, kBob, kOther})
    shared.call_of(caller, Verdict::success);
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(shared.call_of(kAlice, Verdict::failure), Finding::nothing);
}

TEST(CircuitBreaker, looks_at_twenty_calls_and_thirty_seconds) {
  Upstream upstream;
  upstream.calls(100, Verdict::success);
  upstream.calls(9, Verdict::failure);
  EXPECT_TRUE(upstream.breaker.closed()) << "nine of twenty";
  upstream.call(Verdict::failure);
  EXPECT_FALSE(upstream.breaker.closed());

  Upstream slow;
  for (int i = 0; i < 100; ++i, slow.pass(seconds(4)))
    slow.call(Verdict::failure);
  EXPECT_TRUE(slow.breaker.closed()) << "never ten in thirty seconds";
}

TEST(CircuitBreaker, opens_at_once_when_nothing_can_be_reached) {
  Upstream upstream;
  upstream.calls(4, Verdict::unreachable);
  upstream.call(Verdict::refusal);
  upstream.calls(4, Verdict::unreachable);
  EXPECT_TRUE(upstream.breaker.closed()) << "it answered in between";
  upstream.call(Verdict::unreachable);
  EXPECT_FALSE(upstream.breaker.closed());
}

TEST(CircuitBreaker, what_one_client_alone_cannot_reach_opens_it_for_nobody_else) {
  Upstream upstream;
  upstream.call_of(kBob, Verdict::success);
  for (int i = 0; i < 30; ++i)
    upstream.call_of(kAlice, Verdict::unreachable);
  EXPECT_TRUE(upstream.breaker.closed()) << "the other one was answered";

  upstream.call_of(kBob, Verdict::unreachable);
  EXPECT_FALSE(upstream.breaker.closed()) << "now it fails for both";
}

TEST(CircuitBreaker, refusals_and_calls_nobody_knows_of_do_not_count) {
  Upstream upstream;
  upstream.calls(9, Verdict::failure);
  upstream.calls(1000, Verdict::refusal);
  upstream.calls(1000, Verdict::unknown);
  EXPECT_TRUE(upstream.breaker.closed());
  upstream.call(Verdict::failure);
  EXPECT_FALSE(upstream.breaker.closed());
}

TEST(CircuitBreaker, tries_one_then_three_then_closes) {
  Upstream upstream;
  upstream.open();
  const Duration wait = upstream.wait();
  EXPECT_GE(wait, seconds(4));
  EXPECT_LE(wait, seconds(6));
  upstream.pass(wait - milliseconds(1));
  EXPECT_FALSE(upstream.admits());
  upstream.pass(milliseconds(1));
  EXPECT_EQ(upstream.breaker.state(), BreakerState::half_open);

  ASSERT_TRUE(upstream.admits());
  const CircuitBreaker::Period trials = upstream.breaker.called(upstream.now);
  EXPECT_FALSE(upstream.admits()) << "one";
  upstream.end(trials, Verdict::success);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(upstream.admits());
    upstream.breaker.called(upstream.now);
  }
  EXPECT_FALSE(upstream.admits()) << "three";
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(upstream.breaker.closed());
    upstream.end(trials, i == 0 ? Verdict::refusal : Verdict::success);
  }
  EXPECT_TRUE(upstream.breaker.closed());
  upstream.calls(9, Verdict::failure);
  EXPECT_TRUE(upstream.breaker.closed()) << "what was before is forgotten";
}

TEST(CircuitBreaker, a_trial_that_fails_opens_it_for_twice_as_long_up_to_a_minute) {
  Upstream upstream;
  upstream.open();
  const int expected[] = {5, 10, 20, 40, 60, 60, 60};
  for (const int wait : expected) {
    EXPECT_GE(upstream.wait(), milliseconds(800 * wait));
    EXPECT_LE(upstream.wait(), std::min<Duration>(milliseconds(1200 * wait), seconds(60)));
    upstream.pass_until_half_open();
    ASSERT_TRUE(upstream.admits());
    upstream.call(Verdict::failure);
    ASSERT_EQ(upstream.breaker.state(), BreakerState::open);
  }
  upstream.pass_until_half_open();
  upstream.calls(4, Verdict::success);
  ASSERT_TRUE(upstream.breaker.closed());
  upstream.open();
  EXPECT_LE(upstream.wait(), seconds(6)) << "closed, it begins anew";
}

TEST(CircuitBreaker, calls_from_before_it_opened_say_nothing_later) {
  Upstream upstream;
  const CircuitBreaker::Period before = upstream.breaker.called(upstream.now);
  upstream.open();
  upstream.end(before, Verdict::success);
  upstream.pass_until_half_open();
  upstream.end(before, Verdict::failure);
  EXPECT_EQ(upstream.breaker.state(), BreakerState::half_open);
  for (int i = 0; i < 4; ++i)
    upstream.end(before, Verdict::success);
  EXPECT_EQ(upstream.breaker.state(), BreakerState::half_open) << "none of them was a trial";
  EXPECT_TRUE(upstream.admits());
  upstream.calls(4, Verdict::success);
  for (int i = 0; i < 20; ++i)
    upstream.end(before, Verdict::failure);
  EXPECT_TRUE(upstream.breaker.closed());
}

TEST(CircuitBreaker, a_trial_that_answers_after_the_next_opening_is_none_of_the_later_trials) {
  Upstream upstream;
  upstream.open();
  upstream.pass_until_half_open();
  const CircuitBreaker::Period first = upstream.breaker.called(upstream.now);
  upstream.pass(CircuitBreaker::kTrialPatience);
  upstream.call(Verdict::failure);
  upstream.pass_until_half_open();

  upstream.end(first, Verdict::success);

  EXPECT_EQ(upstream.breaker.state(), BreakerState::half_open);
  const CircuitBreaker::Period second = upstream.breaker.called(upstream.now);
  upstream.end(first, Verdict::failure);
  EXPECT_EQ(upstream.breaker.state(), BreakerState::half_open);
  EXPECT_FALSE(upstream.admits()) << "the trial is still out";
  upstream.end(second, Verdict::success);
  EXPECT_TRUE(upstream.admits());
}

TEST(CircuitBreaker, a_trial_that_says_nothing_is_not_waited_for_for_ever) {
  Upstream upstream;
  upstream.open();
  upstream.pass_until_half_open();
  upstream.call(Verdict::unknown);
  ASSERT_TRUE(upstream.admits()) << "that trial was none";
  upstream.breaker.called(upstream.now);
  EXPECT_EQ(upstream.breaker.admits_at(false), kNever);
  EXPECT_EQ(upstream.breaker.next_change(), upstream.now + CircuitBreaker::kTrialPatience);
  upstream.pass(CircuitBreaker::kTrialPatience);
  EXPECT_TRUE(upstream.admits());
}

TEST(CircuitBreaker, the_top_lane_waits_twice_as_long_to_be_the_trial) {
  Upstream upstream;
  upstream.open();
  const Duration wait = upstream.wait();
  EXPECT_EQ(upstream.breaker.admits_at(true), upstream.now + 2 * wait);
  upstream.pass(wait);
  EXPECT_TRUE(upstream.admits(false));
  EXPECT_FALSE(upstream.admits(true));
  EXPECT_EQ(upstream.breaker.next_change(), upstream.now + wait);
  upstream.pass(wait);
  EXPECT_TRUE(upstream.admits(true));
}

TEST(CircuitBreaker, the_top_lane_goes_with_the_rest_once_another_was_answered) {
  Upstream upstream;
  upstream.open();
  upstream.pass_until_half_open();
  upstream.call(Verdict::success);
  EXPECT_TRUE(upstream.admits(true));
}

TEST(CircuitBreaker, knows_which_codes_say_that_there_was_no_connection) {
  for (const char* code : {"connect", "resolve", "tls"})
    EXPECT_TRUE(says_unreachable(code)) << code;
  for (const char* code : {"timeout", "reset", "upstream_503", ""})
    EXPECT_FALSE(says_unreachable(code)) << code;
}

}  // namespace
}  // namespace lanemq::core
