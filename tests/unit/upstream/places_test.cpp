// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/places.hpp"

#include <gtest/gtest.h>

#include "tests/unit/upstream/arrivals.hpp"

namespace lanemq::upstream {
namespace {

using namespace std::chrono_literals;

TEST(Places, are_free_again_when_they_are_given_back) {
  Places places(2);
  places.take();
  places.take();
  EXPECT_FALSE(places.free(kStart));

  places.give_back();

  EXPECT_TRUE(places.free(kStart));
  EXPECT_EQ(places.used(), 1u);
}

TEST(Places, that_end_by_themselves_are_free_at_their_end) {
  Places places(2);
  places.take();
  places.take_until(kStart + 5s);

  EXPECT_FALSE(places.free(kStart + 5s - 1ns));
  EXPECT_TRUE(places.free(kStart + 5s));
}

TEST(Places, that_become_fewer_leave_those_who_have_one) {
  Places places(3);
  places.take();
  places.take();

  places.set_most(1);

  EXPECT_FALSE(places.free(kStart));
  places.give_back();
  EXPECT_FALSE(places.free(kStart));
  places.give_back();
  EXPECT_TRUE(places.free(kStart));
}

}  // namespace
}  // namespace lanemq::upstream
