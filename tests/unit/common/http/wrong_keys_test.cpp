// SPDX-License-Identifier: Apache-2.0
#include "common/http/server/access/wrong_keys.hpp"

#include <gtest/gtest.h>

namespace lanemq::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct WrongKeysTest : testing::Test {
  WrongKeys keys;
  Loop::TimePoint now{seconds(1'000)};

  void use_the_free_ones(const std::string& address) {
    for (std::size_t i = 0; i < WrongKeys::kFree; ++i)
      EXPECT_EQ(keys.note(address, now), milliseconds(0));
  }
};

TEST_F(WrongKeysTest, hold_refusals_of_an_address_back_one_after_the_other) {
  use_the_free_ones("a");
  EXPECT_EQ(keys.note("a", now), milliseconds(100));
  EXPECT_EQ(keys.note("a", now), milliseconds(200));
  EXPECT_EQ(keys.note("b", now), milliseconds(0));
  EXPECT_EQ(keys.note("a", now + milliseconds(150)), milliseconds(150));
  for (int i = 0; i < 1'000; ++i)
    EXPECT_LE(keys.note("a", now), WrongKeys::kHoldMax);
  EXPECT_EQ(keys.note("a", now), WrongKeys::kHoldMax);
}

TEST_F(WrongKeysTest, forget_after_a_while_and_know_so_many) {
  use_the_free_ones("a");
  now += WrongKeys::kForgetAfter;
  use_the_free_ones("a");

  for (std::size_t i = 0; i < 2 * WrongKeys::kAddressesMax; ++i)
    keys.note("address " + std::to_string(i), now);
  EXPECT_EQ(keys.addresses(), WrongKeys::kAddressesMax);
}

}  // namespace
}  // namespace lanemq::http
