// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "broker/core/time.hpp"

namespace lanemq::core {

/// A token bucket in integers (Turner, 1986; the level is scaled, so that no fraction of a token is ever
/// lost). It refills continuously and lazily, holds at most `capacity`, and its level may go below zero
/// (debt).
class TokenBucket {
 public:
  /// Refills at `rate` tokens per `period` and starts full. Requires: 0 < capacity, 0 < rate <= 10^9,
  /// 1 ms <= period <= 1 day.
  /// A capacity beyond what the scale holds is cut: to 26 million for a day.
  TokenBucket(std::int64_t rate, Duration period, std::int64_t capacity);

  /// Brings the level up to `now`. Time that goes back changes nothing.
  void refill(TimePoint now);
  /// Changes the refill rate from now on. Call refill() first. 0 stops the refill.
  void set_rate(std::int64_t rate) { rate_ = rate; }
  std::int64_t rate() const { return rate_; }
  /// Caps the level. Call refill() first.
  void lower_to(std::int64_t tokens);

  /// Whole tokens in the bucket; negative when in debt.
  std::int64_t level() const;
  std::int64_t capacity() const { return capacity_; }
  void take(std::int64_t tokens) { scaled_ -= tokens * period_.count(); }
  /// Puts tokens back, up to the capacity.
  void give(std::int64_t tokens);
  TimePoint refilled_at() const { return refilled_at_; }
  /// The level was `tokens` at that time, or would have been.
  void set_level(std::int64_t tokens, TimePoint at);
  /// When the level reaches `tokens` at the present rate; kNever at rate 0. Requires: refilled at `now`.
  TimePoint when_level(std::int64_t tokens, TimePoint now) const;

 private:
  /// Leaves room for what is given and taken.
  static constexpr std::int64_t kScaledMax = std::int64_t{1} << 61;

  std::int64_t rate_;  // tokens per period
  Duration period_;
  std::int64_t capacity_;
  std::int64_t scaled_ = 0;  // level x period in microseconds
  TimePoint refilled_at_{};
};

}  // namespace lanemq::core
