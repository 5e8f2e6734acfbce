// SPDX-License-Identifier: Apache-2.0
// Anthropic's messages: reading them, and writing their answers.
#include <gtest/gtest.h>

#include "tests/support/upstream/api.hpp"
#include "tests/unit/upstream/events.hpp"

namespace lanemq::upstream {
namespace {

Completion thoughtful() {
  return {
      .id = "1",
      .created_s = 1700,
      .request = {.model = "m", .prompt_tokens = 5, .max_tokens = 99, .thinking = true},
      .answer = {.parts = {{.kind = PartKind::thinking, .content = "hmm hmm!"}, {.content = "hello there"}},
                 .tokens = 5}};
}

TEST(ParseMessage, names_what_is_wrong) {
  const auto param_of = [](std::string_view body) { return blamed_by(messages_api(), body); };

  EXPECT_EQ(param_of(R"({"model": "m", "max_tokens": 5, "messages": [{}]})"), "accepted");
  EXPECT_EQ(param_of(R"({"max_tokens": 5, "messages": [{}]})"), "model");
  EXPECT_EQ(param_of(R"({"model": "m", "messages": [{}]})"), "max_tokens");
  EXPECT_EQ(param_of(R"({"model": "m", "max_tokens": 5, "messages": []})"), "messages");
  EXPECT_EQ(param_of(R"({"model": "m", "max_tokens": 5, "messages": [{}], "thread": {"type": "create"}})"),
            "thread");
  EXPECT_EQ(param_of(R"({"model": "m", "max_tokens": 2000, "messages": [{}],
                         "thinking": {"type": "enabled", "budget_tokens": 1000}})"),
            "thinking.budget_tokens");
  EXPECT_EQ(param_of(R"({"model": "m", "max_tokens": 2000, "messages": [{}],
                         "thinking": {"type": "enabled", "budget_tokens": 2000}})"),
            "max_tokens");
}

TEST(ParseMessage, calls_the_tool_until_its_result_is_there) {
  const std::string rest = R"("model": "m", "max_tokens": 5, "tools": [{"type": "web_search", "name": "web"},
                               {"name": "w", "input_schema": {"type": "object"}}])";
  const auto tool_of = [&](const std::string& messages, const std::string& more = "") {
    return parsed_by(messages_api(), R"({"messages": [)" + messages + "], " + rest + more + "}")->tool;
  };

  EXPECT_EQ(tool_of("{}"), "w");
  EXPECT_EQ(tool_of("{}", R"(, "tool_choice": {"type": "none"})"), "");
  EXPECT_EQ(tool_of(R"({"content": [{"type": "tool_result", "content": "rain"}]})"), "");
}

TEST(MessageBody, has_its_blocks_in_order) {
  const Json body = Json::parse(messages_api().body(thoughtful()));

  EXPECT_EQ(body["type"], "message");
  EXPECT_EQ(body["content"][0]["thinking"], "hmm hmm!");
  EXPECT_FALSE(body["content"][0]["signature"].get<std::string>().empty());
  EXPECT_EQ(body["content"][1]["text"], "hello there");
  EXPECT_EQ(body["stop_reason"], "end_turn");
  EXPECT_EQ(body["usage"]["input_tokens"], 5);
  EXPECT_EQ(body["usage"]["output_tokens"], 5);
}

TEST(MessageEvents, come_in_the_order_of_the_real_service) {
  const std::vector<Event> events = events_of(messages_api(), thoughtful());

  const std::vector<std::string> expected = {
      "message_start",       "content_block_start", "ping",
      "content_block_delta", "content_block_stop",  "content_block_start",
      "content_block_delta", "content_block_stop",  "message_delta",
      "message_stop"};
  EXPECT_EQ(names_of(events), expected);
  std::string text[2];
  std::string signature;
  for (const Event& event : events) {
    EXPECT_EQ(event.data["type"], event.name);
    if (event.name != "content_block_delta") continue;
    const Json& delta = event.data["delta"];
    text[event.data["index"].get<int>()] += delta.value("thinking", "") + delta.value("text", "");
    signature += delta.value("signature", "");
  }
  EXPECT_EQ(text[0], "hmm hmm!");
  EXPECT_EQ(text[1], "hello there");
  EXPECT_FALSE(signature.empty());
  EXPECT_EQ(events[events.size() - 2].data["usage"]["output_tokens"], 5);
}

TEST(MessageEvents, spell_the_arguments_of_a_tool) {
  const Completion completion{
      .id = "1",
      .request = {.model = "m", .tool = "w"},
      .answer = {.parts = {{.kind = PartKind::tool, .content = R"({"city":"text"})"}}, .tokens = 4}};

  std::string arguments;
  Json block;
  for (const Event& event : events_of(messages_api(), completion)) {
    if (event.name == "content_block_start") block = event.data["content_block"];
    if (event.name == "content_block_delta")
      arguments += event.data["delta"]["partial_json"].get<std::string>();
  }

  EXPECT_EQ(block["name"], "w");
  EXPECT_EQ(block["input"], Json::object());
  EXPECT_EQ(Json::parse(arguments)["city"], "text");
}

TEST(CountTokens, tells_what_a_message_would_be_charged_for) {
  constexpr std::string_view kBody =
      R"({"model": "m", "system": "1234", "messages": [{"content": "12345"}]})";
  const auto request = parsed_by(count_tokens_api(), kBody);

  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->charge(), 3u);
  EXPECT_EQ(Json::parse(count_tokens_api().body({.request = *request}))["input_tokens"], 3);
}

}  // namespace
}  // namespace lanemq::upstream
