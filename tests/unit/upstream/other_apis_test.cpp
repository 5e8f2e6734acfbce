// SPDX-License-Identifier: Apache-2.0
// Completions, embeddings, responses and models.
#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>

#include "tests/support/upstream/api.hpp"
#include "tests/support/upstream/models.hpp"
#include "tests/unit/upstream/events.hpp"

namespace lanemq::upstream {
namespace {

const Completion kHello{.id = "1",
                        .created_s = 1700,
                        .request = {.model = "m", .prompt_tokens = 5, .include_usage = true},
                        .answer = {.parts = {{.content = "hello there"}}, .tokens = 3}};

TEST(Completions, spell_the_text_and_tell_the_usage) {
  const std::vector<Event> events = events_of(completions_api(), kHello);

  ASSERT_EQ(events.size(), 6u);
  std::string text;
  for (std::size_t index = 0; index < 4; ++index)
    text += events[index].data["choices"][0]["text"].get<std::string>();
  EXPECT_EQ(text, "hello there");
  EXPECT_EQ(events[3].data["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(events[4].data["usage"]["total_tokens"], 8);
  EXPECT_EQ(events[5].data, "[DONE]");
  EXPECT_EQ(Json::parse(completions_api().body(kHello))["choices"][0]["text"], "hello there");
}

TEST(Completions, name_what_is_wrong) {
  EXPECT_EQ(blamed_by(completions_api(), R"({"prompt": "x"})"), "accepted");
  EXPECT_EQ(blamed_by(completions_api(), R"({"prompt": ["x"]})"), "accepted");
  EXPECT_EQ(blamed_by(completions_api(), R"({"prompt": ["x", "y"]})"), "prompt");
  EXPECT_EQ(blamed_by(completions_api(), "{}"), "prompt");
}

TEST(Responses, number_their_events_and_spell_the_text) {
  const std::vector<Event> events = events_of(responses_api(), kHello);

  std::string text;
  for (std::size_t index = 0; index < events.size(); ++index) {
    EXPECT_EQ(events[index].data["sequence_number"], index);
    EXPECT_EQ(events[index].data["type"], events[index].name);
    if (events[index].name == "response.output_text.delta")
      text += events[index].data["delta"].get<std::string>();
  }
  EXPECT_EQ(text, "hello there");
  const std::vector<std::string> expected = {"response.created",           "response.in_progress",
                                             "response.output_item.added", "response.content_part.added",
                                             "response.output_text.delta", "response.output_text.done",
                                             "response.content_part.done", "response.output_item.done",
                                             "response.completed"};
  EXPECT_EQ(names_of(events), expected);
  EXPECT_EQ(events.back().data["response"]["usage"]["total_tokens"], 8);
}

TEST(Responses, call_a_function) {
  const Completion completion{
      .id = "1",
      .request = {.model = "m", .tool = "w"},
      .answer = {.parts = {{.kind = PartKind::tool, .content = R"({"a":"text"})"}}, .tokens = 3}};

  std::string arguments;
  for (const Event& event : events_of(responses_api(), completion))
    if (event.name == "response.function_call_arguments.delta")
      arguments += event.data["delta"].get<std::string>();

  EXPECT_EQ(arguments, R"({"a":"text"})");
  const Json body = Json::parse(responses_api().body(completion));
  EXPECT_EQ(body["output"][0]["type"], "function_call");
  EXPECT_EQ(body["output"][0]["arguments"], arguments);
}

TEST(Responses, read_instructions_and_items) {
  const auto request =
      parsed_by(responses_api(), R"({"model": "m", "instructions": "1234", "max_output_tokens": 9,
      "input": [{"role": "user", "content": [{"type": "input_text", "text": "12345678"}]}]})");

  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->prompt_tokens, 3u);
  EXPECT_EQ(request->charge(), 12u);
  EXPECT_EQ(blamed_by(responses_api(), R"({"model": "m"})"), "input");
}

TEST(Responses, answer_otherwise_behind_the_result_of_a_function) {
  const auto hash_of = [](const std::string& more) {
    return parsed_by(responses_api(),
                     R"({"model": "m", "input": [{"role": "user", "content": "hi"})" + more + "]}")
        ->prompt_hash;
  };
  const std::string call = R"(, {"type": "function_call", "name": "w", "arguments": "{}"})";

  EXPECT_NE(hash_of(""), hash_of(call));
  EXPECT_NE(hash_of(call), hash_of(call + R"(, {"type": "function_call_output", "output": "rain"})"));
  EXPECT_NE(hash_of(call + R"(, {"type": "function_call_output", "output": "rain"})"),
            hash_of(call + R"(, {"type": "function_call_output", "output": [{"text": "sun"}]})"));
}

TEST(Responses, take_what_a_coding_agent_says_of_itself) {
  const auto known = responses_api().parameters();

  EXPECT_NE(std::find(known.begin(), known.end(), "client_metadata"), known.end());
}

TEST(Embeddings, are_the_same_numbers_in_either_encoding) {
  const auto ask = [](const std::string& format) {
    const auto request = parsed_by(
        embeddings_api(), R"({"input": ["a", "bc"], "dimensions": 4, "encoding_format": ")" + format + "\"}");
    return Json::parse(embeddings_api().body({.request = *request}));
  };
  const Json floats = ask("float");
  const Json coded = ask("base64");

  ASSERT_EQ(floats["data"].size(), 2u);
  EXPECT_EQ(floats["data"][1]["index"], 1);
  const auto numbers = floats["data"][0]["embedding"].get<std::vector<float>>();
  ASSERT_EQ(numbers.size(), 4u);
  // 16 bytes: five groups of three, and one byte that is padded.
  const std::string text = coded["data"][0]["embedding"];
  ASSERT_EQ(text.size(), 24u);
  EXPECT_TRUE(text.ends_with("=="));
  std::string bytes;
  std::uint32_t bits = 0;
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (std::size_t at = 0; at < 24; ++at) {
    const std::size_t digit = text[at] == '=' ? 0 : digits.find(text[at]);
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    if (at % 4 == 3)
      for (const int shift : {16, 8, 0})
        bytes += static_cast<char>(bits >> shift & 0xff);
  }
  std::vector<float> decoded(4);
  std::memcpy(decoded.data(), bytes.data(), 16);
  EXPECT_EQ(decoded, numbers);
}

TEST(Embeddings, charge_for_all_texts_and_name_what_is_wrong) {
  EXPECT_EQ(parsed_by(embeddings_api(), R"({"input": ["12345678", "1234"]})")->charge(), 3u);
  EXPECT_EQ(parsed_by(embeddings_api(), R"({"input": [1, 2, 3]})")->charge(), 3u);
  EXPECT_EQ(parsed_by(embeddings_api(), R"({"input": [[1, 2], [3]]})")->inputs.size(), 2u);
  EXPECT_EQ(blamed_by(embeddings_api(), "{}"), "input");
  EXPECT_EQ(blamed_by(embeddings_api(), R"({"input": []})"), "input");
  EXPECT_EQ(blamed_by(embeddings_api(), R"({"input": ""})"), "input");
  EXPECT_EQ(blamed_by(embeddings_api(), R"({"input": "a", "encoding_format": "hex"})"), "encoding_format");
  EXPECT_EQ(blamed_by(embeddings_api(), R"({"input": "a", "dimensions": 5000})"), "dimensions");
}

TEST(Models, have_each_service_s_own_form) {
  const Json openai = Json::parse(models_body(Dialect::openai, 1700));
  const Json anthropic = Json::parse(models_body(Dialect::anthropic, 0));

  EXPECT_EQ(openai["object"], "list");
  EXPECT_EQ(openai["data"][0]["object"], "model");
  EXPECT_EQ(anthropic["data"][0]["type"], "model");
  EXPECT_EQ(anthropic["data"][0]["created_at"], "1970-01-01T00:00:00Z");
  EXPECT_EQ(anthropic["last_id"], anthropic["data"].back()["id"]);
  EXPECT_EQ(Json::parse(model_body(Dialect::openai, "gpt-4o", 1700))["id"], "gpt-4o");
  EXPECT_EQ(model_body(Dialect::anthropic, "gpt-4o", 1700), "");
}

TEST(FindApi, knows_each_path_by_its_api) {
  for (const Api* api : {&chat_api(), &completions_api(), &embeddings_api(), &responses_api(),
                         &messages_api(), &count_tokens_api()})
    EXPECT_EQ(find_api(api->path()), api);
  EXPECT_EQ(find_api("/v1/chat"), nullptr);
}

}  // namespace
}  // namespace lanemq::upstream
