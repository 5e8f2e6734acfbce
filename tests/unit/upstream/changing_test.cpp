// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/changing.hpp"

#include <gtest/gtest.h>

namespace lanemq::upstream {
namespace {

using namespace std::chrono_literals;

TEST(ParseChanging, reads_a_number_that_stays) {
  const auto number = parse_changing("600", 1000);

  ASSERT_TRUE(number);
  EXPECT_EQ(*number, Changing(600));
  EXPECT_EQ(number->at(1h), 600u);
}

TEST(ParseChanging, reads_what_it_becomes_and_when) {
  const auto number = parse_changing("600,300@30,900@60.5", 1000);

  ASSERT_TRUE(number);
  EXPECT_EQ(number->first(), 600u);
  EXPECT_EQ(number->largest(), 900u);
  EXPECT_EQ(number->at(30s - 1ns), 600u);
  EXPECT_EQ(number->at(30s), 300u);
  EXPECT_EQ(number->at(60s + 499ms), 300u);
  EXPECT_EQ(number->at(60s + 500ms), 900u);
}

TEST(ParseChanging, says_what_fits) {
  for (const char* text : {"", "0", "1001", "-1", "6x", "6@1", "6,7", "6,7@", "6,7@x", "6,7@-1", "6,7@5,8@5",
                           "6,7@0", "6,", ",6", "6,7@1e9", "6, 7@1"}) {
    const auto number = parse_changing(text, 1000);
    ASSERT_FALSE(number) << text;
    EXPECT_NE(number.error().find("1 to 1000"), std::string::npos);
  }
}

TEST(ParseChanging, takes_so_many_changes_and_no_more) {
  std::string text = "1";
  for (std::size_t step = 1; step < kChangesMax; ++step)
    text += ",1@" + std::to_string(step);

  EXPECT_TRUE(parse_changing(text, 1000));
  EXPECT_FALSE(parse_changing(text + ",1@5000", 1000));
}

}  // namespace
}  // namespace lanemq::upstream
