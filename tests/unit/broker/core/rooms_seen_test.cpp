// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/shared/rooms_seen.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lanemq::core {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr TimePoint kFirstCall{std::chrono::hours(1)};
constexpr std::uint16_t kOf = kOfBudget;

TEST(RoomsSeen, says_the_least_of_the_draws_soon_after_a_call) {
  RoomsSeen seen;
  seen.note(kFirstCall - milliseconds(1), kFirstCall + milliseconds(1), {{.account = kOf, .rooms = {1, 1}}});
  seen.note(kFirstCall, kFirstCall + milliseconds(5), {{.account = kOf, .rooms = {50, 70}}});
  seen.note(kFirstCall + milliseconds(500), kFirstCall + milliseconds(505),
            {{.account = kOf, .rooms = {60, 40}}});
  seen.note(kFirstCall + milliseconds(598), kFirstCall + milliseconds(601),
            {{.account = kOf, .rooms = {2, 2}}});

  const auto rooms = seen.after(kFirstCall, kOf);

  ASSERT_THAT(rooms, SizeIs(1));
  EXPECT_THAT(rooms[0].rooms, ElementsAre(50, 40));
}

TEST(RoomsSeen, says_those_of_the_budget_and_of_one_account) {
  RoomsSeen seen;
  seen.note(kFirstCall, kFirstCall,
            {{.account = kOf, .rooms = {5}}, {.account = 0, .rooms = {6}}, {.account = 1, .rooms = {7}}});

  const auto rooms = seen.after(kFirstCall, 1);

  ASSERT_THAT(rooms, SizeIs(2));
  EXPECT_THAT(rooms[1].rooms, ElementsAre(7));
}

TEST(RoomsSeen, keeps_the_last_draws) {
  RoomsSeen seen;
  for (std::size_t i = 0; i <= RoomsSeen::kDrawsMax; ++i) {
    const TimePoint at = kFirstCall + i * std::chrono::seconds(1);
    seen.note(at, at, {{.account = kOf, .rooms = {1}}});
  }
  EXPECT_THAT(seen.after(kFirstCall, kOf), IsEmpty());
  EXPECT_THAT(seen.after(kFirstCall + std::chrono::seconds(1), kOf), SizeIs(1));
  seen.forget();
  EXPECT_THAT(seen.after(kFirstCall + std::chrono::seconds(1), kOf), IsEmpty());
}

}  // namespace
}  // namespace lanemq::core
