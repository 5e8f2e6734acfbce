// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "broker/core/base/time.hpp"

namespace lanemq::core {

/// A token bucket in integers (after Turner, 1986): whole tokens, and the part of one that has come in since,
/// so that no fraction is ever lost. It refills continuously and lazily, holds at most `capacity`, and its
/// level may go below zero (debt).
///
/// No amount overflows it: a level stays within kLevelMax on both sides.
class TokenBucket {
 public:
  /// Above any capacity, and any debt that counts; sums of two of them fit.
  static constexpr std::int64_t kLevelMax = std::int64_t{1} << 60;

  /// Refills at `rate` tokens per `period` and starts full. Requires: 0 < capacity <= kLevelMax, 0 < rate <=
  /// 10^15, 1 ms <= period <= 1 day.
  TokenBucket(std::int64_t rate, Duration period, std::int64_t capacity);

  /// Brings the level up to `now`. Time that goes back changes nothing.
  void refill(TimePoint now);
  /// Changes the refill rate from now on. Call refill() first. 0 stops the refill.
  void set_rate(std::int64_t rate) { rate_ = rate; }
  std::int64_t rate() const { return rate_; }
  /// Caps the level. Call refill() first.
  void lower_to(std::int64_t tokens);
  /// A debt is at most so much. Requires: tokens <= 0.
  void raise_to(std::int64_t tokens);

  /// Whole tokens in the bucket; negative when in debt.
  std::int64_t level() const { return level_; }
  std::int64_t capacity() const { return capacity_; }
  /// Requires: tokens >= 0, as of give().
  void take(std::int64_t tokens) { level_ = std::max(level_ - std::min(tokens, kLevelMax), -kLevelMax); }
  /// Puts tokens back, up to the capacity.
  void give(std::int64_t tokens);
  TimePoint refilled_at() const { return refilled_at_; }
  /// The level was `tokens` at that time, or would have been.
  void set_level(std::int64_t tokens, TimePoint at);
  /// When the level reaches `tokens` at the present rate; kNever at rate 0. Requires: refilled at `now`.
  TimePoint when_level(std::int64_t tokens, TimePoint now) const;

 private:
  void set_whole(std::int64_t tokens);

  std::int64_t rate_;  // tokens per period
  Duration period_;
  std::int64_t capacity_;
  std::int64_t level_;
  std::int64_t part_ = 0;  // of one more token: x period in microseconds; 0 when full
  TimePoint refilled_at_{};
};

}  // namespace lanemq::core
