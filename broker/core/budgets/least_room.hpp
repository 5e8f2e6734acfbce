// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "broker/core/base/time.hpp"

namespace lanemq::core {

/// Lower bound on how much of a bucket was empty since a moment. Refill into a full bucket is lost, and an
/// earlier debit is forgotten by that much: no more than this lower bound can be given back.
///
/// A list of falling levels (a monotonic stack), which bounds how exact it is: it tells less than there was,
/// by at most a 64th of the capacity, in a debt by an eighth. Not thread-safe.
class LeastRoom {
 public:
  static constexpr std::int64_t kSteps = 64, kStepInDebt = 8;

  /// So much of the bucket is empty now, before something is taken from it. Requires: room >= 0, and no
  /// earlier `now` than before.
  void note(std::int64_t room, std::int64_t capacity, TimePoint now) {
    while (!least_.empty() && least_.back().room >= room)
      least_.pop_back();
    const std::int64_t step = room > capacity ? room / kStepInDebt : capacity / kSteps;
    if (!least_.empty() && room - least_.back().room < step)
      least_.back().at = now;
    else
      least_.push_back({now, room});
  }
  /// A debit of then was smaller by `amount`: returns how much of that can be given back now. There was so
  /// much less room since.
  std::int64_t give(std::int64_t amount, TimePoint then) {
    const auto first = std::upper_bound(least_.begin(), least_.end(), then,
                                        [](TimePoint time, const Noted& noted) { return time < noted.at; });
    if (first == least_.end()) return amount;
    const std::int64_t given = std::min(amount, first->room);
    for (auto noted = first; noted != least_.end(); ++noted)
      noted->room -= given;
    auto before = first;
    while (before != least_.begin() && std::prev(before)->room >= first->room)
      --before;
    least_.erase(before, first);
    return given;
  }

 private:
  struct Noted {
    TimePoint at;
    std::int64_t room;
  };
  std::vector<Noted> least_;  // later ones have more room
};

}  // namespace lanemq::core
