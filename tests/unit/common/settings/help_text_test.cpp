// SPDX-License-Identifier: Apache-2.0
#include "common/settings/help/help_text.hpp"

#include <gtest/gtest.h>

namespace lanemq::settings {
namespace {

TEST(HelpText, leaves_lines_that_fit) {
  EXPECT_EQ(wrapped("", 10), "");
  EXPECT_EQ(wrapped("ten chars.\n\n  two\n", 10), "ten chars.\n\n  two\n");
}

TEST(HelpText, goes_on_below_the_lines_beginning) {
  EXPECT_EQ(wrapped("one two three\n", 8), "one two\nthree\n");
  EXPECT_EQ(wrapped("  one two three\n", 9), "  one two\n  three\n");
}

TEST(HelpText, goes_on_below_the_second_column) {
  EXPECT_EQ(wrapped("  --a N   what it is for\n", 20),
            "  --a N   what it is\n"
            "          for\n");
  EXPECT_EQ(wrapped("  ready    the endpoints answer\n", 24),
            "  ready    the endpoints\n"
            "           answer\n");
}

TEST(HelpText, goes_on_a_little_to_the_right_of_a_flag) {
  EXPECT_EQ(wrapped("  --all Excludes: --one --two\n", 20),
            "  --all Excludes:\n"
            "      --one --two\n");
}

TEST(HelpText, keeps_words_whole) {
  EXPECT_EQ(wrapped("a tcp://127.0.0.1:5570 b\n", 8), "a\ntcp://127.0.0.1:5570\nb\n");
  EXPECT_EQ(wrapped("tcp://127.0.0.1:5570\n", 8), "tcp://127.0.0.1:5570\n");
  EXPECT_EQ(wrapped("  --a N   tcp://127.0.0.1:5570 b\n", 20),
            "  --a N   tcp://127.0.0.1:5570\n"
            "          b\n");
}

TEST(HelpText, has_sentences_in_one_line) {
  EXPECT_EQ(in_sentences("Give each run\na group.\nAnother\nsentence"),
            "Give each run a group.\nAnother sentence");
  EXPECT_EQ(in_sentences("a list:\none\n\ntwo"), "a list:\none\n\ntwo");
  EXPECT_EQ(in_sentences("codes:\n+a   first\n+b   second\n  more\nend"),
            "codes:\n+a   first\n+b   second\n  more\nend");
  EXPECT_EQ(in_sentences(""), "");
}

/// Nothing is lost, added or moved but spaces and line ends.
TEST(HelpText, changes_only_white_space_and_is_as_narrow_as_it_can_be) {
  const std::string text =
      "Usage: x [OPTIONS]\n\nOptions:\n  -h,--help                   Print this help message and exit\n"
      "  --budget NAME Excludes: --all --one\n                              Of those budgets alone, as in "
      "--budget api, "
      "or all of them without it\nExit codes: 0 done, 1 the job failed, 2 wrong usage, 3 no broker "
      "answers.\n";
  const auto words = [](const std::string& of) {
    std::string all;
    for (const char c : of)
      if (c != ' ' && c != '\n') all += c;
    return all;
  };
  for (std::size_t columns = 50; columns < 120; ++columns) {
    const std::string now = wrapped(text, columns);
    EXPECT_EQ(words(now), words(text));
    for (std::size_t at = 0; at < now.size(); at = now.find('\n', at) + 1)
      EXPECT_LE(now.find('\n', at) - at, columns) << now;
  }
}

}  // namespace
}  // namespace lanemq::settings
