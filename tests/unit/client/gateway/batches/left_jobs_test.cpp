// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/routes/left_jobs.hpp"

#include <string>

#include <gtest/gtest.h>

namespace lanemq::gateway {
namespace {

class ReadLeftJob : public testing::Test {
 protected:
  tl::expected<LeftJob, ApiError> read(const std::string& text) {
    http_.body = Blob::copy(text);
    return read_left_job(settings_, caller_, http_);
  }
  std::string refusal_of(const std::string& text) {
    const auto job = read(text);
    return job ? "" : job.error().name + " " + job.error().param;
  }

  Settings settings_{};
  Caller caller_{.name = "acme", .client = "acme"};
  HttpRequest http_{.method = "POST", .path = "/v1/jobs"};
};

TEST_F(ReadLeftJob, takes_a_request_of_an_api) {
  const auto job = read(
      R"({"id":"j.1","delay_ms":5,"request":{"endpoint":"/v1/messages","body":{"model":"claude-x@low","service_tier":"auto","a":[ 1 ]}}})");

  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->request.service, "anthropic");
  EXPECT_EQ(job->request.model, "claude-x");
  EXPECT_EQ(job->request.lane, "low");
  EXPECT_EQ(job->request.client, "acme");
  EXPECT_EQ(job->request.delay, std::chrono::milliseconds(5));
  EXPECT_EQ(job->body, R"({"model":"claude-x","a":[ 1 ]})");
  EXPECT_NE(job->request.meta.find("/v1/messages"), std::string::npos);
}

TEST_F(ReadLeftJob, takes_a_body_for_any_service) {
  const auto job = read(R"({"service":"echo","lane":"batch","model":"m","body":[1, 2]})");

  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->request.service, "echo");
  EXPECT_EQ(job->request.lane, "batch");
  EXPECT_EQ(job->request.model, "m");
  EXPECT_EQ(job->body, "[1, 2]");
}

TEST_F(ReadLeftJob, says_what_is_wrong) {
  EXPECT_EQ(refusal_of("{"), "bad_request ");
  EXPECT_EQ(refusal_of("{}"), "bad_request request");
  EXPECT_EQ(refusal_of(R"({"body":1})"), "bad_request service");
  for (const char* id : {"a b", "", ".", "..", "a/b", "a\\u0000"})
    EXPECT_EQ(refusal_of(R"({"service":"echo","body":1,"id":")" + std::string(id) + "\"}"), "bad_request id")
        << id;
  EXPECT_EQ(refusal_of(R"({"service":"echo","body":1,"id":"..."})"), "");
  EXPECT_EQ(refusal_of(R"({"service":"echo","body":1,"timeout_ms":-1})"), "bad_request timeout_ms");
  EXPECT_EQ(refusal_of(R"({"service":"echo","body":1,"lane":"nowhere"})"), "bad_request x-lanemq-lane");
  EXPECT_EQ(refusal_of(R"({"request":{"endpoint":"/v1/models","body":{"model":"x"}}})"),
            "bad_request request.endpoint");
  EXPECT_EQ(refusal_of(R"({"request":{"endpoint":"/v1/messages","body":{"model":"x","stream":true}}})"),
            "bad_request request.body.stream");
}

TEST_F(ReadLeftJob, names_what_nothing_would_come_of) {
  EXPECT_EQ(refusal_of(R"({"service":"echo","body":1,"webhook":"http://127.0.0.1/"})"),
            "bad_request webhook");
  EXPECT_EQ(
      refusal_of(R"({"request":{"endpoint":"/v1/messages","body":{"model":"x","any":1},"custom_id":"a"}})"),
      "bad_request request.custom_id");
  EXPECT_NE(read(R"({"webhook":1,"service":"echo","body":1})").error().message.find("delay_ms"),
            std::string::npos);
  EXPECT_EQ(refusal_of(R"({"service":"echo","body":1,"del\u0061y_ms":5})"), "");
}

TEST_F(ReadLeftJob, takes_a_number_of_attempts_within_its_bounds) {
  for (const char* attempts : {"0", "1001", "4294967297", "-1", "1.5", "\"3\"", "true"}) {
    const std::string job = R"({"service":"echo","body":1,"attempts_max":)" + std::string(attempts) + "}";
    EXPECT_EQ(refusal_of(job), "bad_request attempts_max") << job;
  }
  EXPECT_NE(read(R"({"service":"echo","body":1,"attempts_max":1001})").error().message.find("1 to 1000"),
            std::string::npos);
  EXPECT_EQ(read(R"({"service":"echo","body":1,"attempts_max":1000})")->request.attempts_max, 1000);
  EXPECT_EQ(refusal_of(R"({"service":"echo","body":1,"attempts_max":null})"), "");
}

TEST_F(ReadLeftJob, goes_on_from_a_response_that_has_a_name) {
  const auto from = [](const std::string& id) {
    return R"({"request":{"endpoint":"/v1/responses","body":{"model":"x","previous_response_id":)" + id +
           "}}}";
  };
  for (const char* id : {R"(["resp_1"])", "7", R"({"id":"resp_1"})"})
    EXPECT_EQ(refusal_of(from(id)), "bad_request request.body.previous_response_id") << id;
  EXPECT_EQ(refusal_of(from("null")), "");
  EXPECT_EQ(read(from("\"resp_1\""))->stored.at(0).id, "resp_1");
}

TEST_F(ReadLeftJob, is_in_no_conversation_of_another_key) {
  const std::string job =
      R"({"request":{"endpoint":"/v1/responses","body":{"model":"x","conversation":{"id":"conv_1"}}}})";
  EXPECT_EQ(refusal_of(job), "") << "without keys all is everybody's";
  const KeySettings own{.name = "own", .services = {"openai"}},
      any{.name = "any", .services = {"openai"}, .any_stored_response = true};
  caller_.key = &own;
  EXPECT_EQ(refusal_of(job), "not_found request.body.conversation");
  caller_.key = &any;
  EXPECT_EQ(refusal_of(job), "");
}

TEST_F(ReadLeftJob, lets_the_tier_of_a_key_go_on) {
  const KeySettings key{.name = "acme", .services = {"anthropic"}, .forward_service_tier = true};
  caller_.key = &key;
  const auto job =
      read(R"({"request":{"endpoint":"/v1/messages","body":{"model":"x","service_tier":"auto"}}})");

  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->body, R"({"model":"x","service_tier":"auto"})");
  EXPECT_NE(job->request.meta.find("service_tier"), std::string::npos);
}

TEST_F(ReadLeftJob, keeps_to_the_models_of_a_key) {
  const KeySettings key{.name = "acme", .models = {"gpt-*"}, .services = {"openai"}};
  caller_.key = &key;

  EXPECT_EQ(refusal_of(R"({"request":{"endpoint":"/v1/messages","body":{"model":"claude-x"}}})"),
            "forbidden request.body.model");
  EXPECT_EQ(refusal_of(R"({"service":"openai","model":"gpt-x","body":{"model":"other"}})"), "forbidden body");
  EXPECT_EQ(refusal_of(R"({"request":{"endpoint":"/v1/embeddings","body":{"model":"gpt-x"}}})"), "");
}

TEST_F(ReadLeftJob, refuses_what_could_be_read_in_two_ways) {
  const auto with = [](const std::string& body) {
    return R"({"request":{"endpoint":"/v1/responses","body":)" + body + "}}";
  };
  EXPECT_EQ(refusal_of(with(R"({"model":"a","Model":"b"})")), "bad_request request.body.Model");
  EXPECT_EQ(refusal_of(with(R"({"model":"a","stream":false,"stream":true})")),
            "bad_request request.body.stream");
  EXPECT_EQ(refusal_of(with(R"({"model":"a","metadata":{"Model":"b","stream":1}})")), "");
}

TEST_F(ReadLeftJob, tells_what_it_may_cost_and_goes_on_from) {
  const auto job = read(
      R"({"request":{"endpoint":"/v1/responses","body":{"model":"a","max_output_tokens":100,"previous_response_id":"resp_1"}}})");

  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->tokens_bytes, job->body.size() + 400);
  ASSERT_EQ(job->stored.size(), 1);
  EXPECT_EQ(job->stored[0].param, "request.body.previous_response_id");
  EXPECT_EQ(job->stored[0].id, "resp_1");
}

TEST_F(ReadLeftJob, keeps_to_the_services_of_a_key) {
  settings_.models = {{.name = "led", .steps = {{.service = "elsewhere", .model = "led"}}}};
  const KeySettings key{.name = "acme", .services = {"openai", "image-*"}};
  caller_.key = &key;

  EXPECT_EQ(refusal_of(R"({"service":"admin","body":1})"), "forbidden service");
  EXPECT_EQ(refusal_of(R"({"service":"image-small","body":1})"), "");
  EXPECT_EQ(refusal_of(R"({"request":{"endpoint":"/v1/messages","body":{"model":"x"}}})"),
            "forbidden service");
  EXPECT_EQ(refusal_of(R"({"request":{"endpoint":"/v1/embeddings","body":{"model":"x"}}})"), "");
  EXPECT_EQ(refusal_of(R"({"service":"admin","request":{"endpoint":"/v1/embeddings","body":{"model":"x"}}})"),
            "forbidden service");
  // Where a model leads to is for whoever configured it.
  EXPECT_EQ(refusal_of(R"({"request":{"endpoint":"/v1/embeddings","body":{"model":"led"}}})"), "");
}

TEST_F(ReadLeftJob, bounds_how_far_ahead_a_key_leaves_work) {
  const KeySettings key{.name = "acme", .services = {"echo"}, .retain_max = std::chrono::milliseconds(9)};
  caller_.key = &key;

  EXPECT_EQ(refusal_of(R"({"service":"echo","body":1,"delay_ms":604800001})"), "bad_request delay_ms");
  EXPECT_EQ(refusal_of(R"({"service":"echo","body":1,"retain_ms":10})"), "bad_request retain_ms");
  EXPECT_EQ(refusal_of(R"({"service":"echo","body":1,"delay_ms":604800000,"retain_ms":9})"), "");
  caller_.key = nullptr;
  EXPECT_EQ(refusal_of(R"({"service":"echo","body":1,"delay_ms":604800001})"), "");
}

TEST(JobDocument, says_how_a_job_ended) {
  EXPECT_EQ(job_document("j", ClientError{.code = "deadline",
                                          .message = "late",
                                          .attempts = 1,
                                          .queued = std::chrono::milliseconds(40)}),
            R"({"id":"j","object":"job","state":"expired","attempts":1,"queued_ms":40,)"
            R"("error":{"code":"deadline","message":"late"}})");
  EXPECT_FALSE(is_end_of_job({.code = "not_found"}));
  EXPECT_FALSE(is_end_of_job({.code = "deadline", .local = true}));
  EXPECT_TRUE(is_end_of_job({.code = "upstream_failed"}));
}

}  // namespace
}  // namespace lanemq::gateway
