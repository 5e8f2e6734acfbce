// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/estimates.hpp"

#include <string>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "broker/core/budgets/body_estimate.hpp"

namespace lanemq::core {
namespace {

std::int64_t text_tokens(const std::string& body) {
  return estimate_body(body).text_tokens;
}

/// The tokens that begin an answer.
constexpr std::int64_t kReplyPrime = 3;

std::string chat(const std::string& content, const std::string& rest = "") {
  return R"({"model":"gpt-4.1","messages":[{"role":"user","content":)" + content + "}]" + rest + "}";
}

const std::string kProse =
    "The quick brown fox jumps over the lazy dog, and then it walks home to have a long rest in the sun. ";

TEST(BodyEstimate, english_is_weighed_at_about_four_bytes_a_token) {
  std::string prose;
  for (int i = 0; i < 50; ++i)
    prose += kProse;
  const double per_token = static_cast<double>(prose.size()) / static_cast<double>(text_tokens(prose));
  EXPECT_GT(per_token, 3.5);
  EXPECT_LT(per_token, 6);
}

TEST(BodyEstimate, a_long_text_weighs_what_its_parts_weigh) {
  const bool holds = rc::check([](const std::string& seed) {
    std::string text = "z" + seed + "\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80 9,\n";
    while (text.size() < 3000)
      text += text;
    std::int64_t parts = 0;
    for (const char c : text)  // 256 of them, so that a byte's weight is a whole number; % is no base64
      parts += text_tokens("%" + std::string(256, c)) - kReplyPrime;
    RC_ASSERT(text_tokens(text) - kReplyPrime == parts / 256);
  });
  EXPECT_TRUE(holds);
}

TEST(BodyEstimate, in_json_only_texts_count) {
  const std::int64_t bare = text_tokens(chat(R"("")"));
  EXPECT_LT(bare, 10) << "names, roles and structure are not text";
  const std::int64_t with_text = text_tokens(chat('"' + kProse + '"'));
  EXPECT_NEAR(static_cast<double>(with_text - bare), static_cast<double>(text_tokens(kProse)), 5);
  EXPECT_EQ(text_tokens(chat(R"([{"type":"text","text":")" + kProse + R"("}])")), with_text)
      << "in parts as in one";
  EXPECT_EQ(text_tokens(R"({ "model" : "gpt-4.1" , "messages" : [ {"role" : "user", "content" : ")" + kProse +
                        "\"} ] }"),
            with_text)
      << "with spaces as without";
}

TEST(BodyEstimate, quotes_and_backslashes_do_not_end_a_text) {
  const std::int64_t plain = text_tokens(chat(R"("say ''hello'' to me and go on for a while")"));
  const std::int64_t quoted = text_tokens(chat(R"("say \"hello\\\" to me and go on for a while")"));
  EXPECT_NEAR(static_cast<double>(plain), static_cast<double>(quoted), 4);
  EXPECT_GT(text_tokens(chat(R"("ends in a backslash \\")", R"(,"user":"nobody")")), 5);
}

TEST(BodyEstimate, media_is_counted_and_not_weighed) {
  const std::string base64(100'000, 'A');
  const BodyEstimate url = estimate_body(
      chat(R"([{"type":"image_url","image_url":{"url":"data:image/png;base64,)" + base64 + R"("}}])"));
  EXPECT_EQ(url.media, 1);
  EXPECT_LT(url.text_tokens, 20);
  const BodyEstimate source =
      estimate_body(chat(R"([{"type":"image","source":{"type":"base64","media_type":"image/png","data":")" +
                         base64 + R"("}}])"));
  EXPECT_EQ(source.media, 1);
  EXPECT_LT(source.text_tokens, 20);
}

TEST(BodyEstimate, the_bound_of_the_answer_is_read_where_it_belongs) {
  EXPECT_EQ(estimate_body(chat(R"("x")", R"(,"max_tokens":100)")).max_output, 100);
  EXPECT_EQ(estimate_body(chat(R"("x")", R"(,"max_completion_tokens": 200, "max_tokens":100)")).max_output,
            200);
  EXPECT_EQ(estimate_body(chat(R"("x")", R"(,"max_output_tokens":7,"n":3)")).max_output, 21);
  EXPECT_EQ(estimate_body(chat(R"("max_tokens: 5")", R"(,"metadata":{"max_tokens":9})")).max_output,
            std::nullopt);
  EXPECT_EQ(estimate_body(chat(R"("x")", R"(,"max_tokens":-4)")).max_output, std::nullopt);
  EXPECT_GT(estimate_body(chat(R"("x")", R"(,"max_tokens":99999999999)")).max_output, 0);
}

TEST(BodyEstimate, tools_count_with_their_keys) {
  const std::string tool =
      R"({"type":"function","function":{"name":"weather","description":"tells the weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}})";
  const std::int64_t without = text_tokens(chat(R"("x")"));
  const std::int64_t one = text_tokens(chat(R"("x")", ",\"tools\":[" + tool + "]"));
  const std::int64_t two = text_tokens(chat(R"("x")", ",\"tools\":[" + tool + "," + tool + "]"));
  EXPECT_GT(one, without + 20);
  EXPECT_NEAR(static_cast<double>(two - one), static_cast<double>(one - without), 2);
}

TEST(BodyEstimate, any_bytes_are_read_to_their_end) {
  const bool holds = rc::check([](const std::string& noise, std::size_t cut) {
    std::string body = chat('"' + noise + '"', R"(,"max_tokens":5,"tools":[{"a":[1,{"b":null}]}])");
    body.resize(body.size() - cut % body.size());
    const BodyEstimate estimate = estimate_body(body);
    RC_ASSERT(estimate.text_tokens >= 0);
    RC_ASSERT(estimate.text_tokens < static_cast<std::int64_t>(body.size()) * 2 + 100);
    RC_ASSERT(estimate_body("[" + noise).text_tokens >= 0);
  });
  EXPECT_TRUE(holds);
}

wire::Usage usage(std::int64_t input, std::int64_t output) {
  wire::Usage usage;
  usage.input_tokens = input;
  usage.output_tokens = output;
  return usage;
}

TEST(Estimates, what_the_client_states_counts_as_it_stands) {
  Estimates estimates(1600, 512);
  const Estimate both =
      estimates.estimate("m", "", kProse, wire::Cost{.input_tokens = 7, .output_tokens = 9});
  EXPECT_EQ(both.amounts.input_tokens, 7);
  EXPECT_EQ(both.amounts.output_tokens, 9);
  EXPECT_EQ(both.raw_input, 0u) << "there is nothing to learn from it";
  const Estimate input =
      estimates.estimate("m", "", kProse, wire::Cost{.input_tokens = 7, .output_tokens = {}});
  EXPECT_EQ(input.amounts.input_tokens, 7);
  EXPECT_EQ(input.amounts.output_tokens, 512);
}

TEST(Estimates, the_input_of_a_model_is_learned_within_twenty_answers) {
  Estimates estimates(1600, 512);
  const std::string body = chat('"' + kProse + kProse + kProse + '"');
  const std::int64_t actual = estimate_body(body).text_tokens * 17 / 10;
  for (int i = 0; i < 20; ++i) {
    const Estimate estimate = estimates.estimate("m", "", body, std::nullopt);
    estimates.learn("m", "", estimate.raw_input, usage(actual, 50));
  }
  const auto learned =
      static_cast<double>(estimates.estimate("m", "", body, std::nullopt).amounts.input_tokens);
  EXPECT_NEAR(learned / static_cast<double>(actual), 1, 0.05);
  EXPECT_EQ(estimates.estimate("other", "", body, std::nullopt).raw_input, estimate_body(body).text_tokens);
}

TEST(Estimates, a_client_that_writes_otherwise_has_a_series_of_its_own) {
  Estimates estimates(1600, 512);
  const std::string body = chat('"' + kProse + kProse + '"');
  const std::int64_t raw = estimate_body(body).text_tokens;
  for (int i = 0; i < 30; ++i) {
    estimates.learn("m", "plain", static_cast<std::uint32_t>(raw), usage(raw, 10));
    estimates.learn("m", "dense", static_cast<std::uint32_t>(raw), usage(raw * 2, 1000));
  }
  const Amounts plain = estimates.estimate("m", "plain", body, std::nullopt).amounts;
  const Amounts dense = estimates.estimate("m", "dense", body, std::nullopt).amounts;
  EXPECT_NEAR(static_cast<double>(dense.input_tokens) / static_cast<double>(plain.input_tokens), 2, 0.1);
  EXPECT_LT(plain.output_tokens, 20);
  EXPECT_GT(dense.output_tokens, 900);
}

TEST(Estimates, the_output_is_the_90th_percentile_and_at_most_the_bound) {
  Estimates estimates(1600, 512);
  EXPECT_EQ(estimates.estimate("m", "", chat(R"("x")"), std::nullopt).amounts.output_tokens, 512);
  EXPECT_EQ(estimates.estimate("m", "", chat(R"("x")", R"(,"max_tokens":4000)"), std::nullopt)
                .amounts.output_tokens,
            4000)
      << "nothing is known of the model: the upstream may count the bound";
  for (int i = 1; i <= 1000; ++i)
    estimates.learn("m", "", 10, usage(10, i));
  const auto p90 =
      static_cast<double>(estimates.estimate("m", "", chat(R"("x")"), std::nullopt).amounts.output_tokens);
  EXPECT_GE(p90, 900);
  EXPECT_LE(p90, 900 * 1.2) << "a class is a fifth wide";
  EXPECT_EQ(
      estimates.estimate("m", "", chat(R"("x")", R"(,"max_tokens":100)"), std::nullopt).amounts.output_tokens,
      100);
}

TEST(Estimates, strangers_cannot_fill_the_memory) {
  Estimates estimates(1600, 512);
  for (std::size_t i = 0; i < Estimates::kSeriesMax + 100; ++i)
    estimates.learn("model-" + std::to_string(i), "", 10, usage(20, 5));
  EXPECT_EQ(estimates.size(), Estimates::kSeriesMax);
}

TEST(Estimates, what_a_client_states_wins_over_what_its_body_says) {
  const Estimates estimates(0, 512);
  const Estimate estimate = estimates.estimate("m", "", R"({"max_tokens":1000,"messages":[]})",
                                               wire::Cost{.input_tokens = std::nullopt, .output_tokens = 20});
  EXPECT_EQ(estimate.amounts.output_tokens, 20);
  EXPECT_FALSE(estimate.output_bound);
}

TEST(Estimates, who_was_last_heard_of_makes_way_and_models_stay) {
  Estimates estimates(1600, 512);
  const auto expected = [&](const std::string& model, const std::string& client) {
    return estimates.estimate(model, client, chat(R"("x")"), std::nullopt).amounts.output_tokens;
  };
  const auto learn = [&](const std::string& model, const std::string& client, std::int64_t output) {
    for (int i = 0; i < 10; ++i)
      estimates.learn(model, client, 10, usage(20, output));
  };
  learn("old", "first", 3000);
  learn("old", "second", 3000);
  for (int i = 0; i < 100'000; ++i)
    estimates.learn("old", "", 10, usage(20, 5));
  for (std::size_t i = 0; i < Estimates::kSeriesMax; ++i) {
    if (i % 1000 == 0) learn("old", "second", 3000);
    learn("old", "user-" + std::to_string(i), 5);
  }
  learn("new", "", 3000);

  EXPECT_EQ(estimates.size(), Estimates::kSeriesMax);
  EXPECT_GE(expected("new", ""), 3000);
  EXPECT_GE(expected("old", "second"), 3000) << "it was there all the time";
  EXPECT_LT(expected("old", "first"), 100) << "that of its model";
  EXPECT_LT(expected("old", "user-" + std::to_string(Estimates::kSeriesMax - 1)), 100);
}

TEST(Estimates, clients_that_call_once_do_not_drive_out_those_that_call_often) {
  Estimates estimates(1600, 512);
  std::size_t strangers = 0;
  const auto stranger = [&] {
    estimates.learn("m", "once-" + std::to_string(strangers++), 10, usage(20, 5));
  };
  while (estimates.size() < Estimates::kSeriesMax)
    stranger();
  // Each calls again when twice as many strangers have called as there is room for.
  for (int round = 0; round < 20; ++round) {
    estimates.learn("m", "often", 10, usage(20, 3000));
    for (std::size_t i = 0; i < 2 * Estimates::kSeriesMax; ++i)
      stranger();
  }
  EXPECT_GE(estimates.estimate("m", "often", chat(R"("x")"), std::nullopt).amounts.output_tokens, 3000);
}

TEST(Estimates, a_call_that_took_no_tokens_says_nothing_of_answers) {
  Estimates estimates(1600, 512);
  for (int i = 0; i < 100; ++i)
    estimates.learn("m", "", 10, usage(0, 0));
  EXPECT_EQ(estimates.estimate("m", "", chat(R"("x")"), std::nullopt).amounts.output_tokens, 512);
  for (int i = 0; i < 100; ++i)
    estimates.learn("embedding", "", 10, usage(8, 0));
  EXPECT_LE(estimates.estimate("embedding", "", chat(R"("x")"), std::nullopt).amounts.output_tokens, 1);
}

}  // namespace
}  // namespace lanemq::core
