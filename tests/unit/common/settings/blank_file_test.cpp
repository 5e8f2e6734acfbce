// SPDX-License-Identifier: Apache-2.0
#include "common/settings/blank_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/common/settings/surroundings.hpp"

namespace lanemq::settings {
namespace {

TEST(BlankFile, is_not_read_again_and_is_named) {
  const File file("");

  const auto why_not = why_not_read_again(file.path());

  ASSERT_TRUE(why_not);
  EXPECT_THAT(*why_not, testing::HasSubstr(file.path()));
  EXPECT_TRUE(why_not_read_again(File(" \n\t\n").path()));
}

TEST(BlankFile, is_none_that_says_anything_a_comment_too) {
  EXPECT_FALSE(why_not_read_again(File("# as it comes\n").path()));
  EXPECT_FALSE(why_not_read_again(File("\n\nlog_level = \"info\"").path()));
}

TEST(BlankFile, is_none_that_is_no_file_or_is_not_named) {
  for (const char* path : {"", "/dev/null", "/nowhere", "/tmp"})
    EXPECT_FALSE(why_not_read_again(path)) << path;
}

}  // namespace
}  // namespace lanemq::settings
