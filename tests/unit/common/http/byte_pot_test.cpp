// SPDX-License-Identifier: Apache-2.0
#include "common/http/server/bodies/byte_pot.hpp"

#include <optional>

#include <gtest/gtest.h>

namespace lanemq::http {
namespace {

using Over = BytePot::Over;

TEST(BytePot, nobody_has_more_than_a_quarter) {
  const auto pot = std::make_shared<BytePot>(1'000);
  BytePot::Hold first(pot, {"address a", "caller x"}), same_address(pot, {"address a", "caller y"}),
      same_caller(pot, {"address b", "caller x"}), other(pot, {"address b", "caller y"});

  EXPECT_EQ(first.take(200), Over::nothing);
  EXPECT_EQ(same_address.take(51), Over::share);
  EXPECT_EQ(same_caller.take(51), Over::share);
  EXPECT_EQ(other.take(250), Over::nothing);
  EXPECT_EQ(first.take(50), Over::nothing);
  EXPECT_EQ(first.take(1), Over::share);
  EXPECT_EQ(pot->bytes(), 500u);
}

TEST(BytePot, what_is_refused_costs_nothing_and_what_ends_is_given_back) {
  const auto pot = std::make_shared<BytePot>(1'000);
  std::optional<BytePot::Hold> first = BytePot::Hold(pot, {"address a"});
  ASSERT_EQ(first->take(250), Over::nothing);
  ASSERT_EQ(first->take(1), Over::share);
  EXPECT_EQ(pot->bytes(), 250u);
  BytePot::Hold moved = *std::move(first);
  first.reset();
  EXPECT_EQ(pot->bytes(), 250u);

  moved.give_back();

  EXPECT_EQ(pot->bytes(), 0u);
  BytePot::Hold next(pot, {"address a", ""});
  EXPECT_EQ(next.take(250), Over::nothing);
}

TEST(BytePot, all_together_are_bounded_too) {
  const auto pot = std::make_shared<BytePot>(1'000);
  BytePot::Hold holds[5];
  for (int i = 0; i < 5; ++i)
    holds[i] = BytePot::Hold(pot, {"address " + std::to_string(i)});
  for (int i = 0; i < 4; ++i)
    ASSERT_EQ(holds[i].take(250), Over::nothing);

  EXPECT_EQ(holds[4].take(1), Over::all);
  holds[0].give_back();
  EXPECT_EQ(holds[4].take(1), Over::nothing);
}

}  // namespace
}  // namespace lanemq::http
