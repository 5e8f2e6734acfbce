// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/http/upstream_body.hpp"

#include <cstdint>
#include <limits>
#include <string>

#include <gtest/gtest.h>

namespace lanemq::worker {
namespace {

TEST(ReadBody, reads_usage_in_the_words_of_openai) {
  const BodyFacts facts = read_body(R"({"id":"x","choices":[{"message":{"content":"hi"}}],"usage":{
    "prompt_tokens":11,"completion_tokens":22,"total_tokens":33,
    "prompt_tokens_details":{"cached_tokens":4,"audio_tokens":0},
    "completion_tokens_details":{"reasoning_tokens":5}}})");

  ASSERT_TRUE(facts.usage);
  EXPECT_EQ(facts.usage->input_tokens, 11);
  EXPECT_EQ(facts.usage->output_tokens, 22);
  EXPECT_EQ(facts.usage->cached_tokens, 4);
  EXPECT_EQ(facts.usage->reasoning_tokens, 5);
  EXPECT_EQ(facts.usage->requests, std::nullopt);
}

TEST(ReadBody, reads_usage_in_the_words_of_anthropic) {
  const BodyFacts facts = read_body(
      R"({"type":"message","usage":{"cache_creation_input_tokens":2,"input_tokens":7,"cache_read_input_tokens":3,
      "output_tokens":9}})");

  ASSERT_TRUE(facts.usage);
  EXPECT_EQ(facts.usage->input_tokens, 9) << "what is put into the cache counts, what is read does not";
  EXPECT_EQ(facts.usage->output_tokens, 9);
  EXPECT_EQ(facts.usage->cached_tokens, 3);
}

TEST(ReadBody, looks_for_usage_at_the_top_only) {
  EXPECT_FALSE(read_body(R"({"choices":[{"usage":{"prompt_tokens":1}}]})").usage);
  EXPECT_FALSE(read_body(R"({"data":{"usage":{"prompt_tokens":1}}})").usage);
  EXPECT_FALSE(read_body(R"([{"usage":{"prompt_tokens":1}}])").usage);
  EXPECT_FALSE(read_body(R"({"content":"\"usage\":{\"prompt_tokens\":1}"})").usage);
}

TEST(ReadBody, takes_no_count_that_is_none) {
  EXPECT_EQ(read_body(R"({"usage":{"input_tokens":9223372036854775807,"cache_creation_input_tokens":1}})")
                .usage->input_tokens,
            std::numeric_limits<std::int64_t>::max());
  EXPECT_FALSE(read_body(R"({"usage":{"prompt_tokens":-1,"completion_tokens":1.5}})").usage);
  EXPECT_FALSE(read_body(R"({"usage":{"prompt_tokens":99999999999999999999}})").usage);
  EXPECT_FALSE(read_body(R"({"usage":{"prompt_tokens":"7","completion_tokens":null}})").usage);
  EXPECT_FALSE(read_body(R"({"usage":null})").usage);
  EXPECT_FALSE(read_body(R"({"usage":{"prompt_tokens":[7]}})").usage);
}

TEST(ReadBody, reads_errors_of_both_houses) {
  const BodyFacts openai =
      read_body(R"({"error":{"message":"no","type":"insufficient_quota","param":null,"code":"billing"}})");
  EXPECT_EQ(openai.error_message, "no");
  EXPECT_EQ(openai.error_type, "insufficient_quota");
  EXPECT_EQ(openai.error_code, "billing");

  const BodyFacts anthropic =
      read_body(R"({"type":"error","error":{"type":"rate_limit_error","message":"slow"},"request_id":"r"})");
  EXPECT_EQ(anthropic.error_type, "rate_limit_error");
  EXPECT_EQ(anthropic.error_message, "slow");

  EXPECT_EQ(read_body(R"({"error":"plain"})").error_message, "plain");
  EXPECT_EQ(read_body(R"({"message":"top","code":"c"})").error_code, "c");
}

TEST(ReadBody, keeps_what_it_read_of_a_broken_body) {
  EXPECT_EQ(read_body(R"({"usage":{"prompt_tokens":11,"compl)").usage->input_tokens, 11);
  EXPECT_FALSE(read_body("").usage);
  EXPECT_FALSE(read_body("not json").usage);
}

TEST(ReadBody, reads_what_is_escaped) {
  const BodyFacts facts = read_body(
      R"({"\u0075sage":{"prompt_tok\u0065ns":3},"error":{"message":"caf\u00e9 \"x\"","code":529}})");

  EXPECT_EQ(facts.usage->input_tokens, 3);
  EXPECT_EQ(facts.error_message, "caf\xC3\xA9 \"x\"");
  EXPECT_EQ(facts.error_status, 529);
}

TEST(ReadBody, survives_any_depth) {
  std::string deep = R"({"a":)";
  deep.append(200'000, '[');
  EXPECT_FALSE(read_body(deep).usage);

  std::string closed =
      R"({"a":)" + std::string(100'000, '[') + std::string(100'000, ']') + R"(,"usage":{"prompt_tokens":3}})";
  EXPECT_EQ(read_body(closed).usage->input_tokens, 3);
}

TEST(ReadBody, does_not_read_what_is_too_long) {
  const std::string long_body =
      R"({"usage":{"prompt_tokens":3},"a":")" + std::string(kReadBytesMax, 'x') + "\"}";
  EXPECT_FALSE(read_body(long_body).usage);
}

TEST(ReadBody, an_answer_without_output_has_none) {
  const BodyFacts both = read_body(R"({"data":[],"usage":{"prompt_tokens":8,"total_tokens":8}})");
  EXPECT_EQ(both.usage->input_tokens, 8);
  EXPECT_EQ(both.usage->output_tokens, 0);

  const BodyFacts total = read_body(R"({"usage":{"total_tokens":12}})");
  EXPECT_EQ(total.usage->input_tokens, 12);
  EXPECT_EQ(total.usage->output_tokens, 0);

  const BodyFacts rest = read_body(R"({"usage":{"prompt_tokens":8,"total_tokens":20}})");
  EXPECT_EQ(rest.usage->output_tokens, 12);
}

}  // namespace
}  // namespace lanemq::worker
