// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/apis/api_error.hpp"

#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <lanemq/error_table.hpp>

namespace lanemq::gateway {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

json body_of(const HttpAnswer& answer) {
  return json::parse(answer.body.bytes());
}

TEST(ApiErrors, have_a_row_for_each_code_of_the_broker_and_none_twice) {
  std::set<std::string_view> names;
  for (const ErrorRow& row : api_error_table())
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
  for (const ErrorInfo& info : error_table())
    EXPECT_TRUE(names.contains(info.name)) << info.name;
}

TEST(ApiErrors, are_never_said_as_a_broken_connection) {
  for (const ErrorRow& row : api_error_table()) {
    EXPECT_NE(row.openai_status, 408) << row.name;
    EXPECT_NE(row.anthropic_status, 408) << row.name;
  }
}

TEST(ApiErrors, have_the_shape_of_each_api) {
  const ApiError error{.name = "bad_request", .message = "model is missing", .param = "model"};

  const HttpAnswer openai = error_answer(kOpenai, error, "req_1");
  const HttpAnswer anthropic = error_answer(kAnthropic, error, "req_1");

  EXPECT_EQ(openai.status, 400);
  EXPECT_EQ(body_of(openai),
            json::parse(R"({"error":{"message":"model is missing","type":"invalid_request_error",
      "param":"model","code":null}})"));
  EXPECT_EQ(body_of(anthropic), json::parse(R"({"type":"error","error":{"type":"invalid_request_error",
      "message":"model is missing"},"request_id":"req_1"})"));
}

TEST(ApiErrors, never_have_an_sdk_wait_for_long_or_not_at_all) {
  ApiError error{.name = "caller_limit", .message = "over", .retry_after = kSdkWaitMax};
  const HttpAnswer late = error_answer(kAnthropic, error);
  error.retry_after = kSdkWaitMax - milliseconds(1);
  const HttpAnswer soon = error_answer(kAnthropic, error);
  error.retry_after = milliseconds(0);
  const HttpAnswer now = error_answer(kAnthropic, error);

  EXPECT_EQ(late.headers.get("x-should-retry"), "false");
  EXPECT_EQ(late.headers.get("retry-after"), "60");
  EXPECT_EQ(soon.headers.get("x-should-retry"), "true");
  EXPECT_EQ(now.headers.get("retry-after-ms"), "1");
  EXPECT_EQ(now.headers.get("retry-after"), "1");
}

TEST(ApiErrors, say_whose_fault_it_is) {
  const auto fault = [](const ApiError& error) {
    return std::string(error_answer(kOpenai, error).headers.get("x-lanemq-error"));
  };
  EXPECT_EQ(fault({.name = "unauthorized", .message = "x"}), "request");
  EXPECT_EQ(fault({.name = "lane_full", .message = "x"}), "queue");
  EXPECT_EQ(fault({.name = "gateway_full", .message = "x"}), "gateway");
  EXPECT_EQ(fault({.name = "upstream_rejected",
                   .message = "x",
                   .upstream_status = 401,
                   .upstream_body = blob_of("{}")}),
            "upstream");
}

TEST(ApiErrors, tell_sdks_when_to_ask_again_and_when_not) {
  ApiError full{.name = "lane_full", .message = "full", .lane = "normal", .retry_after = milliseconds(1500)};

  const HttpAnswer soon = error_answer(kOpenai, full);
  full.lane = "batch";
  const HttpAnswer patient = error_answer(kOpenai, full);
  const HttpAnswer late = error_answer(kAnthropic, {.name = "deadline", .message = "over"});

  EXPECT_EQ(soon.status, 429);
  EXPECT_EQ(soon.headers.get("x-should-retry"), "true");
  EXPECT_EQ(soon.headers.get("retry-after"), "2");
  EXPECT_EQ(soon.headers.get("retry-after-ms"), "1500");
  EXPECT_EQ(patient.headers.get("x-should-retry"), "false");
  EXPECT_EQ(patient.headers.find("retry-after"), nullptr);
  EXPECT_EQ(late.status, 504);
  EXPECT_EQ(late.headers.get("x-should-retry"), "false");
}

TEST(ApiErrors, pass_on_what_the_upstream_says_of_the_request) {
  ClientError refused{.code = "upstream_rejected",
                      .message = "no",
                      .upstream_status = 422,
                      .body = Blob::copy(R"({"error":{"message":"theirs"}})")};

  const HttpAnswer passed = error_answer(kOpenai, api_error_of(refused, "normal"));
  refused.upstream_status = 408;
  const HttpAnswer timeout = error_answer(kOpenai, api_error_of(refused, "normal"));

  EXPECT_EQ(passed.status, 422);
  EXPECT_EQ(passed.body.bytes(), R"({"error":{"message":"theirs"}})");
  EXPECT_EQ(timeout.status, 502);
}

TEST(ApiErrors, tell_a_time_that_was_over_at_the_upstream_from_one_in_the_queue) {
  ClientError late{.code = "deadline", .message = "over"};

  const HttpAnswer waited = error_answer(kOpenai, api_error_of(late, "normal"));
  late.attempts = 1;
  const HttpAnswer ran = error_answer(kOpenai, api_error_of(late, "normal"));

  EXPECT_EQ(waited.status, 503);
  EXPECT_EQ(body_of(waited)["error"]["code"], "queue_timeout");
  EXPECT_EQ(waited.headers.get("x-lanemq-error"), "queue");
  EXPECT_EQ(ran.status, 504);
  EXPECT_EQ(body_of(ran)["error"]["code"], "timeout");
  EXPECT_EQ(body_of(ran)["error"]["message"], "over (attempts: 1)");
  EXPECT_EQ(ran.headers.get("x-lanemq-error"), "upstream");
  EXPECT_EQ(ran.headers.get("x-should-retry"), "false");
}

TEST(ApiErrors, tell_a_refused_key_from_one_whose_money_is_spent) {
  ClientError refused{.code = "upstream_quota",
                      .message = "upstream_auth: the upstream answered 401",
                      .upstream_status = 401,
                      .body = Blob::copy(R"({"error":{"code":"invalid_api_key"}})")};

  const HttpAnswer key = error_answer(kOpenai, api_error_of(refused, "normal"));
  refused.upstream_status = 402;
  const HttpAnswer money = error_answer(kOpenai, api_error_of(refused, "normal"));
  refused.upstream_status.reset();
  const HttpAnswer rests = error_answer(kOpenai, api_error_of(refused, "normal"));

  EXPECT_EQ(key.status, 502);
  EXPECT_EQ(body_of(key)["error"]["code"], "upstream_auth");
  EXPECT_EQ(body_of(key)["error"]["type"], "server_error");
  EXPECT_EQ(body_of(key)["error"]["upstream"]["status"], 401);
  EXPECT_EQ(body_of(key)["error"]["message"],
            "the upstream refused the key of the worker, which is not the caller's: upstream_auth: the "
            "upstream answered 401");
  EXPECT_EQ(key.headers.get("x-lanemq-error"), "upstream");
  EXPECT_EQ(key.headers.get("x-should-retry"), "false");
  EXPECT_EQ(body_of(money)["error"]["type"], "insufficient_quota");
  EXPECT_EQ(body_of(rests)["error"]["type"], "server_error");
  EXPECT_EQ(body_of(rests)["error"]["code"], "upstream_quota");
}

TEST(ApiErrors, show_an_upstreams_failure_beside_their_own_words) {
  const ClientError failed{.code = "upstream_failed",
                           .message = "all attempts are spent",
                           .limiter = "budget api",
                           .upstream_status = 529,
                           .body = Blob::copy("busy \xFF")};

  const HttpAnswer openai = error_answer(kOpenai, api_error_of(failed, ""));
  const HttpAnswer anthropic = error_answer(kAnthropic, api_error_of(failed, ""));

  EXPECT_EQ(openai.status, 502);
  EXPECT_EQ(body_of(openai)["error"]["upstream"]["status"], 529);
  EXPECT_EQ(body_of(openai)["error"]["message"], "all attempts are spent (limited by budget api)");
  EXPECT_EQ(anthropic.status, 529);
  EXPECT_EQ(body_of(anthropic)["error"]["type"], "overloaded_error");
}

TEST(ApiErrors, are_events_inside_a_stream) {
  const ApiError error{.name = "worker_lost", .message = "its worker died"};

  const std::string openai = error_event(kOpenai, error), anthropic = error_event(kAnthropic, error);

  EXPECT_TRUE(openai.starts_with("data: {\"error\":{"));
  EXPECT_TRUE(anthropic.starts_with("event: error\ndata: {\"type\":\"error\","));
  EXPECT_TRUE(openai.ends_with("}\n\n") && anthropic.ends_with("}\n\n"));
}

TEST(ApiErrors, unknown_codes_are_the_servers_fault) {
  EXPECT_EQ(error_answer(kOpenai, {.name = "from_a_newer_broker", .message = "?"}).status, 500);
}

}  // namespace
}  // namespace lanemq::gateway
