// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "client/gateway/apis/api.hpp"

namespace lanemq::gateway {
namespace {

using nlohmann::json;

std::optional<std::string> events_of_whole(std::string_view path, std::string_view answer) {
  return (path.starts_with("/v1/messages") ? kAnthropic : kOpenai).events_of_whole(path, answer);
}

/// The data of all events; [DONE] as a text.
std::vector<json> events_of(std::string_view path, const json& answer) {
  const std::string text = events_of_whole(path, answer.dump()).value_or("");
  std::vector<json> events;
  for (std::size_t at = text.find("data: "); at != std::string::npos; at = text.find("data: ", at)) {
    at += 6;
    const std::string data = text.substr(at, text.find('\n', at) - at);
    events.push_back(data == "[DONE]" ? json(data) : json::parse(data));
  }
  return events;
}

TEST(WholeAnswer, of_a_chat_says_the_message_its_end_and_the_usage) {
  const std::vector<json> events = events_of(
      "/v1/chat/completions",
      {{"id", "c"},
       {"object", "chat.completion"},
       {"usage", {{"total_tokens", 3}}},
       {"choices",
        {{{"index", 0},
          {"finish_reason", "tool_calls"},
          {"message", {{"role", "assistant"}, {"content", "hi"}, {"tool_calls", {{{"id", "t"}}}}}}}}}});

  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0]["object"], "chat.completion.chunk");
  EXPECT_EQ(events[0]["choices"][0]["delta"]["content"], "hi");
  EXPECT_EQ(events[0]["choices"][0]["delta"]["tool_calls"][0]["index"], 0);
  EXPECT_EQ(events[0]["choices"][0]["finish_reason"], json());
  EXPECT_FALSE(events[0].contains("usage"));
  EXPECT_EQ(events[1]["choices"][0]["finish_reason"], "tool_calls");
  EXPECT_EQ(events[1]["usage"]["total_tokens"], 3);
  EXPECT_EQ(events[2], "[DONE]");
}

TEST(WholeAnswer, of_a_response_has_its_items_and_texts) {
  const std::vector<json> events = events_of(
      "/v1/responses",
      {{"id", "r"},
       {"status", "completed"},
       {"output",
        {{{"id", "m"}, {"type", "message"}, {"content", {{{"type", "output_text"}, {"text", "hi"}}}}}}}});

  std::vector<std::string> types;
  for (const json& event : events)
    types.push_back(event["type"]);
  EXPECT_EQ(types, (std::vector<std::string>{"response.created", "response.output_item.added",
                                             "response.content_part.added", "response.output_text.delta",
                                             "response.output_text.done", "response.content_part.done",
                                             "response.output_item.done", "response.completed"}));
  EXPECT_EQ(events[3]["delta"], "hi");
  EXPECT_EQ(events[7]["response"]["output"][0]["id"], "m");
  EXPECT_EQ(events[7]["sequence_number"], 7);
}

TEST(WholeAnswer, of_a_message_has_its_blocks) {
  const std::vector<json> events = events_of(
      "/v1/messages",
      {{"id", "m"},
       {"type", "message"},
       {"stop_reason", "tool_use"},
       {"usage", {{"input_tokens", 1}, {"output_tokens", 2}}},
       {"content",
        {{{"type", "text"}, {"text", "hi"}}, {{"type", "tool_use"}, {"id", "t"}, {"input", {{"a", 1}}}}}}});

  ASSERT_EQ(events.size(), 9u);
  EXPECT_EQ(events[0]["message"]["content"], json::array());
  EXPECT_EQ(events[1]["content_block"]["text"], "");
  EXPECT_EQ(events[2]["delta"]["text"], "hi");
  EXPECT_EQ(events[5]["delta"]["partial_json"], R"({"a":1})");
  EXPECT_EQ(events[7]["delta"]["stop_reason"], "tool_use");
  EXPECT_EQ(events[7]["usage"]["output_tokens"], 2);
  EXPECT_EQ(events[8]["type"], "message_stop");
}

TEST(WholeAnswer, that_is_none_of_its_api_has_no_events) {
  EXPECT_FALSE(events_of_whole("/v1/chat/completions", R"({"error":{"message":"x"}})"));
  EXPECT_FALSE(events_of_whole("/v1/messages", "{broken"));
  EXPECT_FALSE(events_of_whole("/v1/embeddings", R"({"data":[]})"));
  // Odd members are no reason to fall.
  EXPECT_TRUE(events_of_whole("/v1/chat/completions",
                              R"({"choices":[1,{"message":"x"},{"message":{"tool_calls":[1]}}]})"));
  EXPECT_TRUE(events_of_whole("/v1/messages", R"({"content":[1,{"type":7},{"type":"text"}],"usage":3})"));
  EXPECT_TRUE(events_of_whole("/v1/responses", R"({"output":[1,{"content":[1,{"type":"output_text"}]}]})"));
}

}  // namespace
}  // namespace lanemq::gateway
