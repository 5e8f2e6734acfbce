// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/limits/fair_bound.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace lanemq::gateway {
namespace {

TEST(MayTakeOneOf, leaves_room_for_who_comes_next) {
  std::size_t alone = 0;
  while (may_take_one_of(1'000, alone, alone, 4))
    ++alone;
  EXPECT_EQ(alone, 800u);
  std::size_t next = 0;
  while (may_take_one_of(1'000, alone + next, next, 4))
    ++next;
  EXPECT_EQ(next, 160u);
}

TEST(KeptByOwner, the_oldest_of_who_has_most_makes_room) {
  KeptByOwner<std::string> kept;
  for (const char* thing : {"a1", "a2", "a3"})
    kept.push("alice", thing);
  kept.push("bob", "b1", 2);
  EXPECT_EQ(kept.size(), 4u);
  EXPECT_EQ(kept.weight(), 5u);

  EXPECT_EQ(kept.take_of_most(), "a1");
  kept.push("bob", "b2", 1);
  EXPECT_EQ(kept.take_of_most(), "b1");
  EXPECT_EQ(kept.take_of_most(), "a2");
  EXPECT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept.weight(), 2u);
}

TEST(KeptByOwner, what_is_old_goes_of_one_or_of_each) {
  KeptByOwner<int> kept;
  for (const int thing : {1, 2, 9, 3})
    for (const char* owner : {"alice", "bob", "carol"})
      kept.push(owner, thing);
  std::vector<int> gone;
  const auto old = [](int thing) { return thing < 5; };
  const auto tell = [&](int thing) { gone.push_back(thing); };

  kept.take_while("bob", old, tell);
  kept.take_while("nobody", old, tell);
  EXPECT_EQ(gone, (std::vector<int>{1, 2}));
  kept.take_while(old, tell);
  EXPECT_EQ(gone, (std::vector<int>{1, 2, 1, 2, 1, 2}));
  EXPECT_EQ(kept.size(), 6u);
  kept.take_while([](int) { return true; }, tell);
  EXPECT_EQ(kept.size(), 0u);
  EXPECT_EQ(kept.weight(), 0u);
}

}  // namespace
}  // namespace lanemq::gateway
