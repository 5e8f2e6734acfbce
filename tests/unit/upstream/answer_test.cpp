// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/answer.hpp"

#include <string>

#include <gtest/gtest.h>

namespace lanemq::upstream {
namespace {

TEST(DrawAnswer, is_four_bytes_a_token_within_what_is_allowed) {
  for (std::uint64_t call = 0; call < 500; ++call) {
    Draws draws(1, call);
    const Answer answer = draw_answer(draws, {.max_tokens = 100, .max_tokens_asked = true});
    ASSERT_LE(answer.tokens, 100u);
    ASSERT_EQ(answer.parts.at(0).content.size(), answer.tokens * kBytesPerToken);
    ASSERT_EQ(answer.cut, answer.tokens == 100);
  }
}

TEST(DrawAnswer, has_the_length_that_is_asked_for_if_it_is_allowed) {
  Draws draws(1, 1);

  EXPECT_EQ(draw_answer(draws, {.max_tokens = 100}, 7).tokens, 7u);
  EXPECT_FALSE(draw_answer(draws, {.max_tokens = 7, .max_tokens_asked = true}, 7).cut);
  EXPECT_EQ(draw_answer(draws, {.max_tokens = 5}, 7).tokens, 5u);
  EXPECT_TRUE(draw_answer(draws, {.max_tokens = 5, .max_tokens_asked = true}, 7).cut);
  EXPECT_FALSE(draw_answer(draws, {.max_tokens = 5}, 7).cut) << "nobody set a limit that it could reach";
}

TEST(DrawAnswer, cuts_what_fits_a_schema_at_max_tokens) {
  Draws draws(1, 1);

  const Answer whole = draw_answer(draws, {.max_tokens = 100, .fitting = R"({"a":"text"})"});
  const Answer cut = draw_answer(draws, {.max_tokens = 2, .fitting = R"({"a":"text"})"});

  EXPECT_EQ(whole.parts.at(0).content, R"({"a":"text"})");
  EXPECT_FALSE(whole.cut);
  EXPECT_EQ(cut.parts.at(0).content, R"({"a":"te)");
  EXPECT_EQ(cut.tokens, 2u);
  EXPECT_TRUE(cut.cut);
}

TEST(DrawAnswer, thinks_first_within_what_is_allowed) {
  for (const std::uint64_t allowed : {1u, 2u, 5u, 100u}) {
    Draws draws(1, allowed);
    const Answer answer = draw_answer(draws, {.max_tokens = allowed, .thinking = true}, 50);
    ASSERT_EQ(answer.parts.size(), 2u);
    EXPECT_EQ(answer.parts[0].kind, PartKind::thinking);
    EXPECT_EQ(answer.parts[1].kind, PartKind::text);
    EXPECT_LE(answer.tokens, std::max<std::uint64_t>(allowed, 2));
  }
}

TEST(Deltas, are_as_many_as_tokens_and_split_no_character) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Draws draws(seed, 0);
    const Answer answer = draw_answer(draws, {.max_tokens = 300, .thinking = true}, 200);
    std::string text[2];
    std::uint64_t count = 0;
    Deltas deltas(answer);

    while (const auto delta = deltas.next()) {
      ++count;
      ASSERT_FALSE(delta->text.empty());
      ASSERT_NE(static_cast<unsigned char>(delta->text.front()) & 0xc0, 0x80)
          << "in the midst of a character";
      ASSERT_EQ(delta->first, text[delta->part].empty());
      text[delta->part] += delta->text;
      ASSERT_EQ(delta->last, text[delta->part].size() == answer.parts[delta->part].content.size());
    }

    ASSERT_EQ(count, answer.tokens);
    ASSERT_EQ(text[0], answer.parts[0].content);
    ASSERT_EQ(text[1], answer.parts[1].content);
  }
}

}  // namespace
}  // namespace lanemq::upstream
