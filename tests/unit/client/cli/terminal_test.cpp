// SPDX-License-Identifier: Apache-2.0
#include "client/cli/text/terminal.hpp"

#include <gtest/gtest.h>

namespace lanemq::cli {
namespace {

TEST(Harmless, is_what_moves_nothing_on_a_terminal) {
  EXPECT_EQ(harmless("{\n\t\"a\": \"\xC3\xA4\"}\n"), "{\n\t\"a\": \"\xC3\xA4\"}\n");
  EXPECT_EQ(harmless("\x1b]0;owned\x07\x1b[2J\r\x7f"), "\\x1b]0;owned\\x07\\x1b[2J\\x0d\\u007f");
  EXPECT_EQ(harmless("\xC2\x9B"
                     "2J\xC2\xA0"),
            "\\u009b2J\xC2\xA0");
  EXPECT_EQ(harmless(std::string_view("\0", 1)), "\\x00");
}

TEST(Harmless, turns_no_reading_direction) {
  EXPECT_EQ(harmless("50 \xE2\x80\xAE%\xE2\x81\xA6!\xE2\x80\xA8"), "50 \\u202e%\\u2066!\\u2028");
  EXPECT_EQ(harmless("\xE2\x80"), "\\xe2\\x80");
  EXPECT_EQ(harmless("a\x9B\xFF"), "a\\x9b\\xff");
  EXPECT_EQ(harmless("\xE2\x82\xAC"), "\xE2\x82\xAC");
}

}  // namespace
}  // namespace lanemq::cli
