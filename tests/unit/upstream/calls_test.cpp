// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/calls.hpp"

#include <gtest/gtest.h>

#include "tests/support/upstream/api.hpp"
#include "tests/unit/upstream/events.hpp"

namespace lanemq::upstream {
namespace {

const std::string kAsk = R"(Please. upstream: call w {\"b\": [1], \"a\": {}} Thanks.)";

std::string call_of(const tl::expected<ModelRequest, ApiError>& request) {
  return request ? request->tool + request->fitting : request.error().message;
}

std::string chat(const std::string& messages, const std::string& more = "") {
  return call_of(parsed_by(chat_api(), R"({"messages": [)" + messages + R"(], "tools": [
      {"type": "function", "function": {"name": "v", "parameters": {"type": "object"}}},
      {"type": "function", "function": {"name": "w", "parameters": {"type": "object"}}}])" +
                                           more + "}"));
}

std::string responses(const std::string& input) {
  return call_of(parsed_by(responses_api(), R"({"input": [)" + input + R"(], "tools": [
      {"type": "web_search"}, {"type": "custom", "name": "u"},
      {"type": "function", "name": "v", "parameters": {"type": "object"}},
      {"type": "function", "name": "w", "parameters": null}]})"));
}

std::string messages(const std::string& list) {
  return call_of(
      parsed_by(messages_api(), R"({"model": "m", "max_tokens": 9, "messages": [)" + list + R"(], "tools": [
      {"name": "v", "input_schema": {"type": "object"}}, {"name": "w", "input_schema": {"type": "object"}}]})"));
}

TEST(Calls, are_of_the_tool_that_the_prompt_names) {
  const std::string told = R"({"role": "user", "content": ")" + kAsk + R"("})";

  EXPECT_EQ(chat(told), R"(w{"b":[1],"a":{}})");
  EXPECT_EQ(responses(told), R"(w{"b":[1],"a":{}})");
  EXPECT_EQ(messages(told), R"(w{"b":[1],"a":{}})");
  EXPECT_EQ(chat(R"({"role": "user", "content": [{"type": "text", "text": ")" + kAsk +
                 R"("}]}, {"role": "system"})"),
            R"(w{"b":[1],"a":{}})");
}

TEST(Calls, are_of_the_first_tool_where_the_prompt_names_none) {
  for (const std::string words :
       {"hello", "upstream: call w", "upstream: call w [1]", "upstream: call w {,"}) {
    EXPECT_EQ(chat(R"({"role": "user", "content": ")" + words + R"("})"), "v{}") << words;
    EXPECT_EQ(responses(R"({"role": "user", "content": ")" + words + R"("})"), "v{}") << words;
  }
}

TEST(Calls, are_none_where_the_prompt_names_a_tool_that_is_not_there) {
  EXPECT_EQ(chat(R"({"role": "user", "content": "upstream: call x {}"})"), "");
}

TEST(Calls, are_of_the_tool_that_must_be_called) {
  const std::string told = R"({"role": "user", "content": ")" + kAsk + R"("})";
  const std::string forced = R"(, "tool_choice": {"type": "function", "function": {"name": "v"}})";

  EXPECT_EQ(chat(told, forced), "v{}");
  EXPECT_EQ(chat(told, R"(, "tool_choice": "none")"), "");
}

TEST(Calls, are_made_once_a_turn) {
  const std::string told = R"({"role": "user", "content": ")" + kAsk + R"("}, )";
  const std::string reminder = R"(, {"role": "system", "content": "careful"})";
  const std::string answered =
      R"(, {"role": "assistant", "content": "done"}, {"role": "user", "content": "and?"})";

  const std::string chat_result = R"({"role": "assistant"}, {"role": "tool", "content": "ok"})";
  EXPECT_EQ(chat(told + chat_result), "");
  EXPECT_EQ(chat(told + chat_result + reminder), "");
  EXPECT_EQ(chat(told + chat_result + answered), "v{}") << "what an earlier turn asked for is done";
  const std::string result =
      R"({"type": "function_call", "name": "w"}, {"type": "function_call_output", "output": "ok"})";
  EXPECT_EQ(responses(told + result), "");
  EXPECT_EQ(responses(told + result + reminder), "");
  EXPECT_EQ(responses(told + result + answered), "v{}");
  const std::string block =
      R"({"role": "assistant"}, {"role": "user", "content": [{"type": "tool_result"}]})";
  EXPECT_EQ(messages(told + block), "");
  EXPECT_EQ(messages(told + block + reminder), "");
  EXPECT_EQ(messages(told + block + answered), "v{}");
}

}  // namespace
}  // namespace lanemq::upstream
