// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/body_cache.hpp"

#include <gtest/gtest.h>

namespace lanemq {
namespace {

TEST(BodyCache, forgets_what_was_expected_of_a_job_that_is_over) {
  io::BodyCache cache(100);
  for (std::uint64_t number = 1; number <= 3; ++number)
    cache.expect(number);

  cache.put(1, std::nullopt);
  cache.put(2, Blob::borrow("body"));
  EXPECT_FALSE(cache.expects(1));
  EXPECT_EQ(cache.size(), 2u);
  EXPECT_EQ(cache.take(1), std::nullopt);
  EXPECT_EQ(cache.take(2)->bytes(), "body");
  EXPECT_EQ(cache.take(3), std::nullopt) << "it is on its way";
  EXPECT_EQ(cache.size(), 0u);
}

TEST(BodyCache, the_oldest_make_way) {
  io::BodyCache cache(10);
  for (std::uint64_t number = 1; number <= 3; ++number) {
    cache.expect(number);
    cache.put(number, Blob::borrow("12345"));
  }

  EXPECT_FALSE(cache.expects(1));
  EXPECT_TRUE(cache.expects(2));
  EXPECT_TRUE(cache.expects(3));
}

}  // namespace
}  // namespace lanemq
