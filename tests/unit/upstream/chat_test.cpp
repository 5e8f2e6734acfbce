// SPDX-License-Identifier: Apache-2.0
// Reading chats, and writing their answers.
#include <string>

#include <gtest/gtest.h>

#include "tests/support/upstream/api.hpp"
#include "tests/unit/upstream/events.hpp"

namespace lanemq::upstream {
namespace {

auto parse_chat(std::string_view body) {
  return parsed_by(chat_api(), body);
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
  const auto param_of = [](std::string_view body) { return blamed_by(chat_api(), body); };

  EXPECT_EQ(param_of(R"({"model": "m"})"), "messages");
  EXPECT_EQ(param_of(R"({"messages": []})"), "messages");
  EXPECT_EQ(param_of(R"({"messages": "hi"})"), "messages");
  EXPECT_EQ(param_of(R"({"messages": [{}, 3]})"), "messages[1]");
  EXPECT_EQ(param_of(R"({"messages": [{"content": 3}]})"), "messages[0].content");
  EXPECT_EQ(param_of(R"({"messages": [{"content": [3]}]})"), "messages[0].content");
  EXPECT_EQ(param_of(R"({"messages": [{}], "model": 3})"), "model");
  EXPECT_EQ(param_of(R"({"messages": [{}], "stream": 1})"), "stream");
  EXPECT_EQ(param_of(R"({"messages": [{}], "stream_options": {}})"), "stream_options");
  EXPECT_EQ(param_of(R"({"messages": [{}], "n": 2})"), "n");
  EXPECT_EQ(param_of(R"({"messages": [{}], "tools": []})"), "tools");
  EXPECT_EQ(param_of(R"({"messages": [{}], "response_format": {"type": "xml"}})"), "response_format.type");
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

TEST(CompletionBody, has_the_shape_of_a_chat_completion) {
  const Completion completion{.id = "1",
                              .created_s = 1700,
                              .request = {.model = "m", .prompt_tokens = 5, .max_tokens = 9},
                              .answer = {.parts = {{.content = "hi"}}, .tokens = 3}};

  const Json body = Json::parse(chat_api().body(completion));

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

TEST(ChatEvents, spell_the_answer_between_role_and_finish) {
  const Completion completion{.id = "1",
                              .created_s = 1700,
                              .request = {.model = "m", .prompt_tokens = 5, .include_usage = true},
                              .answer = {.parts = {{.content = "hello there"}}, .tokens = 3, .cut = true}};

  const std::vector<Event> events = events_of(chat_api(), completion);

  ASSERT_EQ(events.size(), 7u);
  EXPECT_EQ(events.back().data, "[DONE]");
  EXPECT_EQ(events[0].data["choices"][0]["delta"]["role"], "assistant");
  std::string text;
  for (std::size_t index = 1; index <= 3; ++index)
    text += events[index].data["choices"][0]["delta"]["content"].get<std::string>();
  EXPECT_EQ(text, "hello there");
  EXPECT_EQ(events[4].data["choices"][0]["finish_reason"], "length");
  EXPECT_TRUE(events[4].data["usage"].is_null());
  EXPECT_TRUE(events[5].data["choices"].empty());
  EXPECT_EQ(events[5].data["usage"]["total_tokens"], 8);
}

TEST(ChatEvents, tell_no_usage_that_nobody_asked_for) {
  const Completion completion{.request = {.model = "m"},
                              .answer = {.parts = {{.content = "hi"}}, .tokens = 1}};

  for (const Event& event : events_of(chat_api(), completion))
    EXPECT_FALSE(event.data.contains("usage"));
}

TEST(ChatEvents, name_the_tool_first_and_then_spell_its_arguments) {
  const Completion completion{
      .id = "1",
      .request = {.model = "m", .tool = "weather"},
      .answer = {.parts = {{.kind = PartKind::tool, .content = R"({"city":"text"})"}}, .tokens = 4}};

  std::string arguments;
  std::string names;
  for (const Event& event : events_of(chat_api(), completion)) {
    if (!event.data.is_object()) continue;
    if (const Json& delta = event.data["choices"][0]["delta"]; delta.contains("tool_calls")) {
      arguments += delta["tool_calls"][0]["function"]["arguments"].get<std::string>();
      names += delta["tool_calls"][0]["function"].value("name", "");
    }
  }

  EXPECT_EQ(names, "weather");
  EXPECT_EQ(Json::parse(arguments)["city"], "text");
}

TEST(Chat, calls_the_tool_until_its_result_is_there) {
  const std::string tools = R"("tools": [{"type": "function", "function": {"name": "w", "parameters": {}}}])";

  EXPECT_EQ(parse_chat(R"({"messages": [{}], )" + tools + "}")->tool, "w");
  EXPECT_EQ(parse_chat(R"({"messages": [{}], "tool_choice": "none", )" + tools + "}")->tool, "");
  EXPECT_EQ(parse_chat(R"({"messages": [{"role": "tool"}], )" + tools + "}")->tool, "");
}

}  // namespace
}  // namespace lanemq::upstream
