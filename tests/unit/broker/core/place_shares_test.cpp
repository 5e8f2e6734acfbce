// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/shared/place_shares.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lanemq::core {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;

/// The shares of all, in their order.
std::vector<std::int64_t> shares(std::int64_t places, std::vector<PlaceSharer> sharers) {
  share_places(places, sharers);
  std::vector<std::int64_t> shares;
  for (const PlaceSharer& sharer : sharers)
    shares.push_back(sharer.share);
  return shares;
}

PlaceSharer waits(int since_seconds, std::int64_t wants = 100, std::uint32_t clients = 1) {
  return {.wants = wants, .clients = clients, .since = TimePoint(seconds(since_seconds))};
}

PlaceSharer holds(std::int64_t held, int since_seconds, std::int64_t wants = 100) {
  return {.wants = wants, .held = held, .since = TimePoint(seconds(since_seconds))};
}

TEST(PlaceShares, are_max_min_by_weight) {
  EXPECT_THAT(shares(10, {waits(0, 2), waits(0), waits(0)}), ElementsAre(2, 4, 4));
  EXPECT_THAT(shares(12, {waits(0, 100, 3), waits(0)}), ElementsAre(9, 3));
  EXPECT_THAT(shares(10, {waits(0, 3), waits(0, 3)}), ElementsAre(3, 3)) << "nobody gets more than it wants";
  EXPECT_THAT(shares(10, {}), ElementsAre());
}

TEST(PlaceShares, what_is_left_of_whole_ones_stays_where_it_is) {
  EXPECT_THAT(shares(7, {holds(2, 0), holds(3, 0), holds(2, 0)}), ElementsAre(2, 3, 2));
}

TEST(PlaceShares, of_too_few_those_have_one_who_had_none_for_longest) {
  EXPECT_THAT(shares(2, {waits(3), waits(1), waits(2)}), ElementsAre(0, 1, 1));
  EXPECT_THAT(shares(2, {waits(3), waits(1, 1000), waits(2)}), ElementsAre(0, 1, 1))
      << "however many jobs wait";
  EXPECT_THAT(shares(2, {holds(1, 1), holds(1, 2), waits(5)}), ElementsAre(0, 1, 1))
      << "then who has held one for the shortest time";
}

TEST(PlaceShares, a_free_place_is_for_who_has_waited_longer) {
  std::vector<PlaceSharer> sharers{waits(5), waits(1), holds(1, 0), waits(9, 0)};
  share_places(3, sharers);
  std::vector<std::int64_t> before;
  for (const PlaceSharer& sharer : sharers)
    before.push_back(sharer.before);
  EXPECT_THAT(before, ElementsAre(1, 0, 2, 2)) << "who wants none keeps nobody waiting";
}

}  // namespace
}  // namespace lanemq::core
