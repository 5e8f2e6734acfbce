// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>

#include "tests/support/upstream/counter.hpp"

namespace lanemq::upstream {

/// Counts in a bucket that holds `capacity`, begins full and refills continuously by `limit` per period: any
/// span of length t takes at most capacity + limit * t / period. Exact, in whole numbers: see debt_.
///
/// Where its capacity changes, what it holds stays, as far as it has room for it.
class Bucket final : public Counter {
 public:
  /// Requires: 0 < limit, capacity <= kTokensMax and 0 < period <= kPeriodMax.
  Bucket(std::uint64_t limit, std::uint64_t capacity, Duration period = kPeriodDefault);

  std::optional<Duration> wait(std::uint64_t amount, TimePoint now) override;
  void take(std::uint64_t amount, TimePoint now) override;
  std::uint64_t remaining(TimePoint now) override;
  Duration reset(TimePoint now) override;
  std::uint64_t ceiling() const override { return capacity_; }
  std::uint64_t limit() const override { return limit_; }
  /// Requires what the constructor does.
  void set(const Allowance& allowance, TimePoint now) override;

 private:
  void refill(TimePoint now);
  Duration time_to_repay(std::uint64_t debt) const;
  std::uint64_t full() const { return capacity_ * units_each_; }

  std::uint64_t limit_;
  std::uint64_t capacity_;
  // What is missing to a full bucket. One call (or token) is as many units as a period has nanoseconds, so
  // that each nanosecond repays exactly `limit_` units and nothing is ever rounded.
  std::uint64_t units_each_;
  std::uint64_t debt_ = 0;
  TimePoint as_of_{};

  static_assert(std::uint64_t(kPeriodMax.count()) <= std::numeric_limits<std::uint64_t>::max() / kTokensMax);
};

}  // namespace lanemq::upstream
