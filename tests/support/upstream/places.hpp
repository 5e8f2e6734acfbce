// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>

#include "tests/support/upstream/counter.hpp"

namespace lanemq::upstream {

/// A limit of the calls under way at once.
class Places {
 public:
  explicit Places(std::uint64_t most) : most_(most) {}

  bool free(TimePoint now);
  /// Requires: free(now). Until give_back().
  void take() { ++held_; }
  /// Requires: free(now). Until `end`, which must not be before that of an earlier call.
  void take_until(TimePoint end) { ends_.push_back(end); }
  /// Requires: a take() that was not given back.
  void give_back() { --held_; }
  /// Calls that are under way stay, even if they are more than that.
  void set_most(std::uint64_t most) { most_ = most; }

  std::uint64_t most() const { return most_; }
  std::uint64_t used() const { return held_ + ends_.size(); }

 private:
  std::uint64_t most_;
  std::uint64_t held_ = 0;
  std::deque<TimePoint>
      ends_;  // Of calls that end by themselves, earliest first; at most `most_` at its largest.
};

}  // namespace lanemq::upstream
