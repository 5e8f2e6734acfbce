// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/limit_headers.hpp"

#include <string>

#include <gtest/gtest.h>

namespace lanemq::upstream {
namespace {

using namespace std::chrono_literals;

TEST(FormatDuration, writes_what_go_writes) {
  EXPECT_EQ(format_duration(0ns), "0s");
  EXPECT_EQ(format_duration(20ms), "20ms");
  EXPECT_EQ(format_duration(1s), "1s");
  EXPECT_EQ(format_duration(8640ms), "8.64s");
  EXPECT_EQ(format_duration(1005ms), "1.005s");
  EXPECT_EQ(format_duration(6min), "6m0s");
  EXPECT_EQ(format_duration(59min + 59s + 900ms), "59m59.9s");
  EXPECT_EQ(format_duration(1h + 500ms), "1h0m0.5s");
}

TEST(FormatDuration, rounds_up_so_that_waiting_it_out_is_enough) {
  EXPECT_EQ(format_duration(1ns), "1ms");
  EXPECT_EQ(format_duration(1s - 1ns), "1s");
  EXPECT_EQ(format_duration(60s - 1ns), "1m0s");
}

TEST(FormatUtc, rounds_up_to_whole_seconds) {
  EXPECT_EQ(format_utc(0s), "1970-01-01T00:00:00Z");
  EXPECT_EQ(format_utc(1763773700s + 1ns), "2025-11-22T01:08:21Z");
}

TEST(FormatSeconds, writes_what_protobuf_writes) {
  EXPECT_EQ(format_seconds(0ns), "0s");
  EXPECT_EQ(format_seconds(20ms), "0.02s");
  EXPECT_EQ(format_seconds(8639999999ns), "8.64s");
  EXPECT_EQ(format_seconds(90s), "90s");
}

class AddLimitHeaders : public testing::Test {
 protected:
  AddLimitHeaders() { limiter_.admit(100, kNow); }

  HeaderFields said(Tongue tongue) {
    HeaderFields headers;
    add_limit_headers(headers, tongue, limiter_, kNow, 1000s);
    return headers;
  }

  static constexpr TimePoint kNow = TimePoint() + 1h;
  Limiter limiter_{{.requests = 10, .tokens = 1000}};
};

TEST_F(AddLimitHeaders, speaks_as_openai) {
  EXPECT_EQ(said(Tongue::openai), (HeaderFields{{"x-ratelimit-limit-requests", "10"},
                                                {"x-ratelimit-remaining-requests", "9"},
                                                {"x-ratelimit-reset-requests", "1m0s"},
                                                {"x-ratelimit-limit-tokens", "1000"},
                                                {"x-ratelimit-remaining-tokens", "900"},
                                                {"x-ratelimit-reset-tokens", "1m0s"}}));
}

TEST_F(AddLimitHeaders, speaks_as_anthropic) {
  EXPECT_EQ(said(Tongue::anthropic),
            (HeaderFields{{"anthropic-ratelimit-requests-limit", "10"},
                          {"anthropic-ratelimit-requests-remaining", "9"},
                          {"anthropic-ratelimit-requests-reset", "1970-01-01T00:17:40Z"},
                          {"anthropic-ratelimit-tokens-limit", "1000"},
                          {"anthropic-ratelimit-tokens-remaining", "900"},
                          {"anthropic-ratelimit-tokens-reset", "1970-01-01T00:17:40Z"}}));
}

TEST_F(AddLimitHeaders, speaks_as_azure_without_a_reset) {
  EXPECT_EQ(said(Tongue::azure), (HeaderFields{{"x-ratelimit-limit-requests", "10"},
                                               {"x-ratelimit-remaining-requests", "9"},
                                               {"x-ratelimit-limit-tokens", "1000"},
                                               {"x-ratelimit-remaining-tokens", "900"}}));
}

TEST_F(AddLimitHeaders, speaks_as_groq_of_tokens_alone) {
  EXPECT_EQ(said(Tongue::groq), (HeaderFields{{"x-ratelimit-limit-tokens", "1000"},
                                              {"x-ratelimit-remaining-tokens", "900"},
                                              {"x-ratelimit-reset-tokens", "1m0s"}}));
}

TEST_F(AddLimitHeaders, speaks_as_the_ietfs_draft) {
  EXPECT_EQ(said(Tongue::ietf),
            (HeaderFields{{"ratelimit-policy", R"("requests";q=10;w=60, "tokens";q=1000;w=60)"},
                          {"ratelimit", R"("requests";r=9;t=60, "tokens";r=900;t=60)"}}));
}

TEST_F(AddLimitHeaders, says_nothing_as_those_who_say_nothing) {
  for (const Tongue tongue : {Tongue::gemini, Tongue::deepseek, Tongue::openrouter, Tongue::none})
    EXPECT_TRUE(said(tongue).empty());
}

TEST(ResetOfAWindow, is_what_each_kind_of_window_means_by_it) {
  const auto reset = [](WindowKind window) {
    Limiter limiter({.requests = 60, .window = window, .burst_requests = 10}, TimePoint(), 15s);
    limiter.admit(1, TimePoint() + 1s);
    limiter.admit(1, TimePoint() + 1s);
    HeaderFields headers;
    add_limit_headers(headers, Tongue::openai, limiter, TimePoint() + 2s, 17s);
    return headers.back().second;
  };

  EXPECT_EQ(reset(WindowKind::sliding), "59s") << "until the newest call leaves";
  EXPECT_EQ(reset(WindowKind::bucket), "1s") << "until it is full";
  EXPECT_EQ(reset(WindowKind::fixed), "59s") << "until its end";
  EXPECT_EQ(reset(WindowKind::clock), "43s") << "until the minute ends";
}

}  // namespace
}  // namespace lanemq::upstream
