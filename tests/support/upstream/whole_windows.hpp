// SPDX-License-Identifier: Apache-2.0
// Windows that follow one another and forget all at once.
#pragma once

#include "tests/support/upstream/counter.hpp"

namespace lanemq::upstream {

/// What windows without overlap have in common: how much is used of the one that runs, and when it ends.
class WholeWindows : public Counter {
 public:
  std::optional<Duration> wait(std::uint64_t amount, TimePoint now) final;
  void take(std::uint64_t amount, TimePoint now) final;
  std::uint64_t remaining(TimePoint now) final;
  /// Until the window ends; zero where none runs, or nothing of it is used.
  Duration reset(TimePoint now) final;
  std::uint64_t ceiling() const final { return limit_; }
  std::uint64_t limit() const final { return limit_; }
  void set(const Allowance& allowance, TimePoint) final { limit_ = allowance.limit; }

 protected:
  /// Requires: 0 < limit <= kTokensMax, 0 < period.
  WholeWindows(std::uint64_t limit, Duration period);
  Duration period() const { return period_; }
  /// When the window ends that a call at `now` opens.
  virtual TimePoint end_of_window(TimePoint now) const = 0;

 private:
  void forget_old(TimePoint now);

  std::uint64_t limit_;
  Duration period_;
  std::uint64_t used_ = 0;  // More than the limit where that has fallen.
  TimePoint end_{};         // Of the window in which `used_` was taken.
};

/// A window begins with the first call behind the end of the one before, and lasts a period.
class FixedWindow final : public WholeWindows {
 public:
  explicit FixedWindow(std::uint64_t limit, Duration period = kPeriodDefault) : WholeWindows(limit, period) {}

 private:
  TimePoint end_of_window(TimePoint now) const override { return now + period(); }
};

/// Windows are the whole periods of a clock, of which one begins at `edge`.
class ClockWindow final : public WholeWindows {
 public:
  ClockWindow(std::uint64_t limit, Duration period, TimePoint edge)
      : WholeWindows(limit, period), edge_(edge) {}

 private:
  TimePoint end_of_window(TimePoint now) const override;

  TimePoint edge_;
};

}  // namespace lanemq::upstream
