// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <lanemq/codec.hpp>

#include "client/gateway/apis/api.hpp"
#include "client/gateway/calls/flights.hpp"
#include "client/gateway/calls/upstream_meta.hpp"
#include "client/gateway/door/lane_choice.hpp"
#include "client/gateway/door/models.hpp"
#include "client/gateway/routes/job_routes.hpp"

namespace lanemq::gateway {
namespace {

using std::chrono::milliseconds;

const std::vector<std::string> kRanking{"critical", "high", "normal", "low", "batch"};

TEST(LaneChoice, takes_the_first_that_is_named) {
  LaneWish wish{.header = "critical", .prefix = "high", .suffix = "batch", .service_tier = "flex"};
  EXPECT_EQ(choose_lane(wish, {}, kRanking), "critical");
  wish.header = {};
  EXPECT_EQ(choose_lane(wish, {}, kRanking), "high");
  wish.prefix = {};
  EXPECT_EQ(choose_lane(wish, {}, kRanking), "batch");
  wish.suffix = {};
  EXPECT_EQ(choose_lane(wish, {}, kRanking), "low");
  wish.service_tier = {};
  EXPECT_EQ(choose_lane(wish, {}, kRanking), "normal");
  EXPECT_EQ(choose_lane(wish, {.fallback = "low"}, kRanking), "low");
}

TEST(LaneChoice, knows_the_tiers_of_both_providers) {
  for (const auto& [tier, lane] : {std::pair("priority", "high"),
                                   {"fast", "high"},
                                   {"flex", "low"},
                                   {"default", "normal"},
                                   {"auto", "normal"},
                                   {"standard_only", "normal"},
                                   {"another", "normal"}})
    EXPECT_EQ(choose_lane({.service_tier = tier}, {}, kRanking), lane) << tier;
}

TEST(LaneChoice, refuses_what_is_named_and_not_allowed_and_lowers_what_is_meant) {
  const LaneRules rules{.allowed = {"normal", "batch"}};

  const auto refused = choose_lane({.header = "high"}, rules, kRanking);

  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().name, "forbidden");
  EXPECT_NE(refused.error().message.find("normal, batch"), std::string::npos);
  EXPECT_EQ(choose_lane({.service_tier = "priority"}, rules, kRanking), "normal");
  EXPECT_EQ(choose_lane({.service_tier = "flex"}, rules, kRanking), "batch");
  EXPECT_EQ(choose_lane({}, {.allowed = {"high"}}, kRanking), "high");
}

TEST(LaneChoice, names_the_lanes_that_there_are) {
  const auto refused = choose_lane({.prefix = "fast"}, {}, kRanking);

  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().name, "bad_request");
  EXPECT_NE(refused.error().message.find("critical, high, normal, low, batch"), std::string::npos);
}

TEST(LaneChoice, tells_what_a_broker_with_other_lanes_refuses) {
  using Names = std::vector<std::string>;
  EXPECT_FALSE(missing_lanes({{}}, kRanking, kRanking).any());
  EXPECT_EQ(missing_lanes({{}}, kRanking, {"high", "low"}),
            (LanesMissing{.unasked = {"normal"}, .named = {"critical", "batch"}}));
  // Keys with a lane of their own go on.
  EXPECT_EQ(missing_lanes({{.fallback = "high"}, {.allowed = {"low"}}}, kRanking, {"high", "low"}).unasked,
            Names());
  EXPECT_EQ(missing_lanes({{.fallback = "high"}, {.fallback = "batch"}}, kRanking, {"high"}).unasked,
            Names{"batch"});
  // Where no lane is called normal the broker's default is taken.
  EXPECT_EQ(missing_lanes({{}}, {"people", "machines"}, {"people"}),
            (LanesMissing{.unasked = {}, .named = {"machines"}}));
}

TEST(LaneChoice, leaves_an_at_sign_to_models_that_have_one) {
  EXPECT_EQ(split_model("gpt-x@high", kRanking).model, "gpt-x");
  EXPECT_EQ(split_model("gpt-x@high", kRanking).lane, "high");
  EXPECT_EQ(split_model("claude@20240620", kRanking).model, "claude@20240620");
  EXPECT_EQ(split_model("claude@20240620@low", kRanking).model, "claude@20240620");
  EXPECT_EQ(split_model("@high", kRanking).model, "@high");
}

TEST(SplitModel, a_slip_in_its_lane_is_named_and_a_version_is_none) {
  const auto error = why_no_lane_of_model("gpt-x@hihg", kRanking, {}, "model");
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->name, "bad_request");
  EXPECT_EQ(error->param, "model");
  EXPECT_NE(error->message.find("lane \"hihg\" does not exist; did you mean \"high\"?"), std::string::npos)
      << error->message;
  for (const char* model : {"gpt-x", "gpt-x@high", "claude@20240620", "gemini@default", "text@001",
                            "text@latest", "@cf/meta/llama", "a@b"})
    EXPECT_FALSE(why_no_lane_of_model(model, kRanking, {}, "model").has_value()) << model;
  ModelSettings named;
  named.name = "gpt-x@hihg";
  EXPECT_FALSE(why_no_lane_of_model("gpt-x@hihg", kRanking, {named}, "model").has_value());
}

ClientError failure(std::string code, std::optional<int> status = {}, std::string_view body = {}) {
  return {.code = std::move(code), .upstream_status = status, .body = Blob::copy(body)};
}

TEST(FallBacks, are_taken_for_their_reasons) {
  EXPECT_TRUE(is_reason(failure("upstream_failed", 429), FallBackOn::rate));
  EXPECT_TRUE(is_reason(failure("lane_full"), FallBackOn::rate));
  EXPECT_TRUE(is_reason(failure("limited", 429), FallBackOn::rate));
  EXPECT_TRUE(is_reason(failure("limited"), FallBackOn::rate));
  EXPECT_FALSE(is_reason(failure("limited", 503), FallBackOn::server_error));
  EXPECT_TRUE(is_reason(failure("deadline"), FallBackOn::timeout));
  EXPECT_TRUE(is_reason(failure("upstream_failed", 503), FallBackOn::server_error));
  EXPECT_TRUE(is_reason(failure("worker_lost"), FallBackOn::server_error));
  EXPECT_TRUE(is_reason(failure("stalled"), FallBackOn::server_error));
  EXPECT_FALSE(is_reason(failure("upstream_failed", 429), FallBackOn::server_error));
  EXPECT_TRUE(is_reason(failure("upstream_rejected", 400, R"({"error":{"code":"context_length_exceeded"}})"),
                        FallBackOn::context));
  EXPECT_FALSE(is_reason(failure("upstream_rejected", 400, "{}"), FallBackOn::context));
  EXPECT_TRUE(is_reason(failure("upstream_quota"), FallBackOn::quota));
  EXPECT_TRUE(is_reason(failure("no_worker"), FallBackOn::server_error));

  ModelSettings route;
  EXPECT_TRUE(falls_back(route, failure("deadline")));
  EXPECT_FALSE(falls_back(route, failure("upstream_rejected", 400, "{}")));
  route.falls_back_on[static_cast<std::size_t>(FallBackOn::timeout)] = false;
  EXPECT_FALSE(falls_back(route, failure("deadline")));
}

TEST(KeepAlives, are_what_sdks_survive) {
  // A blank line behind the comment would be an empty event to some of them.
  EXPECT_EQ(kOpenai.keep_alive, ": ka\n");
  EXPECT_EQ(kAnthropic.keep_alive, "event: ping\ndata: {\"type\": \"ping\"}\n\n");
}

TEST(Fingerprints, tell_parts_apart_and_nothing_else) {
  EXPECT_EQ(fingerprint_of("a", "b", "c"), fingerprint_of("a", "b", "c"));
  EXPECT_NE(fingerprint_of("a", "b", "c"), fingerprint_of("ab", "", "c"));
  EXPECT_NE(fingerprint_of("a", "b", "c"), fingerprint_of("a", "", "bc"));
  EXPECT_EQ(fingerprint_of("a", "b", "c").size(), 32u);
}

TEST(Patience, is_a_tenth_less_than_the_sdks_and_a_second_at_most) {
  EXPECT_EQ(patience_of({{"x-stainless-timeout", "600"}})->sdk, milliseconds(599'000));
  EXPECT_EQ(patience_of({{"x-stainless-timeout", "600"}, {"x-stainless-read-timeout", "2.5"}})->sdk,
            milliseconds(2'250));
  EXPECT_EQ(patience_of({{"x-stainless-read-timeout", "0.5"}})->sdk, milliseconds(450));
  EXPECT_EQ(patience_of({{"x-stainless-timeout", "1"}})->sdk, milliseconds(2'250))
      << "as SDKs say it of 1.9 s";
  EXPECT_EQ(patience_of({{"x-stainless-timeout", "10"}})->sdk, milliseconds(9'000));
  EXPECT_EQ(patience_of({{"x-stainless-timeout", "0.001"}})->sdk, milliseconds(1));
  EXPECT_FALSE(patience_of({{"x-stainless-read-timeout", "NaN"}})->sdk);
  EXPECT_EQ(patience_of({{"x-lanemq-timeout-ms", "50"}})->asked, milliseconds(50));
  for (const char* wrong : {"", "0", "-1", "1.5", "99999999999999999999"})
    EXPECT_FALSE(patience_of({{"x-lanemq-timeout-ms", wrong}})) << wrong;
}

TEST(UpstreamMeta, says_the_path_as_the_upstream_has_it_and_only_known_headers) {
  HttpRequest request;
  request.method = "POST";
  request.path = "/v1/chat/completions";
  request.headers = {{"openai-beta", "x"}, {"authorization", "Bearer secret"}, {"x-stainless-lang", "js"}};

  const std::string openai = upstream_meta(kOpenai, request, ServiceTier::stays);
  request.method = "GET";
  request.path = "/v1/models";
  request.query = "limit=5";
  const std::string anthropic = upstream_meta(kAnthropic, request, ServiceTier::stays);

  EXPECT_EQ(to_json(openai), R"({"http":{"path":"/chat/completions","headers":{"openai-beta":"x"}}})");
  EXPECT_EQ(to_json(anthropic),
            R"({"http":{"path":"/v1/models?limit=5","method":"GET","headers":{"openai-beta":"x"}}})");
  EXPECT_NE(openai.find("openai-beta"), std::string::npos);
  EXPECT_EQ(openai.find("secret"), std::string::npos);
  EXPECT_EQ(openai.find("stainless"), std::string::npos);
  EXPECT_NE(anthropic.find("/v1/models?limit=5"), std::string::npos);
  EXPECT_NE(anthropic.find("GET"), std::string::npos);
  EXPECT_EQ(anthropic.find("service_tier"), std::string::npos);
  EXPECT_NE(upstream_meta(kOpenai, request, ServiceTier::goes_on).find("service_tier"), std::string::npos);
}

TEST(StatedCost, is_what_is_known_without_a_look) {
  EXPECT_FALSE(stated_cost("POST", "/v1/chat/completions"));
  EXPECT_FALSE(stated_cost("POST", "/v1/messages"));
  const auto embeddings = stated_cost("POST", "/v1/embeddings");
  ASSERT_TRUE(embeddings);
  EXPECT_FALSE(embeddings->input_tokens);
  EXPECT_EQ(embeddings->output_tokens, 0);
  EXPECT_TRUE(embeddings->knows_output());
  for (const auto& [method, path] :
       {std::pair{"GET", "/v1/models"}, std::pair{"POST", "/v1/messages/count_tokens"},
        std::pair{"DELETE", "/v1/responses/r1"}, std::pair{"POST", "/v1/responses/r1/cancel"}}) {
    const auto nothing = stated_cost(method, path);
    ASSERT_TRUE(nothing) << path;
    EXPECT_EQ(nothing->input_tokens, 0) << path;
    EXPECT_EQ(nothing->output_tokens, 0) << path;
    EXPECT_TRUE(nothing->knows_input() && nothing->knows_output()) << path;
  }
}

}  // namespace
}  // namespace lanemq::gateway
