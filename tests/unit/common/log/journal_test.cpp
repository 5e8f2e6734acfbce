// SPDX-License-Identifier: Apache-2.0
#include "common/log/journal.hpp"

#include <string>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace lanemq::log {
namespace {

TEST(Journal, is_the_file_that_the_variable_names) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  struct stat about {};
  ASSERT_EQ(fstat(ends[1], &about), 0);
  const std::string device = std::to_string(about.st_dev), inode = std::to_string(about.st_ino);

  EXPECT_TRUE(is_journal((device + ":" + inode).c_str(), ends[1]));
  EXPECT_FALSE(is_journal((device + ":" + inode + "1").c_str(), ends[1]));
  EXPECT_FALSE(is_journal((device + "1:" + inode).c_str(), ends[1]));
  EXPECT_FALSE(is_journal("", ends[1]));
  EXPECT_FALSE(is_journal(nullptr, ends[1]));
  EXPECT_FALSE(is_journal("0:0", -1));

  close(ends[0]);
  close(ends[1]);
}

TEST(Journal, has_the_priorities_of_syslog) {
  EXPECT_STREQ(priority_of(Level::debug), "<7>");
  EXPECT_STREQ(priority_of(Level::info), "<6>");
  EXPECT_STREQ(priority_of(Level::warning), "<4>");
  EXPECT_STREQ(priority_of(Level::error), "<3>");
}

}  // namespace
}  // namespace lanemq::log
