// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "broker/core/base/time.hpp"

namespace lanemq::core {

/// A token bucket in integers (after Turner, 1986): whole tokens, and the fraction of the next one, so that
/// nothing is lost by rounding. It refills continuously and lazily, holds at most `capacity`, and its level
/// may go below zero (debt).
///
/// No amount overflows it: a level stays within kLevelMax on both sides.
class TokenBucket {
 public:
  /// Above any capacity and any debt; the sum of two of them does not overflow.
  static constexpr std::int64_t kLevelMax = std::int64_t{1} << 60;

  /// Refills at `rate` tokens per `period` and starts full. Requires: 0 < capacity <= kLevelMax, 0 < rate <=
  /// 10^15, 1 ms <= period <= 1 day.
  TokenBucket(std::int64_t rate, Duration period, std::int64_t capacity);

  /// Brings the level up to `now`. An earlier `now` changes nothing.
  void refill(TimePoint now);
  /// Sets another refill rate. Call refill() first. 0 stops the refill.
  void set_rate(std::int64_t rate) { rate_ = rate; }
  std::int64_t rate() const { return rate_; }
  /// Sets another capacity, above 0. Call refill() first.
  void set_capacity(std::int64_t capacity) {
    capacity_ = capacity;
    lower_to(capacity);
  }
  /// Lowers the level to at most `tokens`. Call refill() first.
  void lower_to(std::int64_t tokens) {
    if (level_ >= tokens) set_whole(tokens);
  }
  /// Limits the debt. Requires: tokens <= 0.
  void raise_to(std::int64_t tokens) {
    if (level_ < tokens) set_whole(tokens);
  }

  /// Whole tokens in the bucket; negative when in debt.
  std::int64_t level() const { return level_; }
  std::int64_t capacity() const { return capacity_; }
  /// Whole tokens that it could still take in.
  std::int64_t room() const { return capacity_ - level_ - (part_ > 0 ? 1 : 0); }
  /// Requires: tokens >= 0; likewise for give().
  void take(std::int64_t tokens) { level_ = std::max(level_ - std::min(tokens, kLevelMax), -kLevelMax); }
  /// Puts tokens back, up to the capacity.
  void give(std::int64_t tokens);
  TimePoint refilled_at() const { return refilled_at_; }
  /// How long the present rate took for the fraction of the next token.
  Duration part_time() const { return Duration(rate_ > 0 ? part_ / rate_ : 0); }
  /// Sets the level that the bucket had, or would have had, at that time.
  void set_level(std::int64_t tokens, TimePoint at);
  /// When the level reaches `tokens` at the present rate; kNever at rate 0. Requires: refilled at `now`.
  TimePoint when_level(std::int64_t tokens, TimePoint now) const;

 private:
  void set_whole(std::int64_t tokens);

  std::int64_t rate_;  // tokens per period
  Duration period_;
  std::int64_t capacity_;
  std::int64_t level_;
  std::int64_t part_ = 0;  // the fraction of the next token, x period in us; 0 when full
  TimePoint refilled_at_{};
};

}  // namespace lanemq::core
