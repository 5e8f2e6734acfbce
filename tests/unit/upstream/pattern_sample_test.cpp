// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/pattern_sample.hpp"

#include <regex>

#include <gtest/gtest.h>

namespace lanemq::upstream {
namespace {

TEST(SampleOfPattern, is_matched_by_the_pattern) {
  for (const std::string pattern :
       {"^[a-z]+$", "^[A-Z]{3}-\\d{4}$", "^(main|dev)/[\\w.-]+$", "a|b", "^$", "x?", "[^a-zA-Z0-9]{2}",
        "^\\d{4}-\\d{2}$", "^v\\d+(?:\\.\\d+){2}$", "^.{5,9}$", "\\S", "^\\/[^\\s]*$", "^[_a-z][-_a-z]*$",
        "^(?:(?:a){2}b)*c$", "[\\]\\\\]", "^#[0-9a-fA-F]{6}$"}) {
    for (const std::size_t length_min : {0u, 1u, 12u}) {
      for (const std::size_t variant : {0u, 3u}) {
        const auto text = sample_of_pattern(pattern, {.length_min = length_min, .variant = variant});
        if (text) {
          EXPECT_TRUE(std::regex_match(*text, std::regex(pattern))) << pattern << ": " << *text;
          EXPECT_GE(text->size(), length_min) << pattern;
        } else {
          EXPECT_GT(length_min, 0u) << pattern;  // Some patterns cannot be so long.
        }
      }
    }
  }
}

TEST(SampleOfPattern, is_as_long_as_it_has_to_be) {
  EXPECT_EQ(sample_of_pattern("^[a-z]+$", {}), "a");
  EXPECT_EQ(sample_of_pattern("^[a-z]+$", {.length_min = 4}), "aaaa");
  EXPECT_EQ(sample_of_pattern("^[a-z]+$", {.variant = 2}), "c");
  EXPECT_EQ(sample_of_pattern("^[a-z]*$", {}), "a") << "not empty where it need not be";
  EXPECT_EQ(sample_of_pattern("^\\d{2}$", {.length_min = 3}), std::nullopt);
}

TEST(SampleOfPattern, gives_up_what_is_not_simple) {
  for (const std::string_view pattern : {"^(?=a)b", "(a)\\1", "\\bword\\b", "\\u0041", "é", "[é]", "(a", "a)",
                                         "[a", "[]", "a{2", "a{99999999}", "\\"})
    EXPECT_EQ(sample_of_pattern(pattern, {}), std::nullopt) << pattern;
  EXPECT_EQ(sample_of_pattern(std::string(100'000, '('), {}), std::nullopt);
  EXPECT_EQ(sample_of_pattern("(((a{1000}){1000}){1000})", {}), std::nullopt);
}

}  // namespace
}  // namespace lanemq::upstream
