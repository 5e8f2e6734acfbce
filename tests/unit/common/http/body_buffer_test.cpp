// SPDX-License-Identifier: Apache-2.0
#include "common/http/server/bodies/body_buffer.hpp"

#include <gtest/gtest.h>

namespace lanemq::http {
namespace {

TEST(BodyBuffer, has_what_came_in_one_piece) {
  for (const std::size_t whole : {std::size_t{0}, std::size_t{3'000'000}}) {
    BodyBuffer body;
    EXPECT_TRUE(body.empty());
    std::string all;
    for (std::size_t i = 0; all.size() < 3'000'000; ++i) {
      const std::string piece(std::min<std::size_t>(i * 997 % 70'000, 3'000'000 - all.size()),
                              static_cast<char>('a' + i % 26));
      all += piece;
      body.append(piece, whole);
      ASSERT_EQ(body.size(), all.size());
    }
    EXPECT_TRUE(body.view() == all);
  }
}

TEST(BodyBuffer, is_handed_over_and_leaves_nothing) {
  for (const std::size_t size : {std::size_t{5}, std::size_t{1'000'000}}) {
    BodyBuffer body;
    body.append(std::string(size, 'x'));
    const BodyBuffer taken = std::move(body);
    body = BodyBuffer();
    EXPECT_EQ(taken.size(), size);
    EXPECT_TRUE(body.empty());
    body.append("again");
    EXPECT_EQ(body.view(), "again");
  }
}

TEST(BodyBuffer, takes_more_than_was_said) {
  BodyBuffer body;
  body.append(std::string(300'000, 'x'), 300'000);
  body.append("more", 300'000);
  EXPECT_EQ(body.size(), 300'004u);
  EXPECT_TRUE(body.view().ends_with("xmore"));
}

}  // namespace
}  // namespace lanemq::http
