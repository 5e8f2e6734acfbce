// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/http/upstream_failure.hpp"

#include <chrono>
#include <initializer_list>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace lanemq::worker {
namespace {

using namespace std::chrono_literals;

JobFailure failure_of(long status, std::string_view body = "",
                      std::initializer_list<std::string_view> lines = {}) {
  UpstreamHeaders headers;
  headers.add_line("content-type: application/json", WallTime());
  for (const std::string_view line : lines)
    headers.add_line(line, WallTime());
  return status_failure(status, headers, body);
}

TEST(StatusFailure, classes_follow_the_status) {
  for (const long status : {408, 409, 425, 500, 501, 502, 504, 520, 522, 524})
    EXPECT_EQ(failure_of(status).error_class, ErrorClass::retry) << status;
  for (const long status : {498, 503, 529})
    EXPECT_EQ(failure_of(status).error_class, ErrorClass::overloaded) << status;
  for (const long status : {300, 302, 304, 400, 401, 403, 404, 413, 422, 451})
    EXPECT_EQ(failure_of(status).error_class, ErrorClass::permanent) << status;
  EXPECT_EQ(failure_of(402).error_class, ErrorClass::quota);
  EXPECT_EQ(failure_of(429).error_class, ErrorClass::limited);
}

TEST(StatusFailure, the_code_names_the_status) {
  EXPECT_EQ(failure_of(503).code, "upstream_503");
  EXPECT_EQ(failure_of(403).code, "upstream_403");
}

TEST(StatusFailure, a_key_is_refused_by_a_401_that_names_it) {
  for (const std::string_view error : {R"({"error":{"code":"invalid_api_key"}})",
                                       R"({"type":"error","error":{"type":"authentication_error"}})"}) {
    const JobFailure failure = failure_of(401, error);
    EXPECT_EQ(failure.error_class, ErrorClass::quota) << error;
    EXPECT_EQ(failure.code, "upstream_auth") << error;
    EXPECT_EQ(failure_of(403, error).error_class, ErrorClass::permanent) << error;
  }
  const JobFailure other = failure_of(401, R"({"error":{"code":"mismatched_organization"}})");
  EXPECT_EQ(other.error_class, ErrorClass::permanent);
  EXPECT_EQ(other.upstream_status, 401);
}

TEST(StatusFailure, a_403_is_about_the_request) {
  for (const std::string_view error : {R"({"error":{"code":"model_not_found"}})",
                                       R"({"type":"error","error":{"type":"permission_error"}})", ""}) {
    const JobFailure failure = failure_of(403, error);
    EXPECT_EQ(failure.error_class, ErrorClass::permanent) << error;
    EXPECT_EQ(failure.upstream_status, 403) << error;
  }
}

TEST(StatusFailure, the_message_says_what_the_upstream_said) {
  EXPECT_EQ(failure_of(400, R"({"error":{"message":"max_tokens is too large","code":"bad_value"}})").message,
            "the upstream answered 400 bad_value: max_tokens is too large");
  EXPECT_EQ(failure_of(500).message, "the upstream answered 500");
  EXPECT_NE(failure_of(302).message.find("redirects are not followed"), std::string::npos);
}

TEST(StatusFailure, tells_quota_by_its_exact_code_or_type) {
  for (const std::string_view name :
       {"insufficient_quota", "credit_balance_exhausted", "credit_balance_too_low", "billing_not_active",
        "billing_hard_limit_reached", "billing_error", "workspace_spend_limit_exceeded"})
    for (const long status : {400, 403, 429}) {
      const std::string quoted = "\"" + std::string(name) + "\"";
      EXPECT_EQ(failure_of(status, R"({"error":{"code":)" + quoted + "}}").error_class, ErrorClass::quota)
          << name;
      EXPECT_EQ(failure_of(status, R"({"error":{"type":)" + quoted + "}}").error_class, ErrorClass::quota)
          << name;
    }
}

TEST(StatusFailure, a_fault_of_the_upstream_condemns_no_key) {
  EXPECT_EQ(failure_of(500, R"({"error":{"code":"billing_unavailable"}})").error_class, ErrorClass::retry);
}

TEST(StatusFailure, words_about_quota_are_no_quota) {
  EXPECT_EQ(failure_of(429, R"({"error":{"message":"INSUFFICIENT QUOTA: insufficient_quota per minute"}})")
                .error_class,
            ErrorClass::limited);
  EXPECT_EQ(failure_of(429, R"({"error":{"code":"INSUFFICIENT_QUOTA"}})").error_class, ErrorClass::limited);
  EXPECT_EQ(failure_of(429, R"({"error":{"code":"not_insufficient_quota"}})").error_class,
            ErrorClass::limited);
}

TEST(StatusFailure, a_request_larger_than_the_limit_is_not_tried_again) {
  for (const std::string_view message :
       {"Request too large for gpt-4.1 on tokens per min (TPM): Limit 10000, Requested 12,000. Reduce it.",
        "Limit 10,000, Used 0, Requested 12000", "Requested. Limit 5, Requested 6",
        "Limit 100, Requested 3. On tokens: Limit 10, Requested 11."}) {
    const JobFailure failure = failure_of(429, R"({"error":{"message":")" + std::string(message) + "\"}}");
    EXPECT_EQ(failure.error_class, ErrorClass::permanent) << message;
    EXPECT_EQ(failure.code, "request_over_limit") << message;
  }
}

TEST(StatusFailure, a_request_that_fits_the_limit_of_its_own_sentence_is_limited) {
  for (const std::string_view message :
       {"Limit 10000, Used 9000, Requested 1200.", "Limit 1200, Requested 1200.", "Requested 50, Limit 10",
        "On requests: Limit 3, Used 3. On tokens: Limit 10000, Used 9999, Requested 1200.",
        "Limit 5 per key, tokens: Limit 10000, Requested 1200", "Limit none, Requested 1200",
        "Limit 10, Requested many", "Limit 10.\\nRequested 11"}) {
    const JobFailure failure = failure_of(429, R"({"error":{"message":")" + std::string(message) + "\"}}");
    EXPECT_EQ(failure.error_class, ErrorClass::limited) << message;
    EXPECT_EQ(failure.code, "upstream_429") << message;
  }
}

TEST(StatusFailure, says_when_to_come_again) {
  EXPECT_EQ(
      failure_of(429, "",
                 {"retry-after: 3", "x-ratelimit-remaining-requests: 0", "x-ratelimit-reset-requests: 9s"})
          .retry_after,
      3s);
  EXPECT_EQ(failure_of(429, R"({"error":{"message":"try again in 5s"}})",
                       {"x-ratelimit-remaining-requests: 0", "x-ratelimit-reset-requests: 9s"})
                .retry_after,
            5s);
  EXPECT_EQ(failure_of(429, "", {"x-ratelimit-remaining-requests: 0", "x-ratelimit-reset-requests: 9s"})
                .retry_after,
            std::nullopt)
      << "when a bucket is full again is no time to come again";
  EXPECT_EQ(
      failure_of(429, "", {"x-ratelimit-remaining-requests-day: 0", "x-ratelimit-reset-requests-day: 9h"})
          .retry_after,
      9h);
  EXPECT_EQ(failure_of(429, R"({"error":{"message":"Please try again in 8.64s."}})").retry_after, 8640ms);
  EXPECT_EQ(failure_of(429, R"({"error":{"message":"Your quota will reset after 27h41m36s."}})").retry_after,
            27h + 41min + 36s);
  EXPECT_EQ(failure_of(503, "", {"retry-after: 3"}).retry_after, 3s);
  EXPECT_EQ(failure_of(503, R"({"error":{"message":"try again in 5s"}})").retry_after, std::nullopt);
  EXPECT_EQ(failure_of(429).retry_after, std::nullopt);
}

TEST(StatusFailure, reads_the_time_also_in_a_plain_text) {
  UpstreamHeaders headers;
  headers.add_line("content-type: text/plain", WallTime());
  EXPECT_EQ(status_failure(429, headers, "please try again in 2s").retry_after, 2s);
}

TEST(StatusFailure, counts_the_request_and_gives_back_the_tokens_of_what_was_turned_away) {
  EXPECT_EQ(failure_of(429).usage->requests, 1);
  EXPECT_EQ(failure_of(429).usage->input_tokens, 0);
  EXPECT_EQ(failure_of(429).usage->output_tokens, 0);
  EXPECT_EQ(failure_of(500).usage->requests, 1);
  EXPECT_EQ(failure_of(500).usage->input_tokens, std::nullopt);
}

TEST(StatusFailure, passes_the_limits_on) {
  EXPECT_EQ(failure_of(429, "", {"x-ratelimit-limit-requests: 60"}).limits->limit_requests, 60);
}

TEST(StatusFailure, says_the_upstreams_status) {
  EXPECT_EQ(failure_of(429).upstream_status, 429);
  EXPECT_EQ(failure_of(529).upstream_status, 529);
}

TEST(StatusFailure, more_tokens_than_the_model_takes_are_told_apart) {
  const JobFailure of_openai =
      failure_of(400, R"({"error":{"code":"context_length_exceeded","message":"x"}})");
  const JobFailure of_anthropic = failure_of(
      400,
      R"({"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 > 8"}})");

  EXPECT_EQ(of_openai.code, "context_length_exceeded");
  EXPECT_EQ(of_anthropic.code, "context_length_exceeded");
  EXPECT_EQ(of_openai.error_class, ErrorClass::permanent);
  EXPECT_EQ(failure_of(400, R"({"error":{"message":"the prompt is too long"}})").code, "upstream_400");
}

TEST(ErrorEventFailure, has_the_status_that_such_an_error_has_elsewhere) {
  const auto of = [](std::string_view error) { return error_event_failure(error, UpstreamHeaders()); };
  const struct {
    std::string_view error;
    int status;
    ErrorClass error_class;
  } known[] = {
      {R"({"type":"overloaded_error","message":"x"})", 529, ErrorClass::overloaded},
      {R"({"type":"rate_limit_error"})", 429, ErrorClass::limited},
      {R"({"type":"tokens","code":"rate_limit_exceeded"})", 429, ErrorClass::limited},
      {R"({"type":"insufficient_quota","code":"insufficient_quota"})", 429, ErrorClass::quota},
      {R"({"type":"billing_error"})", 402, ErrorClass::quota},
      {R"({"type":"authentication_error"})", 401, ErrorClass::quota},
      {R"({"type":"invalid_request_error"})", 400, ErrorClass::permanent},
      {R"({"type":"api_error"})", 500, ErrorClass::retry},
      {R"({"code":503,"message":"x"})", 503, ErrorClass::overloaded},
      {R"({"code":"of their own"})", 500, ErrorClass::retry},
      {R"("broken)", 500, ErrorClass::retry},
  };
  for (const auto& [error, status, error_class] : known) {
    EXPECT_EQ(of(error).upstream_status, status) << error;
    EXPECT_EQ(of(error).error_class, error_class) << error;
  }
  EXPECT_EQ(of(R"({"type":"rate_limit_error","message":"Please retry in 3s."})").retry_after,
            std::chrono::milliseconds(3000));
}

TEST(TransportFailure, a_broken_call_is_tried_again) {
  const auto code_of = [](CURLcode error) { return transport_failure(error, {}).code; };
  EXPECT_EQ(code_of(CURLE_COULDNT_RESOLVE_HOST), "resolve");
  EXPECT_EQ(code_of(CURLE_COULDNT_CONNECT), "connect");
  EXPECT_EQ(code_of(CURLE_PEER_FAILED_VERIFICATION), "tls");
  EXPECT_EQ(code_of(CURLE_OPERATION_TIMEDOUT), "timeout_connect");
  EXPECT_EQ(transport_failure(CURLE_OPERATION_TIMEDOUT, {.was_sent = true}).code, "timeout");
  EXPECT_EQ(code_of(CURLE_PARTIAL_FILE), "partial");
  EXPECT_EQ(code_of(CURLE_GOT_NOTHING), "reset");
  EXPECT_EQ(code_of(CURLE_RECV_ERROR), "reset");
  EXPECT_EQ(code_of(CURLE_HTTP2_STREAM), "reset");
  EXPECT_EQ(code_of(CURLE_WEIRD_SERVER_REPLY), "bad_reply");
  EXPECT_EQ(code_of(CURLE_OUT_OF_MEMORY), "transport");
  EXPECT_EQ(transport_failure(CURLE_PARTIAL_FILE, {}).error_class, ErrorClass::retry);
}

TEST(TransportFailure, counts_only_what_the_upstream_may_have_seen) {
  const JobFailure unsent = transport_failure(CURLE_COULDNT_CONNECT, {});
  EXPECT_EQ(unsent.usage->requests, 0);
  EXPECT_EQ(unsent.usage->input_tokens, 0);

  const JobFailure sent = transport_failure(CURLE_RECV_ERROR, {.was_sent = true});
  EXPECT_EQ(sent.usage->requests, 1);
  EXPECT_EQ(sent.usage->input_tokens, std::nullopt);
}

TEST(TransportFailure, an_answer_over_the_limit_is_permanent_and_names_it) {
  const JobFailure failure =
      transport_failure(CURLE_WRITE_ERROR, {.was_sent = true, .over_limit = true, .answer_bytes_max = 1000});

  EXPECT_EQ(failure.error_class, ErrorClass::permanent);
  EXPECT_EQ(failure.code, "too_large");
  EXPECT_NE(failure.message.find("body_bytes_max 1000"), std::string::npos);
}

}  // namespace
}  // namespace lanemq::worker
