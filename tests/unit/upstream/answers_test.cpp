// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/answers.hpp"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace lanemq::upstream {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;

TEST(FormatDuration, writes_what_go_writes) {
  EXPECT_EQ(format_duration(0ns), "0s");
  EXPECT_EQ(format_duration(20ms), "20ms");
  EXPECT_EQ(format_duration(1s), "1s");
  EXPECT_EQ(format_duration(8640ms), "8.64s");
  EXPECT_EQ(format_duration(1005ms), "1.005s");
  EXPECT_EQ(format_duration(6min), "6m0s");
  EXPECT_EQ(format_duration(59min + 59s + 900ms), "59m59.9s");
  EXPECT_EQ(format_duration(1h + 500ms), "1h0m0.5s");
}

TEST(FormatDuration, rounds_up_so_that_waiting_it_out_is_enough) {
  EXPECT_EQ(format_duration(1ns), "1ms");
  EXPECT_EQ(format_duration(1s - 1ns), "1s");
  EXPECT_EQ(format_duration(60s - 1ns), "1m0s");
}

TEST(ParseChat, estimates_the_prompt_from_all_text_of_all_messages) {
  const auto chat = parse_chat(R"({"model": "m", "max_tokens": 7, "messages": [
      {"role": "system", "content": "12345678"},
      {"role": "user", "content": [{"type": "text", "text": "12345678"}, {"type": "image_url", "image_url": {}}]},
      {"role": "assistant", "content": null},
      {"role": "user", "content": "1"}]})");

  ASSERT_TRUE(chat.has_value());
  EXPECT_EQ(chat->model, "m");
  EXPECT_EQ(chat->prompt_tokens, 5u);
  EXPECT_EQ(chat->max_tokens, 7u);
  EXPECT_EQ(chat->charge(), 12u);
}

TEST(ParseChat, supplies_model_and_max_tokens_and_prefers_the_newer_name) {
  const auto bare = parse_chat(R"({"messages": [{"content": ""}]})");
  const auto both = parse_chat(R"({"messages": [{}], "max_tokens": 7, "max_completion_tokens": 9})");

  ASSERT_TRUE(bare && both);
  EXPECT_EQ(bare->model, "gpt-4o-mini");
  EXPECT_EQ(bare->prompt_tokens, 1u);
  EXPECT_EQ(bare->max_tokens, kMaxTokensDefault);
  EXPECT_EQ(both->max_tokens, 9u);
}

TEST(ParseChat, names_what_is_wrong) {
  const auto param_of = [](std::string_view body) {
    const auto chat = parse_chat(body);
    return chat ? "accepted" : chat.error().param;
  };

  EXPECT_EQ(param_of(R"({"model": "m"})"), "messages");
  EXPECT_EQ(param_of(R"({"messages": []})"), "messages");
  EXPECT_EQ(param_of(R"({"messages": "hi"})"), "messages");
  EXPECT_EQ(param_of(R"({"messages": [{}, 3]})"), "messages[1]");
  EXPECT_EQ(param_of(R"({"messages": [{"content": 3}]})"), "messages[0].content");
  EXPECT_EQ(param_of(R"({"messages": [{"content": [3]}]})"), "messages[0].content");
  EXPECT_EQ(param_of(R"({"messages": [{}], "model": 3})"), "model");
  EXPECT_EQ(param_of(R"({"messages": [{}], "stream": true})"), "stream");
  EXPECT_EQ(param_of(R"({"messages": [{}], "max_tokens": 0})"), "max_tokens");
  EXPECT_EQ(param_of(R"({"messages": [{}], "max_tokens": -1})"), "max_tokens");
  EXPECT_EQ(param_of(R"({"messages": [{}], "max_tokens": 1.5})"), "max_tokens");
  EXPECT_EQ(param_of(R"({"messages": [{}], "max_completion_tokens": 10000001})"), "max_completion_tokens");
}

TEST(ParseChat, refuses_what_is_no_json_object) {
  for (const std::string body : {"", "{", "[]", "3", "{\"messages\": [{}]} x", "\xff"}) {
    const auto chat = parse_chat(body);
    ASSERT_FALSE(chat.has_value()) << body;
    EXPECT_EQ(chat.error().type, "invalid_request_error");
  }
}

TEST(ParseChat, refuses_nesting_without_building_it) {
  const auto chat = parse_chat(std::string(1'000'000, '['));

  ASSERT_FALSE(chat.has_value());
  EXPECT_NE(chat.error().message.find("64 levels"), std::string::npos);
}

TEST(DrawAnswer, is_four_bytes_a_token_within_what_is_allowed) {
  for (std::uint64_t call = 0; call < 500; ++call) {
    Draws draws(1, call);
    const Answer answer = draw_answer(draws, 100);
    ASSERT_LE(answer.tokens, 100u);
    ASSERT_EQ(answer.text.size(), answer.tokens * kBytesPerToken);
    ASSERT_EQ(answer.cut, answer.tokens == 100);
  }
}

TEST(CompletionBody, has_the_shape_of_a_chat_completion) {
  const ChatRequest request{.model = "m", .prompt_tokens = 5, .max_tokens = 9};

  const Json body =
      Json::parse(completion_body("chatcmpl-1", 1700, request, {.text = "hi", .tokens = 3, .cut = false}));

  EXPECT_EQ(body["id"], "chatcmpl-1");
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["created"], 1700);
  EXPECT_EQ(body["model"], "m");
  ASSERT_TRUE(body["choices"].is_array());
  ASSERT_EQ(body["choices"].size(), 1u);
  EXPECT_EQ(body["choices"][0]["index"], 0);
  EXPECT_EQ(body["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(body["choices"][0]["message"]["content"], "hi");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(body["usage"]["prompt_tokens"], 5);
  EXPECT_EQ(body["usage"]["completion_tokens"], 3);
  EXPECT_EQ(body["usage"]["total_tokens"], 8);
}

TEST(ErrorBody, writes_what_is_missing_as_null) {
  const Json body = Json::parse(error_body({.message = "no", .type = "tokens", .param = "", .code = "c"}));

  EXPECT_EQ(body,
            Json::parse(R"({"error": {"message": "no", "type": "tokens", "param": null, "code": "c"}})"));
}

TEST(Fnv1a, gives_the_published_values) {
  EXPECT_EQ(fnv1a(""), 0xcbf29ce484222325u);
  EXPECT_EQ(fnv1a("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(fnv1a("foobar"), 0x85944171f73967e8u);
}

}  // namespace
}  // namespace lanemq::upstream
