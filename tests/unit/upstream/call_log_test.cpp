// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/call_log.hpp"

#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace lanemq::upstream {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;

std::string line(Duration at, unsigned status, std::optional<std::uint64_t> charged) {
  return to_line({.at = at, .status = status, .charged = charged}) + "\n";
}

TEST(ToLine, tells_everything_about_a_call) {
  const std::string text = to_line({.at = 1203417999ns,
                                    .path = "/v1/chat/completions",
                                    .status = 200,
                                    .end = "hung_up",
                                    .stream = true,
                                    .model = "gpt-4o",
                                    .prompt_tokens = 61,
                                    .completion_tokens = 118,
                                    .charged = 573,
                                    .latency = 87ms + 220us,
                                    .ended_unix = 1700s + 500us,
                                    .sent = 812,
                                    .fault = "half",
                                    .leaks = {"lane", "x-priority"},
                                    .service_tier = "flex",
                                    .job = "a-17",
                                    .key = "k1",
                                    .body_hash = 255});

  EXPECT_EQ(
      text,
      R"({"t_ms":1203.417,"path":"/v1/chat/completions","status":200,"end":"hung_up","stream":true,)"
      R"("model":"gpt-4o","prompt_tokens":61,"completion_tokens":118,"latency_ms":87.220,)"
      R"("ended_unix_ms":1700000.500,"sent":812,"charged":573,"fault":"half","leaks":["lane","x-priority"],)"
      R"("service_tier":"flex","job":"a-17","key":"k1","body":"00000000000000ff"})");
}

TEST(ToLine, stays_one_line_of_json_whatever_clients_send) {
  const std::string text =
      to_line({.model = "\"\n\\", .job = std::string("\xff\x01", 2) + std::string(500, 'x')});

  const Json record = Json::parse(text);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_EQ(record["model"], "\"\n\\");
  EXPECT_LE(record["job"].get<std::string>().size(), kLoggedTextMax + 4);
}

TEST(Audit, finds_the_peak_over_arrivals_though_lines_stand_in_another_order) {
  std::istringstream log(line(70s, 200, 10) + line(15s, 200, 20) + line(0s, 200, 1) + line(30s, 429, {}) +
                         line(74s, 503, 5) + line(20s, 400, {}));

  const auto result = audit(log);

  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->calls, 6u);
  EXPECT_EQ(result->accepted, 4u);
  EXPECT_EQ(result->ok, 3u);
  EXPECT_EQ(result->rejected_429, 1u);
  EXPECT_EQ(result->peak_calls, 3u);
  EXPECT_EQ(result->peak_tokens, 35u);
  EXPECT_FALSE(result->torn);
}

TEST(Audit, keeps_calls_sixty_seconds_apart_in_two_windows) {
  std::istringstream log(line(999ns, 200, 1) + line(60s + 999ns, 200, 1));

  EXPECT_EQ(audit(log)->peak_calls, 1u);
}

TEST(Audit, tells_the_peak_of_the_key_that_had_most) {
  const auto call = [](Duration at, const char* key) {
    return to_line({.at = at, .status = 200, .charged = 10, .key = key}) + "\n";
  };
  std::istringstream log(call(1s, "k1") + call(2s, "k2") + call(3s, "k1"));

  const auto result = audit(log);

  EXPECT_EQ(result->accepted, 3u);
  EXPECT_EQ(result->peak_calls, 2u);
  EXPECT_EQ(result->peak_tokens, 20u);
}

TEST(Audit, counts_violations_and_takes_no_asked_for_429_for_the_limits) {
  std::istringstream log(to_line({.status = 400, .leaks = {"lane"}}) + "\n" +
                         to_line({.status = 429, .charged = 3, .fault = "status"}) + "\n");

  const auto result = audit(log);

  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->violations, 1u);
  EXPECT_EQ(result->rejected_429, 0u);
}

TEST(Audit, leaves_out_a_torn_last_line_and_says_so) {
  std::istringstream log(line(1s, 200, 1) + R"({"t_ms":12.)");

  const auto result = audit(log);

  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->calls, 1u);
  EXPECT_TRUE(result->torn);
}

TEST(Audit, names_the_line_that_is_no_record) {
  std::istringstream log(line(1s, 200, 1) + "{\"t_ms\":1}\n");

  const auto result = audit(log);

  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().rfind("line 2 ", 0), 0u);
}

TEST(CallLog, refuses_a_file_that_cannot_be_written) {
  EXPECT_THROW(CallLog("/nowhere/at/all.jsonl"), std::runtime_error);
}

TEST(Audit, counts_by_the_window_and_the_period) {
  constexpr Duration kStarted = 105s + 900ms;  // Whole periods of 10 s begin at 4.1 and 14.1 s of the double.
  constexpr Duration kArrivals[] = {1s + 400us, 4s + 100ms, 9s, 10s, 11s, 12s, 14s + 99ms};
  std::string lines;
  for (const Duration at : kArrivals) {
    const Duration latency = 3ms + 700ns;
    lines += to_line({.at = at,
                      .status = 200,
                      .charged = 1,
                      .latency = latency,
                      .ended_unix = kStarted + at + latency}) +
             "\n";
  }
  const auto peak = [&](WindowKind window, Duration period) {
    std::istringstream log(lines);
    return audit(log, window, period)->peak_calls;
  };

  EXPECT_EQ(peak(WindowKind::sliding, 5s), 4u) << "9 to 12";
  EXPECT_EQ(peak(WindowKind::bucket, 5s), 4u);
  EXPECT_EQ(peak(WindowKind::fixed, 5s), 4u) << "from 9 on";
  EXPECT_EQ(peak(WindowKind::clock, 5s), 4u) << "10 to 14.099";
  EXPECT_EQ(peak(WindowKind::sliding, 10s), 6u) << "4.1 to 14.099";
  EXPECT_EQ(peak(WindowKind::fixed, 10s), 5u) << "1.0004 to 11";
  EXPECT_EQ(peak(WindowKind::clock, 10s), 6u) << "4.1 to 14.099";
  EXPECT_EQ(peak(WindowKind::clock, 1s), 1u);
}

}  // namespace
}  // namespace lanemq::upstream
