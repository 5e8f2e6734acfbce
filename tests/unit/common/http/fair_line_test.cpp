// SPDX-License-Identifier: Apache-2.0
#include "common/http/server/bodies/fair_line.hpp"

#include <gtest/gtest.h>

namespace lanemq::http {
namespace {

std::string all_of(FairLine<std::string>& line) {
  std::string all;
  while (const auto next = line.pop())
    all += *next + " ";
  return all;
}

TEST(FairLine, has_owners_take_turns) {
  FairLine<std::string> line;
  for (const char* thing : {"a1", "a2", "a3", "b1", "a4", "b2", "c1"})
    line.push(std::string(1, *thing), thing);

  EXPECT_EQ(line.size(), 7u);
  EXPECT_EQ(all_of(line), "a1 b1 c1 a2 b2 a3 a4 ");
  EXPECT_EQ(line.size(), 0u);
}

TEST(FairLine, lets_a_newcomer_wait_for_one_of_each_other_alone) {
  FairLine<std::string> line;
  for (int i = 0; i < 1'000; ++i)
    line.push("a", "a");
  EXPECT_EQ(line.pop(), "a");
  line.push("b", "b");

  EXPECT_EQ(line.pop(), "a");
  EXPECT_EQ(line.pop(), "b");
}

TEST(FairLine, forgets_all_at_once) {
  FairLine<std::string> line;
  line.push("a", "a");
  line.clear();

  EXPECT_EQ(line.size(), 0u);
  EXPECT_FALSE(line.pop());
  line.push("a", "again");
  EXPECT_EQ(all_of(line), "again ");
}

}  // namespace
}  // namespace lanemq::http
