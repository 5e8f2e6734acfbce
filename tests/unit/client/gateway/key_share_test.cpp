// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/limits/key_share.hpp"

#include <limits>

#include <gtest/gtest.h>

#include <lanemq/limits.hpp>

namespace lanemq::gateway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Lack = KeyShare::Lack;

struct KeyShareTest : testing::Test {
  KeyShare share;
  KeyShare::TimePoint now{seconds(1'000)};

  /// The broker gives all that is asked for.
  void give(const SpendRequest& ask) {
    share.told({.requests = ask.requests + ask.requests_ahead,
                .tokens = ask.tokens + ask.tokens_ahead,
                .places = ask.places + ask.places_ahead},
               now);
  }
  SpendRequest ask(std::size_t waiting = 0) {
    const auto asked = share.ask(waiting, now);
    EXPECT_TRUE(asked);
    return asked.value_or(SpendRequest{});
  }
};

TEST_F(KeyShareTest, asks_for_nothing_where_nothing_is_limited) {
  EXPECT_EQ(share.lack(0), Lack::nothing);
  share.take(now);
  share.spend_tokens(1'000, now);
  EXPECT_FALSE(share.ask(0, now));
}

TEST_F(KeyShareTest, the_first_call_waits_and_those_behind_it_do_not) {
  share.set_limits({.requests_per_minute = 1'600, .tokens_per_minute = 16'000, .concurrency = 32});
  EXPECT_EQ(share.lack(0), Lack::places);
  const SpendRequest first = ask(1);
  EXPECT_EQ(first.requests_ahead, 1 + 100);
  EXPECT_EQ(first.tokens_ahead, 1'000);
  EXPECT_EQ(first.places_ahead, 1 + 2);
  EXPECT_FALSE(share.ask(1, now)) << "an ask is under way";
  give(first);

  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(share.lack(0), Lack::nothing);
    share.take(now);
  }
  EXPECT_EQ(share.lack(0), Lack::places);
}

TEST_F(KeyShareTest, the_next_slice_is_asked_for_before_the_last_one_is_used_up) {
  share.set_limits({.requests_per_minute = 1'600});
  give(ask(1));
  int calls = 0;
  while (!share.ask(0, now)) {
    ASSERT_EQ(share.lack(0), Lack::nothing);
    share.take(now);
    ++calls;
  }
  EXPECT_EQ(calls, 52);
}

TEST_F(KeyShareTest, of_little_nothing_is_taken_ahead) {
  share.set_limits({.requests_per_minute = 15, .tokens_per_minute = 15, .concurrency = 1});
  const SpendRequest asked = ask(1);
  EXPECT_EQ(asked.requests_ahead, 1);
  EXPECT_EQ(asked.tokens_ahead, 1);
  EXPECT_EQ(asked.places_ahead, 1);
  give(asked);
  share.take(now);
  share.leave_place();

  const SpendRequest back = ask();
  EXPECT_EQ(back.places + back.places_ahead, 0) << "the place goes back at once";
}

TEST_F(KeyShareTest, what_nobody_uses_goes_back) {
  share.set_limits({.requests_per_minute = 1'600, .tokens_per_minute = 16'000, .concurrency = 32});
  give(ask(1));
  share.take(now);
  share.leave_place();
  EXPECT_FALSE(share.ask(0, now + KeyShare::kIdle - milliseconds(1)));

  now += KeyShare::kIdle;
  const SpendRequest back = ask();
  EXPECT_EQ(back.requests, 1);
  EXPECT_EQ(back.requests_ahead + back.tokens_ahead + back.places + back.places_ahead, 0);
  EXPECT_NE(share.lack(0), Lack::nothing) << "others may have it before the answer is there";
  give(back);
  now += seconds(100);
  EXPECT_FALSE(share.ask(0, now));
}

TEST_F(KeyShareTest, a_refusal_counts_until_the_time_that_the_broker_says) {
  share.set_limits({.requests_per_minute = 2});
  const SpendRequest asked = ask(3);
  EXPECT_EQ(asked.requests_ahead, 3);
  share.told({.requests = 2, .requests_wait = milliseconds(30'000)}, now);

  share.take(now);
  share.take(now);
  EXPECT_EQ(share.lack(0), Lack::requests);
  EXPECT_EQ(share.refused_until(Lack::requests, now), now + seconds(30));

  // Another gateway may have given back meanwhile.
  now += KeyShare::kRefusedFor;
  EXPECT_FALSE(share.refused_until(Lack::requests, now));
  const SpendRequest again = ask(1);
  share.told({.requests = 2, .requests_wait = milliseconds(29'000)}, now);
  EXPECT_EQ(share.refused_until(Lack::requests, now), now + seconds(29));
  EXPECT_EQ(again.requests_ahead, 1);
}

TEST_F(KeyShareTest, tokens_used_beyond_what_was_given_are_told_at_once) {
  share.set_limits({.tokens_per_minute = 600});
  give(ask(1));
  share.take(now);
  share.spend_tokens(1'000, now);
  EXPECT_EQ(share.lack(0), Lack::tokens);
  EXPECT_EQ(ask().tokens, 1'000);
  share.told({.tokens = 1'000, .tokens_wait = milliseconds(40'100)}, now);
}

TEST_F(KeyShareTest, an_estimate_that_was_too_large_is_asked_for_again_where_there_were_no_tokens) {
  share.set_limits({.tokens_per_minute = 600});
  give(ask(1));
  share.spend_tokens(600, now);
  const SpendRequest over = ask();
  share.told({.tokens = over.tokens, .tokens_wait = seconds(60)}, now);
  share.spend_tokens(-590, now);

  EXPECT_EQ(share.lack(0), Lack::tokens);
  EXPECT_FALSE(share.refused_until(Lack::tokens, now));
  const SpendRequest again = ask(1);
  EXPECT_EQ(again.tokens, 10);
  give(again);
  EXPECT_EQ(share.lack(0), Lack::nothing);
}

TEST_F(KeyShareTest, what_runs_is_renewed_and_an_ask_that_was_lost_is_made_again) {
  share.set_limits({.concurrency = 4});
  give(ask(1));
  share.take(now);
  EXPECT_FALSE(share.ask(0, now));
  now += KeyShare::kRenewEvery;
  EXPECT_EQ(ask().places, 1);
  EXPECT_FALSE(share.ask(0, now));
  now += KeyShare::kAskAgain;
  EXPECT_EQ(ask().places, 1);
}

TEST_F(KeyShareTest, no_number_is_beyond_what_can_be_said) {
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  share.set_limits({.requests_per_minute = kHuge, .tokens_per_minute = kHuge, .concurrency = kHuge});
  give(ask(1));
  share.spend_tokens(kHuge, now);
  share.spend_tokens(kHuge, now);
  const SpendRequest asked = ask();
  for (const std::int64_t number : {asked.requests_per_minute, asked.tokens_per_minute, asked.concurrency,
                                    asked.tokens, asked.tokens_ahead})
    EXPECT_LE(number, limits::share_max);
}

TEST_F(KeyShareTest, an_estimate_that_is_set_right_lets_nobody_in_while_there_are_no_tokens) {
  share.set_limits({.tokens_per_minute = 900});
  give(ask(1));
  share.spend_tokens(920, now);
  const SpendRequest over = ask();
  share.told({.tokens = over.tokens, .tokens_wait = seconds(30)}, now);

  share.spend_tokens(-14, now);
  EXPECT_EQ(share.lack(0), Lack::tokens);
  const SpendRequest less = ask(1);
  share.told({.tokens = less.tokens, .tokens_wait = seconds(30)}, now);
  EXPECT_EQ(share.lack(0), Lack::tokens);
  EXPECT_EQ(share.refused_until(Lack::tokens, now), now + seconds(30));

  // The same where it is set right before the broker's word has come.
  share.spend_tokens(920, now);
  const SpendRequest again = ask();
  share.spend_tokens(-14, now);
  share.told({.tokens = again.tokens, .tokens_wait = seconds(60)}, now);
  EXPECT_EQ(share.lack(0), Lack::tokens);
}

TEST_F(KeyShareTest, a_batch_asks_for_tokens_as_a_call_does) {
  share.set_limits({.tokens_per_minute = 8});
  EXPECT_FALSE(share.has_tokens());
  share.want_tokens(now);
  const SpendRequest asked = ask();
  EXPECT_EQ(asked.tokens_ahead, 1);
  give(asked);
  EXPECT_TRUE(share.has_tokens());
}

}  // namespace
}  // namespace lanemq::gateway
