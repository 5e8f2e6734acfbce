// SPDX-License-Identifier: Apache-2.0
#include "common/ids/ulid.hpp"

#include <array>
#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace lanemq {
namespace {

TEST(Ulids, are_ulids_whose_digits_are_the_bits) {
  std::array<unsigned char, 10> zero{}, ones{}, one{}, next_digit{};
  ones.fill(0xFF);
  one[9] = 1;
  next_digit[9] = 32;

  EXPECT_EQ(ulid_of(0, zero), "00000000000000000000000000");
  EXPECT_EQ(ulid_of(0, one), "00000000000000000000000001");
  EXPECT_EQ(ulid_of(0, next_digit), "00000000000000000000000010");
  EXPECT_EQ(ulid_of(1, zero), "00000000010000000000000000");
  EXPECT_EQ(ulid_of(0xFFFF'FFFF'FFFF, ones), "7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
}

TEST(Ulids, of_a_program_sort_in_the_order_in_which_they_were_made) {
  std::string last = new_ulid();
  for (int i = 0; i < 100'000; ++i) {
    std::string next = new_ulid();
    ASSERT_LT(last, next);
    last = std::move(next);
  }

  EXPECT_LT(ulid_of(1'700'000'000'000, system_entropy()), ulid_of(1'700'000'000'001, system_entropy()));
}

TEST(Ulids, tell_no_count) {
  // Of neighbours in a count the first digits would be the same.
  int neighbours = 0;
  std::string last = new_ulid();
  for (int i = 0; i < 1'000; ++i) {
    const std::string next = new_ulid();
    neighbours += next.substr(10, 8) == last.substr(10, 8) ? 1 : 0;
    last = next;
  }
  EXPECT_LT(neighbours, 20);
}

TEST(Ulids, of_a_program_are_ids_of_their_own) {
  const std::string first = new_ulid();

  EXPECT_EQ(first.size(), kUlidDigits);
  EXPECT_NE(new_ulid(), first);
}

}  // namespace
}  // namespace lanemq
