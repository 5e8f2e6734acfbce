// SPDX-License-Identifier: Apache-2.0
#include "common/ids/ulid.hpp"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace lanemq {
namespace {

TEST(Ulids, are_ulids_whose_digits_are_the_bits) {
  const Ulids zero({});
  const Ulids ones({0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF});

  EXPECT_EQ(zero.make_id(0, 0), "00000000000000000000000000");
  EXPECT_EQ(zero.make_id(1, 0), "00000000000000000000000001");
  EXPECT_EQ(zero.make_id(32, 0), "00000000000000000000000010");
  EXPECT_EQ(zero.make_id(0, 1), "00000000010000000000000000");
  EXPECT_EQ(ones.make_id(0, 0xFFFF'FFFF'FFFF), "7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
}

TEST(Ulids, differ_by_number_and_sort_by_time) {
  const Ulids ids(system_entropy());

  std::set<std::string> made;
  for (std::uint64_t number = 0; number < 10'000; ++number)
    made.insert(ids.make_id(number, 1'700'000'000'000));

  EXPECT_EQ(made.size(), 10'000u);
  EXPECT_LT(ids.make_id(9, 1'700'000'000'000), ids.make_id(1, 1'700'000'000'001));
}

TEST(Ulids, count_on_past_the_end_of_the_random_bits) {
  const Ulids ones({0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF});

  EXPECT_NE(ones.make_id(1, 7), ones.make_id(0, 7));
  EXPECT_EQ(ones.make_id(1, 7).size(), 26u);
}

TEST(Ulids, of_a_program_are_ids_of_their_own) {
  const std::string first = new_ulid();

  EXPECT_EQ(first.size(), kUlidDigits);
  EXPECT_NE(new_ulid(), first);
}

}  // namespace
}  // namespace lanemq
