// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/http/upstream_headers.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <lanemq/limits.hpp>

#include "worker/handlers/limits/refusal_texts.hpp"

namespace lanemq::worker {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

/// 2024-05-01T12:00:00Z
const WallTime kNow = std::chrono::sys_days(std::chrono::year(2024) / 5 / 1) + 12h;

UpstreamHeaders read(const std::vector<std::string>& lines) {
  UpstreamHeaders headers;
  for (const std::string& line : lines)
    headers.add_line(line, kNow);
  return headers;
}

TEST(ParseDuration, reads_what_upstreams_write) {
  EXPECT_EQ(parse_duration("1s"), 1s);
  EXPECT_EQ(parse_duration("6m0s"), 6min);
  EXPECT_EQ(parse_duration("20ms"), 20ms);
  EXPECT_EQ(parse_duration("8.64s"), 8640ms);
  EXPECT_EQ(parse_duration("1h2m3.5s"), 1h + 2min + 3500ms);
  EXPECT_EQ(parse_duration("7"), 7s);
  EXPECT_EQ(parse_duration(" 1.5 "), 1500ms);
  EXPECT_EQ(parse_duration("1d2h"), 26h);
  EXPECT_EQ(parse_duration("0s"), 0ms);
  EXPECT_EQ(parse_duration("250us"), 1ms);  // rounded up: too early earns another refusal
}

TEST(ParseDuration, takes_nothing_else) {
  for (const std::string_view text :
       {"", " ", "-1", "-1s", "s", "1x", "1s2", "1 s", ".", "1.", "inf", "nan", "0x10", "1e3", "soon", "1s;"})
    EXPECT_EQ(parse_duration(text), std::nullopt) << text;
}

TEST(ParseDuration, is_bounded) {
  EXPECT_EQ(parse_duration("99999999999999999999h"), milliseconds(limits::duration_ms_max));
}

TEST(ParseHttpDate, reads_the_three_forms) {
  const WallTime expected = std::chrono::sys_days(std::chrono::year(1994) / 11 / 6) + 8h + 49min + 37s;
  EXPECT_EQ(parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT"), expected);
  EXPECT_EQ(parse_http_date("Sunday, 06-Nov-94 08:49:37 GMT"), expected);
  EXPECT_EQ(parse_http_date("Sun Nov  6 08:49:37 1994"), expected);
}

TEST(ParseHttpDate, refuses_what_is_none) {
  for (const std::string_view text :
       {"", "Sun", "Sun, ", "Sun, 31 Feb 2024 00:00:00 GMT", "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 08:49:37 PST", "Sun, 06 Nov 1994 08:49:37", "Sun Nov 6 08:49 1994"})
    EXPECT_EQ(parse_http_date(text), std::nullopt) << text;
}

TEST(ParseRfc3339, reads_fractions_and_offsets) {
  EXPECT_EQ(parse_rfc3339("2024-05-01T12:00:00Z"), kNow);
  EXPECT_EQ(parse_rfc3339("2024-05-01T12:00:01.25Z"), kNow + 1250ms);
  EXPECT_EQ(parse_rfc3339("2024-05-01T14:30:00+02:30"), kNow);
  EXPECT_EQ(parse_rfc3339("2024-05-01T07:00:00-05:00"), kNow);
  EXPECT_EQ(parse_rfc3339("2016-12-31T23:59:60Z"), parse_rfc3339("2016-12-31T23:59:59Z"));
}

TEST(ParseRfc3339, refuses_what_is_none) {
  for (const std::string_view text :
       {"", "2024-05-01", "2024-05-01T12:00:00", "2024-02-30T12:00:00Z", "2024-05-01T12:00:00.Z",
        "2024-05-01T12:00:00+2", "2024-05-01T12:00:00Zx"})
    EXPECT_EQ(parse_rfc3339(text), std::nullopt) << text;
}

std::optional<milliseconds> wait_in(std::string_view text) {
  return find_wait_in_text(text, kNow);
}

TEST(FindWaitInText, finds_the_time_in_an_error_for_people) {
  EXPECT_EQ(wait_in("Rate limit reached. Please try again in 8.64s. Visit"), 8640ms);
  EXPECT_EQ(wait_in("Please try again in 20ms."), 20ms);
  EXPECT_EQ(wait_in("Please try again in 6m0s"), 6min);
  EXPECT_EQ(wait_in("quota will reset after 27h41m36s"), 27h + 41min + 36s);
  EXPECT_EQ(wait_in("try again in 3 seconds"), 3s);
  EXPECT_EQ(wait_in("try again in 2 minutes"), 2min);
  EXPECT_EQ(wait_in("Token rate limit exceeded. Please retry after 26 seconds."), 26s);
  EXPECT_EQ(wait_in("Retry in 43.5s"), 43500ms);
  EXPECT_EQ(wait_in("your quota will reset in 1 day"), 24h);
  EXPECT_EQ(wait_in("please try again after 1 seconds"), 1s);
  EXPECT_EQ(wait_in("Please wait 8 hours 24 minutes and try again"), 8h + 24min);
  EXPECT_EQ(wait_in("try again in a moment, or try again in 5s"), 5s);
  EXPECT_EQ(wait_in("It will reset at 2024-05-01T14:30:30+02:30."), 30s);
  EXPECT_EQ(wait_in("It will reset at 2024-05-01 12:01:00"), 1min);
  EXPECT_EQ(wait_in("It will reset at 2024-05-01 11:00:00"), 0s);
}

TEST(FindWaitInText, finds_nothing_where_none_is_said) {
  EXPECT_EQ(wait_in("try again later"), std::nullopt);
  EXPECT_EQ(wait_in("try again in a moment"), std::nullopt);
  EXPECT_EQ(wait_in("try again in 5"), std::nullopt);
  EXPECT_EQ(wait_in(""), std::nullopt);
}

TEST(UpstreamHeaders, prefers_the_finer_retry_after) {
  EXPECT_EQ(read({"Retry-After: 2", "retry-after-ms: 1234", "x-ms-retry-after-ms: 99"}).retry_after(),
            1234ms);
  EXPECT_EQ(read({"Retry-After: 2", "X-Ms-Retry-After-Ms: 99"}).retry_after(), 99ms);
  EXPECT_EQ(read({"retry-after: 2.5\r\n"}).retry_after(), 2500ms);
  EXPECT_EQ(read({"retry-after-ms: soon", "retry-after: 2"}).retry_after(), 2s);
  EXPECT_EQ(read({"content-type: text/html"}).retry_after(), std::nullopt);
}

TEST(UpstreamHeaders, reads_a_date_against_the_clock) {
  EXPECT_EQ(read({"Retry-After: Wed, 01 May 2024 12:00:30 GMT"}).retry_after(), 30s);
  EXPECT_EQ(read({"Retry-After: Wed, 01 May 2024 11:00:00 GMT"}).retry_after(), 0ms);
}

TEST(UpstreamHeaders, reads_the_limits_of_openai) {
  const auto limits = read({"x-ratelimit-limit-requests: 60", "x-ratelimit-remaining-requests: 59",
                            "x-ratelimit-reset-requests: 1s", "X-RateLimit-Limit-Tokens: 150000",
                            "x-ratelimit-remaining-tokens: 149984", "x-ratelimit-reset-tokens: 6m0s"})
                          .limits();

  ASSERT_TRUE(limits);
  EXPECT_EQ(limits->limit_requests, 60);
  EXPECT_EQ(limits->remaining_requests, 59);
  EXPECT_EQ(limits->reset_requests_ms, 1000);
  EXPECT_EQ(limits->limit_tokens, 150000);
  EXPECT_EQ(limits->remaining_tokens, 149984);
  EXPECT_EQ(limits->reset_tokens_ms, 360'000);
  EXPECT_EQ(limits->limit_input_tokens, std::nullopt);
}

TEST(UpstreamHeaders, reads_the_limits_of_anthropic) {
  const auto limits =
      read({"anthropic-ratelimit-requests-limit: 50", "anthropic-ratelimit-requests-remaining: 49",
            "anthropic-ratelimit-requests-reset: 2024-05-01T12:00:02Z",
            "anthropic-ratelimit-input-tokens-remaining: 40000",
            "anthropic-ratelimit-output-tokens-limit: 8000",
            "anthropic-ratelimit-output-tokens-reset: 2024-05-01T12:01:00Z"})
          .limits();

  ASSERT_TRUE(limits);
  EXPECT_EQ(limits->limit_requests, 50);
  EXPECT_EQ(limits->remaining_requests, 49);
  EXPECT_EQ(limits->reset_requests_ms, 2000);
  EXPECT_EQ(limits->remaining_input_tokens, 40000);
  EXPECT_EQ(limits->limit_output_tokens, 8000);
  EXPECT_EQ(limits->reset_output_tokens_ms, 60'000);
}

TEST(UpstreamHeaders, reads_every_limit_in_both_spellings) {
  struct Row {
    std::string name;
    std::optional<std::int64_t> wire::UpstreamLimits::*limit, wire::UpstreamLimits::*remaining,
        wire::UpstreamLimits::*reset;
  };
  using Limits = wire::UpstreamLimits;
  const Row rows[] = {
      {"requests", &Limits::limit_requests, &Limits::remaining_requests, &Limits::reset_requests_ms},
      {"tokens", &Limits::limit_tokens, &Limits::remaining_tokens, &Limits::reset_tokens_ms},
      {"input-tokens", &Limits::limit_input_tokens, &Limits::remaining_input_tokens,
       &Limits::reset_input_tokens_ms},
      {"output-tokens", &Limits::limit_output_tokens, &Limits::remaining_output_tokens,
       &Limits::reset_output_tokens_ms}};
  for (const Row& row : rows) {
    const auto openai =
        read({"x-ratelimit-limit-" + row.name + ": 7", "x-ratelimit-remaining-" + row.name + ": 0",
              "x-ratelimit-reset-" + row.name + ": 20ms"})
            .limits();
    const auto anthropic = read({"Anthropic-Ratelimit-" + row.name + "-Limit: 7",
                                 "anthropic-ratelimit-" + row.name + "-remaining: 0",
                                 "anthropic-ratelimit-" + row.name + "-reset: 2024-05-01T12:00:00.02Z"})
                               .limits();
    for (const auto& limits : {openai, anthropic}) {
      ASSERT_TRUE(limits) << row.name;
      EXPECT_EQ(*limits.*row.limit, 7) << row.name;
      EXPECT_EQ(*limits.*row.remaining, 0) << row.name;
      EXPECT_EQ(*limits.*row.reset, 20) << row.name;
    }
  }
}

TEST(UpstreamHeaders, reads_resets_in_unix_time) {
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>((kNow + 5s).time_since_epoch()).count();
  EXPECT_EQ(read({"x-ratelimit-reset-requests: " + std::to_string(seconds)}).limits()->reset_requests_ms,
            5000);
  EXPECT_EQ(
      read({"x-ratelimit-reset-requests: " + std::to_string(seconds * 1000)}).limits()->reset_requests_ms,
      5000);
}

TEST(UpstreamHeaders, takes_nonsense_for_absent) {
  const auto headers =
      read({"x-ratelimit-remaining-requests: many", "x-ratelimit-limit-requests: -1", "x-ratelimit-: 1",
            "x-ratelimit-reset-requests: 99999999999999999999", "anthropic-ratelimit-tokens: 1", "no colon",
            ": 1", "x-ratelimit-remaining-paint: 3"});
  EXPECT_FALSE(headers.limits());
  EXPECT_FALSE(headers.retry_after());
}

TEST(UpstreamHeaders, starts_anew_with_each_response) {
  EXPECT_EQ(read({"HTTP/1.1 100 Continue", "retry-after: 9", "HTTP/1.1 200 OK"}).retry_after(), std::nullopt);
}

TEST(UpstreamHeaders, tells_json_by_its_type) {
  EXPECT_TRUE(read({"Content-Type: application/json; charset=utf-8"}).is_json());
  EXPECT_TRUE(read({"content-type: Application/Problem+JSON"}).is_json());
  EXPECT_FALSE(read({"content-type: text/event-stream"}).is_json());
  EXPECT_FALSE(read({}).is_json());
}

}  // namespace
}  // namespace lanemq::worker
