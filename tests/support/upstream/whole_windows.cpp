// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/whole_windows.hpp"

#include <cassert>

namespace lanemq::upstream {

WholeWindows::WholeWindows(std::uint64_t limit, Duration period) : limit_(limit), period_(period) {
  assert(limit > 0 && limit <= kTokensMax && period > Duration::zero());
}

std::optional<Duration> WholeWindows::wait(std::uint64_t amount, TimePoint now) {
  if (amount > limit_) return std::nullopt;
  forget_old(now);
  return used_ + amount <= limit_ ? Duration::zero() : end_ - now;
}

void WholeWindows::take(std::uint64_t amount, TimePoint now) {
  forget_old(now);
  assert(amount > 0 && used_ + amount <= limit_);
  if (used_ == 0) end_ = end_of_window(now);
  used_ += amount;
}

std::uint64_t WholeWindows::remaining(TimePoint now) {
  forget_old(now);
  return limit_ > used_ ? limit_ - used_ : 0;
}

Duration WholeWindows::reset(TimePoint now) {
  forget_old(now);
  return used_ == 0 ? Duration::zero() : end_ - now;
}

void WholeWindows::forget_old(TimePoint now) {
  if (now >= end_) used_ = 0;
}

TimePoint ClockWindow::end_of_window(TimePoint now) const {
  Duration into = (now - edge_) % period();
  if (into < Duration::zero()) into += period();
  return now + period() - into;
}

}  // namespace lanemq::upstream
