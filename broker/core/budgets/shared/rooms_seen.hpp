// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "broker/core/base/time.hpp"
#include "broker/core/budgets/shared/slice.hpp"

namespace lanemq::core {

/// How much room a budget's limits had by the bank's word, draw by draw. An upstream's `remaining` is of the
/// time at which it took a call in, and is compared with the room of then.
class RoomsSeen {
 public:
  /// Calls that lasted longer than this number of draws tell nothing.
  static constexpr std::size_t kDrawsMax = 256;

  /// A draw was asked for and answered at these times, so that it was done in between.
  void note(TimePoint asked_at, TimePoint answered_at, std::vector<LimitRooms> rooms) {
    if (rooms.empty()) return;
    if (draws_.size() == kDrawsMax) draws_.pop_front();
    draws_.push_back({asked_at, answered_at, std::move(rooms)});
  }
  /// The least rooms of the budget, and of the account if it is not kOfBudget, that the bank had soon after a
  /// call; empty: there was no draw then.
  std::vector<LimitRooms> after(TimePoint called_at, std::uint16_t account) const {
    std::vector<LimitRooms> least;
    for (const Draw& draw : draws_) {
      if (draw.asked_at < called_at || draw.answered_at > called_at + kRoomHolds) continue;
      for (const LimitRooms& one : draw.rooms)
        if (one.account == kOfBudget || one.account == account) lower(least, one);
    }
    return least;
  }
  void forget() { draws_.clear(); }

 private:
  struct Draw {
    TimePoint asked_at{}, answered_at{};
    std::vector<LimitRooms> rooms;
  };

  static void lower(std::vector<LimitRooms>& least, const LimitRooms& one) {
    const auto known = std::find_if(least.begin(), least.end(), [&](const LimitRooms& other) {
      return other.account == one.account && other.rooms.size() == one.rooms.size();
    });
    if (known == least.end()) return least.push_back(one);
    for (std::size_t i = 0; i < one.rooms.size(); ++i)
      known->rooms[i] = std::min(known->rooms[i], one.rooms[i]);
  }

  std::deque<Draw> draws_;
};

}  // namespace lanemq::core
