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

TEST(AddLimitHeaders, speaks_as_the_service_does) {
  const TimePoint now = TimePoint() + 1h;
  Limiter limiter({.requests_per_minute = 10, .tokens_per_minute = 1000});
  limiter.admit(100, now);
  HeaderFields openai;
  HeaderFields anthropic;

  add_limit_headers(openai, Dialect::openai, limiter, now, 1000s);
  add_limit_headers(anthropic, Dialect::anthropic, limiter, now, 1000s);

  EXPECT_EQ(openai, (HeaderFields{{"x-ratelimit-limit-requests", "10"},
                                  {"x-ratelimit-remaining-requests", "9"},
                                  {"x-ratelimit-reset-requests", "1m0s"},
                                  {"x-ratelimit-limit-tokens", "1000"},
                                  {"x-ratelimit-remaining-tokens", "900"},
                                  {"x-ratelimit-reset-tokens", "1m0s"}}));
  EXPECT_EQ(anthropic, (HeaderFields{{"anthropic-ratelimit-requests-limit", "10"},
                                     {"anthropic-ratelimit-requests-remaining", "9"},
                                     {"anthropic-ratelimit-requests-reset", "1970-01-01T00:17:40Z"},
                                     {"anthropic-ratelimit-tokens-limit", "1000"},
                                     {"anthropic-ratelimit-tokens-remaining", "900"},
                                     {"anthropic-ratelimit-tokens-reset", "1970-01-01T00:17:40Z"}}));
}

}  // namespace
}  // namespace lanemq::upstream
