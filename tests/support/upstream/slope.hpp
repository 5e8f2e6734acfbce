// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "tests/support/upstream/counter.hpp"

namespace lanemq::upstream {

inline constexpr double kSlopeFactorMax = 1000;
inline constexpr std::uint64_t kSlopeFloorDefault = 10;

/// A limit of how fast the pace may rise: the calls of any second, [t, t + 1 s), are at most `floor`, or
/// `factor` times those of the second before it if that is more. Refused calls do not count.
///
/// So a service refuses that is overrun faster than it can grow, below its limits a minute.
class Slope {
 public:
  /// Requires: 1 <= factor <= kSlopeFactorMax and 1 <= floor.
  Slope(double factor, std::uint64_t floor) : factor_(factor), floor_(floor) {}

  /// Whether one more call fits into the second that ends with `now`.
  bool fits(TimePoint now);
  /// Requires: fits(now).
  void take(TimePoint now) { last_.push_back(now); }
  /// How many calls the second that ends with `now` may have, and has.
  std::uint64_t most() const;
  std::uint64_t used() const { return last_.size(); }

  /// The most calls of one second that are remembered; more are refused.
  static constexpr std::size_t kCallsMax = kRequestsMax;

 private:
  double factor_;
  std::uint64_t floor_;
  std::deque<TimePoint> before_;  // The calls of the second before the last one, oldest first.
  std::deque<TimePoint> last_;    // Those of the last one.
};

}  // namespace lanemq::upstream
