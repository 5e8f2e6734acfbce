// SPDX-License-Identifier: Apache-2.0
#include "client/job_id.hpp"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace lanemq::client {
namespace {

TEST(JobIds, are_ulids_whose_digits_are_the_bits) {
  const JobIds zero({});
  const JobIds ones({0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF});

  EXPECT_EQ(zero.make_id(0, 0), "00000000000000000000000000");
  EXPECT_EQ(zero.make_id(1, 0), "00000000000000000000000001");
  EXPECT_EQ(zero.make_id(32, 0), "00000000000000000000000010");
  EXPECT_EQ(zero.make_id(0, 1), "00000000010000000000000000");
  EXPECT_EQ(ones.make_id(0, 0xFFFF'FFFF'FFFF), "7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
}

TEST(JobIds, differ_by_number_and_sort_by_time) {
  const JobIds ids(system_entropy());

  std::set<std::string> made;
  for (std::uint64_t number = 0; number < 10'000; ++number)
    made.insert(ids.make_id(number, 1'700'000'000'000));

  EXPECT_EQ(made.size(), 10'000u);
  EXPECT_LT(ids.make_id(9, 1'700'000'000'000), ids.make_id(1, 1'700'000'000'001));
}

TEST(JobIds, count_on_past_the_end_of_the_random_bits) {
  const JobIds ones({0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF});

  EXPECT_NE(ones.make_id(1, 7), ones.make_id(0, 7));
  EXPECT_EQ(ones.make_id(1, 7).size(), 26u);
}

}  // namespace
}  // namespace lanemq::client
