// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/limits/caller_limits.hpp"

#include <gtest/gtest.h>

namespace lanemq::gateway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct CallerLimitsTest : testing::Test {
  KeySettings key{.name = "team"};
  CallerLimits limits;
  Loop::TimePoint now{seconds(1'000)};

  Caller caller(const Api& api = kOpenai) {
    return {.name = "team", .client = "team", .api = &api, .key = &key};
  }
};

TEST_F(CallerLimitsTest, let_everybody_in_where_there_are_none) {
  for (int i = 0; i < 1000; ++i)
    EXPECT_FALSE(limits.take(Caller{}, now));
  EXPECT_FALSE(limits.take(caller(), now));
}

TEST_F(CallerLimitsTest, refill_evenly_and_say_when_to_come_again) {
  key.requests_per_minute = 2;
  EXPECT_FALSE(limits.take(caller(), now));
  EXPECT_FALSE(limits.take(caller(), now));

  const auto refused = limits.take(caller(), now);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code, "tenant_rpm");
  EXPECT_EQ(refused->retry_after, milliseconds(30'000));

  EXPECT_TRUE(limits.take(caller(), now + milliseconds(29'900)));
  EXPECT_FALSE(limits.take(caller(), now + milliseconds(30'000)));
}

TEST_F(CallerLimitsTest, tokens_may_run_into_debt_that_is_paid_first) {
  key.tokens_per_minute = 600;
  EXPECT_FALSE(limits.take(caller(), now));
  limits.spend_tokens(caller(), 1'200, now);

  EXPECT_EQ(limits.take(caller(), now)->code, "tenant_tpm");
  EXPECT_TRUE(limits.take(caller(), now + seconds(60)));
  EXPECT_FALSE(limits.take(caller(), now + seconds(61)));
}

TEST_F(CallerLimitsTest, an_estimate_is_a_quarter_of_the_bytes_and_no_more_than_a_minute) {
  key.tokens_per_minute = 600;
  EXPECT_EQ(limits.spend_estimate(caller(), 400, now), 100);
  EXPECT_EQ(limits.until_tokens(key, now), milliseconds(0));
  EXPECT_EQ(limits.spend_estimate(caller(), std::size_t{30} << 20, now), 600);

  EXPECT_EQ(limits.until_tokens(key, now), milliseconds(10'100));
  EXPECT_EQ(limits.spend_estimate(Caller{}, 400, now), 0);
  EXPECT_EQ(bytes_of_request(R"({"max_tokens":7})"), 16u + 28u);
}

TEST_F(CallerLimitsTest, a_call_that_nobody_waits_for_keeps_its_place) {
  key.concurrency = 1;
  EXPECT_FALSE(limits.take(caller(), now));
  limits.hold(caller());
  limits.give_back(caller());

  EXPECT_EQ(limits.take(caller(), now)->code, "tenant_concurrency");
  // Its caller's next try needs no other; which it is is not known by the head.
  EXPECT_FALSE(limits.why_not(caller(), now));
  EXPECT_FALSE(limits.take(caller(), now, true));
  limits.release(caller());
  EXPECT_TRUE(limits.why_not(caller(), now));
  limits.give_back(caller());
  EXPECT_FALSE(limits.take(caller(), now));
}

TEST_F(CallerLimitsTest, bound_what_runs_at_once) {
  key.concurrency = 1;
  EXPECT_FALSE(limits.take(caller(), now));
  EXPECT_EQ(limits.take(caller(), now)->code, "tenant_concurrency");

  limits.give_back(caller());

  EXPECT_FALSE(limits.take(caller(), now));
}

TEST_F(CallerLimitsTest, are_described_in_the_callers_own_words) {
  key.requests_per_minute = 60;
  limits.take(caller(), now);
  Headers openai, anthropic;

  limits.describe(caller(), now, openai);
  limits.describe(caller(kAnthropic), now, anthropic);

  EXPECT_EQ(openai.get("x-ratelimit-limit-requests"), "60");
  EXPECT_EQ(openai.get("x-ratelimit-remaining-requests"), "59");
  EXPECT_EQ(openai.get("x-ratelimit-reset-requests"), "1s");
  EXPECT_EQ(openai.find("x-ratelimit-limit-tokens"), nullptr);
  EXPECT_EQ(anthropic.get("anthropic-ratelimit-requests-remaining"), "59");
  EXPECT_EQ(anthropic.get("anthropic-ratelimit-requests-reset").size(),
            std::string("2026-01-01T00:00:00Z").size());
}

TEST_F(CallerLimitsTest, that_are_shared_wait_for_the_brokers_word) {
  key.requests_per_minute = 2;
  int changes = 0;
  limits.share([&] { ++changes; });
  ASSERT_FALSE(*limits.try_take(caller(), now, false));
  limits.begin_waiting(caller());
  EXPECT_EQ(changes, 1);
  const std::vector<SpendRequest> asks = limits.asks(now, false);
  ASSERT_EQ(asks.size(), 1u);
  EXPECT_EQ(asks[0].key, "team");
  EXPECT_EQ(asks[0].requests_ahead, 1);

  limits.told("team", {.requests = 1, .requests_left = 1}, now);
  EXPECT_TRUE(*limits.try_take(caller(), now, false));
  limits.end_waiting(caller());
  Headers headers;
  limits.describe(caller(), now, headers);
  EXPECT_EQ(headers.get("x-ratelimit-remaining-requests"), "1") << "what is left for all gateways";

  ASSERT_FALSE(*limits.try_take(caller(), now, false));
  limits.begin_waiting(caller());
  ASSERT_EQ(limits.asks(now, true).size(), 1u);
  limits.told("team", {.requests = 1, .requests_wait = milliseconds(29'000)}, now);
  const auto refused = limits.try_take(caller(), now, false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "tenant_rpm");
  EXPECT_EQ(refused.error().retry_after, milliseconds(29'000));
  EXPECT_TRUE(limits.why_not(caller(), now)) << "by the head, too, and without another question";
}

TEST_F(CallerLimitsTest, count_here_where_the_broker_shares_nothing_out) {
  key.requests_per_minute = 2;
  limits.share([] {});
  ASSERT_FALSE(*limits.try_take(caller(), now, false));
  limits.alone("team", now);
  EXPECT_TRUE(*limits.try_take(caller(), now, false));
  EXPECT_TRUE(*limits.try_take(caller(), now, false));
  EXPECT_EQ(limits.try_take(caller(), now, false).error().code, "tenant_rpm");
  EXPECT_TRUE(limits.asks(now, true).empty());

  EXPECT_FALSE(*limits.try_take(caller(), now + CallerLimits::kAlone, false)) << "it is asked again";
}

TEST_F(CallerLimitsTest, stay_used_when_they_are_read_again) {
  const auto named = [](std::int64_t limit) {
    return KeySettings{.name = "team", .requests_per_minute = limit, .concurrency = 2};
  };
  const KeySettings before = named(60), after = named(10);
  Caller caller{.name = "team", .key = &before};
  EXPECT_FALSE(limits.take(caller, now));
  caller.key = &after;
  limits.keep_only({after});
  EXPECT_FALSE(limits.take(caller, now));
  EXPECT_EQ(limits.take(caller, now)->code, "tenant_concurrency");

  // A key that is no more is known until nothing of it runs.
  limits.keep_only({});
  limits.give_back(caller);
  EXPECT_FALSE(limits.take(caller, now));
  EXPECT_EQ(limits.take(caller, now)->code, "tenant_concurrency");
  limits.give_back(caller);
  limits.give_back(caller);
  limits.keep_only({});
  EXPECT_FALSE(limits.take(caller, now)) << "what it used is forgotten, too";
}

}  // namespace
}  // namespace lanemq::gateway
