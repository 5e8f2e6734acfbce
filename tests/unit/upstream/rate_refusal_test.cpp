// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/rate_refusal.hpp"

#include <string>

#include <gtest/gtest.h>

#include "tests/support/upstream/json.hpp"

namespace lanemq::upstream {
namespace {

using namespace std::chrono_literals;

RefusedCall over_the_limit(Tongue tongue, Tells tells = Tells::all) {
  return {.tongue = tongue,
          .tells = tells,
          .verdict = {.accepted = false, .wait = 8640ms, .limit = 10, .used = 10, .requested = 1},
          .gauge = Gauge{.limit = 10, .remaining = 0, .reset = 50s, .period = 60s},
          .period = 60s,
          .model = "m",
          .request_id = "req_1",
          .now_unix = 1700s};
}

RefusedCall of(RefusedCall call, Dimension dimension) {
  call.verdict.dimension = dimension;
  if (dimension == Dimension::slope || dimension == Dimension::at_once) {
    call.verdict.wait.reset();
    call.gauge.reset();
  }
  return call;
}

Json body_of(const RefusedCall& call) {
  return Json::parse(refuse_rate(call).body);
}

TEST(RateRefusal, as_openai) {
  const RateRefusal refusal = refuse_rate(over_the_limit(Tongue::openai));

  EXPECT_EQ(refusal.headers, (HeaderFields{{"retry-after", "9"}, {"retry-after-ms", "8640"}}));
  const Json error = Json::parse(refusal.body)["error"];
  EXPECT_EQ(error["message"],
            "Rate limit reached for m on requests per min (RPM): Limit 10, Used 10, Requested 1. Please try "
            "again in "
            "8.64s.");
  EXPECT_EQ(error["code"], "rate_limit_exceeded");
}

TEST(RateRefusal, as_openai_names_a_period_that_is_no_minute) {
  RefusedCall call = over_the_limit(Tongue::openai);
  call.period = 5s;

  EXPECT_NE(refuse_rate(call).body.find("on requests per 5s: Limit 10"), std::string::npos);
}

TEST(RateRefusal, as_anthropic) {
  const RateRefusal refusal = refuse_rate(over_the_limit(Tongue::anthropic));

  EXPECT_EQ(refusal.headers, (HeaderFields{{"retry-after", "9"}}));
  const Json body = Json::parse(refusal.body);
  EXPECT_EQ(body["type"], "error");
  EXPECT_EQ(body["error"]["type"], "rate_limit_error");
  EXPECT_EQ(body["request_id"], "req_1");
}

TEST(RateRefusal, as_azure) {
  const RateRefusal refusal = refuse_rate(over_the_limit(Tongue::azure));

  EXPECT_EQ(refusal.headers, (HeaderFields{{"retry-after", "9"}, {"retry-after-ms", "8640"}}));
  const Json error = Json::parse(refusal.body)["error"];
  EXPECT_EQ(error["code"], "429");
  EXPECT_TRUE(error["message"].get<std::string>().ends_with("Please retry after 9 seconds."));
}

TEST(RateRefusal, as_gemini_tells_in_the_body_alone) {
  const RateRefusal refusal = refuse_rate(of(over_the_limit(Tongue::gemini), Dimension::tokens));

  EXPECT_TRUE(refusal.headers.empty());
  const Json error = Json::parse(refusal.body)["error"];
  EXPECT_EQ(error["code"], 429);
  EXPECT_EQ(error["status"], "RESOURCE_EXHAUSTED");
  EXPECT_EQ(error["details"][0]["@type"], "type.googleapis.com/google.rpc.QuotaFailure");
  EXPECT_EQ(error["details"][0]["violations"][0]["quotaId"], "GenerateContentInputTokensPerModelPerMinute");
  EXPECT_EQ(error["details"][0]["violations"][0]["quotaValue"], "10");
  EXPECT_EQ(error["details"][1]["@type"], "type.googleapis.com/google.rpc.RetryInfo");
  EXPECT_EQ(error["details"][1]["retryDelay"], "8.64s");
  EXPECT_EQ(body_of(over_the_limit(Tongue::gemini))["error"]["details"][0]["violations"][0]["quotaId"],
            "GenerateRequestsPerMinutePerProjectPerModel");
}

TEST(RateRefusal, as_deepseek_is_a_sentence_without_a_number) {
  const RateRefusal refusal = refuse_rate(over_the_limit(Tongue::deepseek));

  EXPECT_TRUE(refusal.headers.empty());
  EXPECT_TRUE(Json::parse(refusal.body)["error"]["message"].is_string());
  EXPECT_EQ(refusal.body.find("10"), std::string::npos);
}

TEST(RateRefusal, as_openrouter_has_its_headers_in_the_body) {
  const RateRefusal refusal = refuse_rate(over_the_limit(Tongue::openrouter));

  EXPECT_TRUE(refusal.headers.empty());
  const Json error = Json::parse(refusal.body)["error"];
  EXPECT_EQ(error["code"], 429);
  EXPECT_EQ(error["metadata"]["headers"]["X-RateLimit-Limit"], "10");
  EXPECT_EQ(error["metadata"]["headers"]["X-RateLimit-Remaining"], "0");
  EXPECT_EQ(error["metadata"]["headers"]["X-RateLimit-Reset"], "1750000");
}

TEST(RateRefusal, as_groq) {
  EXPECT_EQ(refuse_rate(over_the_limit(Tongue::groq)).headers, (HeaderFields{{"retry-after", "9"}}));
  EXPECT_EQ(body_of(over_the_limit(Tongue::groq))["error"]["code"], "rate_limit_exceeded");
}

TEST(RateRefusal, as_the_ietfs_draft) {
  EXPECT_EQ(refuse_rate(over_the_limit(Tongue::ietf)).headers, (HeaderFields{{"retry-after", "9"}}));
  EXPECT_EQ(body_of(over_the_limit(Tongue::ietf))["violated-policies"], Json::array({"requests"}));
}

TEST(RateRefusal, as_nobody_is_bare) {
  const RateRefusal refusal = refuse_rate(over_the_limit(Tongue::none));

  EXPECT_TRUE(refusal.headers.empty());
  EXPECT_TRUE(refusal.body.empty());
}

TEST(RateRefusal, that_tells_retry_after_alone_has_no_number_in_its_body) {
  for (const Tongue tongue :
       {Tongue::openai, Tongue::anthropic, Tongue::gemini, Tongue::azure, Tongue::deepseek,
        Tongue::openrouter, Tongue::groq, Tongue::ietf, Tongue::none}) {
    const RateRefusal refusal = refuse_rate(over_the_limit(tongue, Tells::retry_after));

    EXPECT_EQ(refusal.headers, (HeaderFields{{"retry-after", "9"}}));
    for (const char* number : {"10", "8.64", "9 s"})
      EXPECT_EQ(refusal.body.find(number), std::string::npos) << refusal.body;
  }
}

TEST(RateRefusal, that_tells_nothing_has_no_header_either) {
  for (const Tongue tongue : {Tongue::openai, Tongue::gemini, Tongue::ietf}) {
    const RateRefusal refusal = refuse_rate(over_the_limit(tongue, Tells::none));

    EXPECT_TRUE(refusal.headers.empty());
    EXPECT_EQ(refusal.body.find("10"), std::string::npos) << refusal.body;
  }
}

TEST(RateRefusal, by_places_or_a_slope_tells_no_time) {
  for (const Tongue tongue : {Tongue::openai, Tongue::anthropic, Tongue::gemini, Tongue::azure,
                              Tongue::openrouter, Tongue::groq, Tongue::ietf})
    for (const Dimension dimension : {Dimension::at_once, Dimension::slope})
      EXPECT_TRUE(refuse_rate(of(over_the_limit(tongue), dimension)).headers.empty());
  EXPECT_EQ(body_of(of(over_the_limit(Tongue::openai), Dimension::at_once))["error"]["message"],
            "Too many concurrent requests for m: Limit 10, Used 10. Please try again later.");
  EXPECT_EQ(body_of(of(over_the_limit(Tongue::openai), Dimension::slope))["error"]["code"],
            "limit_burst_rate");
}

}  // namespace
}  // namespace lanemq::upstream
