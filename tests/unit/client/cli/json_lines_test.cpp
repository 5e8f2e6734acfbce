// SPDX-License-Identifier: Apache-2.0
#include "client/cli/run/json_lines.hpp"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lanemq::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string body_of(std::string_view line) {
  return std::string(read_input(LineFormat::batch, line).body);
}
std::string problem_of(std::string_view line) {
  return read_input(LineFormat::batch, line).problem;
}

Answer done(std::string_view body) {
  return JobDone{.id = "run-1", .body = Blob::copy(body)};
}
Answer failed(std::string code, std::string message, std::string_view body = {}) {
  return ClientError{.code = std::move(code), .message = std::move(message), .body = Blob::copy(body)};
}

TEST(InputLine, body_is_cut_out_byte_for_byte) {
  EXPECT_EQ(body_of(R"({"custom_id":"a","method":"POST","url":"/v1/embeddings","body":{"x":1}})"),
            R"({"x":1})");
  EXPECT_EQ(body_of(R"({"body":  { "x" :  1.0e+2 , "y":[ ] }  ,"custom_id":"a"})"),
            R"({ "x" :  1.0e+2 , "y":[ ] })");
  EXPECT_EQ(body_of("{\"custom_id\":\"a\",\"body\":{\"t\":\"\\u00e9 \xC3\xA9 \\\" } ] \\\\\"}}"),
            "{\"t\":\"\\u00e9 \xC3\xA9 \\\" } ] \\\\\"}");
  EXPECT_EQ(body_of(R"({"custom_id":"a","body":[[{"a":"}"},["]"]],{}]})"), R"([[{"a":"}"},["]"]],{}])");
  EXPECT_EQ(body_of(R"({"custom_id":"a","body":12345678901234567890123.450})"),
            "12345678901234567890123.450");
  EXPECT_EQ(body_of(R"( { "custom_id" : "a" , "body" : "text \n" } )"), R"("text \n")");
  EXPECT_EQ(body_of(R"({"custom_id":"a","body":true})"), "true");
  EXPECT_EQ(body_of(R"({"custom_id":"a","body":null,"z":1})"), "null");
  EXPECT_EQ(body_of(R"({"custom_id":"a","body":-0})"), "-0");
}

TEST(InputLine, body_is_found_beside_lookalikes) {
  EXPECT_EQ(body_of(R"({"x":{"body":1},"custom_id":"\"body\":2","y":"\\","body":3})"), "3");
  EXPECT_EQ(body_of(R"({"custom_id":"a","b\u006fdy":{"deep":[1, 2]}})"), R"({"deep":[1, 2]})");
  EXPECT_EQ(body_of(R"({"custom_id":"a","bo\\dy":1,"body":2})"), "2");
}

TEST(InputLine, custom_id_is_decoded) {
  EXPECT_EQ(read_input(LineFormat::batch, R"({"custom_id":"a\u00e9\n","body":1})").custom_id, "a\xC3\xA9\n");
}

TEST(InputLine, model_is_the_one_of_the_body) {
  const auto model = [](std::string_view line) { return read_input(LineFormat::batch, line).model; };
  EXPECT_EQ(model(R"({"custom_id":"a","model":"no","body":{"x":{"model":"no"},"model":"gpt"}})"), "gpt");
  EXPECT_EQ(model(R"({"custom_id":"a","body":{"x":[{"model":"no"}],"model":7}})"), "");
  EXPECT_EQ(model(R"({"custom_id":"a","body":["model","no"]})"), "");
  EXPECT_EQ(model(R"({"custom_id":"a","body":{"model":")" + std::string(129, 'm') + "\"}}"), "");
  EXPECT_EQ(read_input(LineFormat::plain, R"({"model":"gpt","x":{"model":"no"}})").model, "gpt");
  EXPECT_EQ(read_input(LineFormat::plain, R"(["model","no"])").model, "");
}

TEST(InputLine, url_is_where_the_service_sends_it_unless_that_is_the_usual_place) {
  const auto line = [](std::string_view url) {
    return read_input(LineFormat::batch, R"({"custom_id":"a","url":)" + std::string(url) + R"(,"body":1})");
  };
  EXPECT_EQ(line(R"("/v1/embeddings")").path, "/embeddings");
  EXPECT_EQ(line(R"("/v1/chat/completions")").path, "");
  for (const std::string_view wrong : {R"("/embeddings")", R"("http://x/v1/embeddings")", "7", R"("/v1")"})
    EXPECT_THAT(line(wrong).problem, HasSubstr("begin with /v1/")) << wrong;
}

TEST(InputLine, problems_are_named) {
  EXPECT_THAT(problem_of("{\"custom_id\":"), HasSubstr("is no JSON"));
  EXPECT_THAT(problem_of("{\"custom_id\":\"a\",\"body\":tru}"), HasSubstr("column"));
  EXPECT_THAT(problem_of(R"({"custom_id":"a","body":1} x)"), HasSubstr("is no JSON"));
  EXPECT_THAT(problem_of("[1]"), HasSubstr("no JSON object"));
  EXPECT_THAT(problem_of(R"({"body":1})"), HasSubstr("custom_id"));
  EXPECT_THAT(problem_of(R"({"custom_id":7,"body":1})"), HasSubstr("custom_id"));
  EXPECT_THAT(problem_of(R"({"custom_id":"","body":1})"), HasSubstr("custom_id"));
  EXPECT_THAT(problem_of(R"({"custom_id":"a"})"), HasSubstr("body"));
  EXPECT_THAT(problem_of(R"({"custom_id":"a","body":1,"body":2})"), HasSubstr("`body` twice"));
  EXPECT_THAT(problem_of("{\"custom_id\":\"a\",\"body\":\"\xFF\"}"), HasSubstr("is no JSON"));
  EXPECT_THAT(problem_of(std::string("{\"custom_id\":\"a\",\"body\":1}\0", 27)), HasSubstr("NUL"));
  EXPECT_THAT(problem_of(R"({"custom_id":"a","body":)" + std::string(600, '[') + std::string(600, ']') + "}"),
              HasSubstr("deeper than 512"));
}

TEST(InputLine, a_problem_beside_a_good_custom_id_keeps_it) {
  EXPECT_EQ(read_input(LineFormat::batch, R"({"custom_id":"a"})").custom_id, "a");
  EXPECT_EQ(read_input(LineFormat::batch, R"({"custom_id":"a","body":)").custom_id, std::nullopt);
}

TEST(InputLine, plain_lines_are_any_json_and_keep_their_bytes) {
  EXPECT_EQ(read_input(LineFormat::plain, " {\"a\": 1}\t").body, " {\"a\": 1}\t");
  EXPECT_EQ(read_input(LineFormat::plain, "\"text\"").body, "\"text\"");
  EXPECT_THAT(read_input(LineFormat::plain, "hello").problem, HasSubstr("is no JSON"));
}

TEST(InputLine, format_is_told_by_the_members) {
  EXPECT_EQ(format_of(R"({"custom_id":"a","body":{}})"), LineFormat::batch);
  EXPECT_EQ(format_of(R"({"question":"?"})"), LineFormat::plain);
  EXPECT_EQ(format_of(R"({"body":{"custom_id":"a"}})"), LineFormat::plain);
  EXPECT_EQ(format_of("broken"), std::nullopt);
}

TEST(OutputLine, is_the_batch_output_format) {
  const std::string line =
      write_output({.custom_id = "request-1"}, "run-1", done("{\"choices\": [1.50,\n \"\\u00e9\"]}\n"));

  EXPECT_EQ(line,
            "{\"id\":\"batch_req_run-1\",\"custom_id\":\"request-1\",\"response\":{\"status_code\":200,"
            "\"request_id\":\"run-1\",\"body\":{\"choices\": [1.50,  \"\\u00e9\"]}},\"error\":null}\n");
}

TEST(OutputLine, a_failure_says_code_and_message_and_what_the_upstream_said) {
  EXPECT_EQ(write_output({.custom_id = "a"}, "run-1", failed("deadline", "timeout_ms is \"over\"")),
            "{\"id\":\"batch_req_run-1\",\"custom_id\":\"a\",\"response\":null,"
            "\"error\":{\"code\":\"deadline\",\"message\":\"timeout_ms is \\\"over\\\"\"}}\n");
  EXPECT_THAT(
      write_output({.custom_id = "a"}, "run-1", failed("upstream_rejected", "no", "{\"why\":1}")),
      HasSubstr(
          "\"response\":{\"status_code\":502,\"request_id\":\"run-1\",\"body\":{\"why\":1}},\"error\":{"));
  EXPECT_THAT(write_output({}, "", failed("bad_request", "no")), HasSubstr("\"custom_id\":null"));
}

TEST(OutputLine, plain_lines_name_their_place_and_job) {
  const LineName name{.format = LineFormat::plain, .number = 7};
  EXPECT_EQ(
      write_output(name, "run-1", done("1")),
      "{\"id\":\"run-1\",\"line\":7,\"response\":{\"status_code\":200,\"request_id\":\"run-1\",\"body\":1},"
      "\"error\":null}\n");
}

TEST(OutputLine, is_always_one_line_of_json) {
  for (const std::string& body :
       {std::string(), std::string("plain\r\ntext"), std::string("\xFF\x00z", 3),
        std::string("{\"a\":\r\n1}"), std::string("\xEF\xBB\xBF{}"), std::string("{}\0", 3)}) {
    const std::string line = write_output({.custom_id = "a\n\"\xFF"}, "run-1", done(body));
    EXPECT_EQ(line.find('\n'), line.size() - 1);
    EXPECT_EQ(line.find('\r'), std::string::npos);
    EXPECT_TRUE(read_output(std::string_view(line).substr(0, line.size() - 1)).has_value()) << line;
  }
}

TEST(OutputLine, bodies_that_are_no_json_become_texts_or_base64) {
  EXPECT_EQ(as_json_value("hello\n\"you\""), "\"hello\\n\\\"you\\\"\"");
  EXPECT_EQ(as_json_value(""), "\"\"");
  EXPECT_EQ(as_json_value("\xFF"), "{\"base64\":\"/w==\"}");
  EXPECT_EQ(as_json_value("\xFF\xFE"), "{\"base64\":\"//4=\"}");
  EXPECT_EQ(as_json_value("\xFF\xFE\xFD"), "{\"base64\":\"//79\"}");
  EXPECT_EQ(as_json_value(" 12 "), "12");
}

TEST(OutputLine, is_read_again) {
  const auto read = [](const LineName& name, const Answer& answer) {
    std::string line = write_output(name, "run-1", answer);
    line.pop_back();
    return read_output(line);
  };

  const auto good = read({.custom_id = "a\n\"b"}, done("{}"));
  ASSERT_TRUE(good.has_value());
  EXPECT_EQ(good->name.custom_id, "a\n\"b");
  EXPECT_EQ(good->job_id, "run-1");
  EXPECT_FALSE(good->failed);

  const auto bad = read({.custom_id = "a"}, failed("deadline", "over"));
  ASSERT_TRUE(bad.has_value());
  EXPECT_TRUE(bad->failed);

  const auto nameless = read({}, failed("bad_request", "line 3 is no JSON"));
  ASSERT_TRUE(nameless.has_value());
  EXPECT_EQ(nameless->name.custom_id, std::nullopt);

  const auto plain = read({.format = LineFormat::plain, .number = 9}, done("{\"line\":1}"));
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(plain->name.format, LineFormat::plain);
  EXPECT_EQ(plain->name.number, 9u);
  EXPECT_EQ(plain->job_id, "run-1");
}

TEST(OutputLine, lines_of_others_are_not_taken_for_ours) {
  EXPECT_FALSE(read_output("hello").has_value());
  EXPECT_FALSE(read_output("{}").has_value());
  EXPECT_FALSE(read_output(R"({"custom_id":"a","body":{}})").has_value());
  EXPECT_FALSE(read_output(R"({"custom_id":"a","response":{},"error":nul)").has_value());
  EXPECT_FALSE(read_output(R"({"response":{},"error":null})").has_value());
}

}  // namespace
}  // namespace lanemq::cli
