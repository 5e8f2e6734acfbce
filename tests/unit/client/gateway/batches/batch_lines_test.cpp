// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <gtest/gtest.h>

#include "client/gateway/batches/batch_api.hpp"

namespace lanemq::gateway {
namespace {

constexpr std::string_view kChat = "/v1/chat/completions";

std::string line(const std::string& body, const std::string& more = {}) {
  return R"({"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":)" + body + more + "}";
}

std::string fault_of(const std::string& text, const Api& api = kOpenai) {
  const auto read = read_batch_line(api, kChat, text);
  return read ? "" : read.error().code + " " + read.error().param;
}

TEST(ReadBatchLine, cuts_the_body_out_byte_for_byte) {
  const std::string text = line(R"({ "model" : "gpt-x", "n": 1.50 })");
  const auto read = read_batch_line(kOpenai, kChat, text);

  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->custom_id, "a");
  EXPECT_EQ(read->model, "gpt-x");
  EXPECT_EQ(read->body, R"({ "model" : "gpt-x", "n": 1.50 })");
}

TEST(ReadBatchLine, skips_a_byte_order_mark) {
  const std::string mark = "\xEF\xBB\xBF";
  const std::string text = mark + line(R"({"model":"x"})");
  const auto read = read_batch_line(kOpenai, kChat, text);

  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->body, R"({"model":"x"})");
  EXPECT_EQ(fault_of(mark + mark + line(R"({"model":"x"})")), "invalid_json_line ");
}

TEST(ReadBatchLine, says_what_is_wrong) {
  EXPECT_EQ(fault_of("{"), "invalid_json_line ");
  EXPECT_EQ(fault_of("[]"), "invalid_json_line ");
  EXPECT_EQ(fault_of("{}"), "missing_required_parameter custom_id");
  EXPECT_EQ(fault_of(line("{}")), "missing_required_parameter body.model");
  EXPECT_EQ(fault_of(line("[]")), "missing_required_parameter body");
  EXPECT_EQ(fault_of(line(R"({"model":"x","stream":true})")), "invalid_value body.stream");
  EXPECT_EQ(fault_of(line(R"({"model":"x","stream":false})")), "");
  EXPECT_EQ(fault_of(line(R"({"model":"x"})", R"(,"url":"/v1/embeddings")")), "invalid_json_line url");
  EXPECT_EQ(fault_of(R"({"custom_id":"a","method":"GET","url":"/v1/chat/completions","body":{"model":"x"}})"),
            "invalid_method method");
  EXPECT_EQ(fault_of(R"({"custom_id":"a","method":"POST","url":"/v1/embeddings","body":{"model":"x"}})"),
            "invalid_url url");
}

TEST(ReadBatchLine, goes_on_from_no_stored_response) {
  const auto of_body = [](const std::string& body) {
    const auto read =
        read_batch_line(kOpenai, "/v1/responses",
                        R"({"custom_id":"a","method":"POST","url":"/v1/responses","body":)" + body + "}");
    return read ? std::string() : read.error().code + " " + read.error().param;
  };
  EXPECT_EQ(of_body(R"({"model":"x","input":"y"})"), "");
  EXPECT_EQ(of_body(R"({"model":"x","previous_response_id":null})"), "");
  for (const char* id : {R"("resp_1")", R"(["resp_1"])", R"("resp_1","previous_response_id":null)"})
    EXPECT_EQ(of_body(std::string(R"({"model":"x","previous_response_id":)") + id + "}"),
              "invalid_value body.previous_response_id")
        << id;
  EXPECT_EQ(of_body(R"({"model":"x","Previous_Response_Id":"resp_1"})"),
            "invalid_value body.previous_response_id");
  EXPECT_EQ(of_body(R"({"model":"x","conversation":"conv_1"})"), "invalid_value body.conversation");
  EXPECT_EQ(of_body(R"({"model":"x","background":false})"), "");
  EXPECT_EQ(of_body(R"({"model":"x","background":true})"), "invalid_value body.background");
  EXPECT_EQ(of_body(R"({"model":"x","input":[{"type":"item_reference","id":"msg_1"}]})"),
            "invalid_value body.input[0].id");
}

TEST(ReadBatchLine, reads_requests_of_anthropics_api) {
  const auto read =
      read_batch_line(kAnthropic, "/v1/messages", R"({"custom_id":"a-1","params":{"model":"c"}})");

  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->body, R"({"model":"c"})");
  EXPECT_EQ(fault_of(R"({"custom_id":"a b","params":{"model":"c"}})", kAnthropic), "invalid_value custom_id");
  EXPECT_EQ(fault_of(R"({"custom_id":"a"})", kAnthropic), "missing_required_parameter params");
}

TEST(ReadBatchLine, takes_names_of_anthropics_api_up_to_their_bound) {
  const auto fault_of_name = [](std::size_t bytes) {
    return fault_of(R"({"custom_id":")" + std::string(bytes, 'a') + R"(","params":{"model":"c"}})",
                    kAnthropic);
  };

  EXPECT_EQ(fault_of_name(64), "");
  EXPECT_EQ(fault_of_name(65), "invalid_value custom_id");
}

const LineName kOpenaiLine{.api = &kOpenai, .batch_id = "batch_1", .line = 6, .custom_id = "x"};
const LineName kAnthropicLine{.api = &kAnthropic, .batch_id = "msgbatch_1", .line = 6, .custom_id = "x"};

JobDone done(std::string body) {
  return {.body = Blob::copy(body)};
}

TEST(AnswerLine, is_in_each_apis_shape) {
  EXPECT_EQ(
      answer_line(kOpenaiLine, done("{\"a\":\n1}")),
      R"({"id":"batch_req_batch_1.7","custom_id":"x","response":{"status_code":200,"request_id":"batch_1.7",)"
      R"("body":{"a": 1}},"error":null})"
      "\n");
  EXPECT_EQ(answer_line(kAnthropicLine, done(R"({"a":1})")),
            R"({"custom_id":"x","result":{"type":"succeeded","message":{"a":1}}})"
            "\n");
}

TEST(AnswerLine, passes_on_what_the_upstream_said_of_a_failure) {
  const Answer refused = ClientError{.code = "upstream_rejected",
                                     .message = "no",
                                     .upstream_status = 400,
                                     .body = Blob::copy(R"({"type":"error","error":{"type":"t"}})")};

  EXPECT_EQ(
      answer_line(kOpenaiLine, refused),
      R"({"id":"batch_req_batch_1.7","custom_id":"x","response":{"status_code":400,"request_id":"batch_1.7",)"
      R"("body":{"type":"error","error":{"type":"t"}}},"error":null})"
      "\n");
  EXPECT_EQ(answer_line(kAnthropicLine, refused),
            R"({"custom_id":"x","result":{"type":"errored","error":{"type":"error","error":{"type":"t"}}}})"
            "\n");
}

TEST(AnswerLine, does_not_pass_on_what_the_upstream_said_of_the_workers_key) {
  const ClientError refused{.code = "upstream_quota",
                            .message = "upstream_auth: 401",
                            .upstream_status = 401,
                            .body = Blob::copy(R"({"error":{"code":"invalid_api_key"}})")};

  const std::string line = answer_line(kOpenaiLine, refused);

  EXPECT_NE(line.find(R"("response":null,"error":{"code":"upstream_auth",)"), std::string::npos) << line;
}

TEST(AnswerLine, names_a_failure_of_ours) {
  const Answer lost = ClientError{.code = "worker_lost", .message = "its worker died"};

  EXPECT_EQ(answer_line(kOpenaiLine, lost),
            R"({"id":"batch_req_batch_1.7","custom_id":"x","response":null,"error":{"code":"worker_lost",)"
            R"("message":"its worker died"}})"
            "\n");
  EXPECT_EQ(given_up_line(kAnthropicLine, GivenUp::cancelled),
            R"({"custom_id":"x","result":{"type":"canceled"}})"
            "\n");
}

}  // namespace
}  // namespace lanemq::gateway
