// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>

#include "tests/support/upstream/counter.hpp"

namespace lanemq::upstream {

/// Counts in a true sliding window: no span of the period, [t, t + period), wherever it begins, holds more
/// than `limit`. A call leaves it exactly a period after its arrival. Exact, for it remembers each arrival;
/// at most `limit` of them.
class SlidingWindow final : public Counter {
 public:
  /// Requires: 0 < limit <= kTokensMax, 0 < period.
  explicit SlidingWindow(std::uint64_t limit, Duration period = kPeriodDefault);

  std::optional<Duration> wait(std::uint64_t amount, TimePoint now) override;
  void take(std::uint64_t amount, TimePoint now) override;
  std::uint64_t remaining(TimePoint now) override;
  Duration reset(TimePoint now) override;
  std::uint64_t ceiling() const override { return limit_; }
  std::uint64_t limit() const override { return limit_; }
  void set(const Allowance& allowance, TimePoint) override { limit_ = allowance.limit; }

 private:
  struct Taken {
    TimePoint at;
    std::uint64_t amount;
  };

  void forget_old(TimePoint now);

  std::uint64_t limit_;
  Duration period_;
  std::uint64_t used_ = 0;   // More than the limit where that has fallen.
  std::deque<Taken> taken_;  // Oldest first; all of it within the last period.
};

}  // namespace lanemq::upstream
