// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/sliding_window.hpp"

#include <cassert>

namespace lanemq::upstream {

SlidingWindow::SlidingWindow(std::uint64_t limit, Duration period) : limit_(limit), period_(period) {
  assert(limit > 0 && limit <= kTokensMax && period > Duration::zero());
}

std::optional<Duration> SlidingWindow::wait(std::uint64_t amount, TimePoint now) {
  if (amount > limit_) return std::nullopt;
  forget_old(now);
  std::uint64_t used = used_;
  auto oldest = taken_.begin();
  auto wait = Duration::zero();
  while (used + amount > limit_) {
    used -= oldest->amount;
    wait = oldest->at + period_ - now;
    ++oldest;
  }
  return wait;
}

void SlidingWindow::take(std::uint64_t amount, TimePoint now) {
  forget_old(now);
  assert(amount > 0 && used_ + amount <= limit_);
  taken_.push_back({now, amount});
  used_ += amount;
}

std::uint64_t SlidingWindow::remaining(TimePoint now) {
  forget_old(now);
  return limit_ > used_ ? limit_ - used_ : 0;
}

Duration SlidingWindow::reset(TimePoint now) {
  forget_old(now);
  return taken_.empty() ? Duration::zero() : taken_.back().at + period_ - now;
}

void SlidingWindow::forget_old(TimePoint now) {
  while (!taken_.empty() && taken_.front().at + period_ <= now) {
    used_ -= taken_.front().amount;
    taken_.pop_front();
  }
}

}  // namespace lanemq::upstream
