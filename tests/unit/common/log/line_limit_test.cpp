// SPDX-License-Identifier: Apache-2.0
#include "common/log/line_limit.hpp"

#include <gtest/gtest.h>

namespace lanemq::log {
namespace {

using std::chrono::milliseconds;

TEST(LineLimit, so_many_a_second_and_the_next_one_tells_of_the_others) {
  LineLimit limit(2);
  const LineLimit::TimePoint start{milliseconds(100)};
  EXPECT_TRUE(limit.may_write(start));
  EXPECT_TRUE(limit.may_write(start + milliseconds(999)));
  EXPECT_EQ(limit.take_left_out(), 0u);
  for (int i = 0; i < 5; ++i)
    EXPECT_FALSE(limit.may_write(start + milliseconds(999)));
  EXPECT_TRUE(limit.may_write(start + milliseconds(1000)));
  EXPECT_EQ(limit.take_left_out(), 5u);
  EXPECT_EQ(limit.take_left_out(), 0u);
  EXPECT_TRUE(limit.may_write(start + milliseconds(1000)));
  EXPECT_FALSE(limit.may_write(start + milliseconds(1999)));
}

}  // namespace
}  // namespace lanemq::log
