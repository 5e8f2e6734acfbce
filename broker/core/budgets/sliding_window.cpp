// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/sliding_window.hpp"

#include <algorithm>

#include "broker/core/base/check.hpp"

namespace lanemq::core {
namespace {

/// A hundredth of the period: 0.6 s of a minute. Costs 1 % of the limit, and is enough for a busy machine.
constexpr std::int64_t kSlackSlices = SlidingWindow::kSlices / 100;

}  // namespace

SlidingWindow::SlidingWindow(std::int64_t limit, Duration period, std::int64_t scale)
    : limit_(limit),
      scale_(scale),
      slice_length_(period / kSlices),
      kept_(kSlices + 1 + kSlackSlices),
      counts_(static_cast<std::size_t>(kept_)),
      pace_(limit * scale) {
  LANEMQ_CHECK(limit > 0 && slice_length_.count() > 0);
}

void SlidingWindow::advance(TimePoint now) {
  const std::int64_t slice = now.time_since_epoch() / slice_length_;
  if (slice <= slice_) return;
  const std::int64_t steps = std::min(slice - slice_, kept_);
  for (std::int64_t i = 1; i <= steps; ++i) {
    std::int64_t& oldest = count_of(slice - steps + i);
    sent_ -= oldest;
    oldest = 0;
  }
  slice_ = slice;
  find_pace();
}

void SlidingWindow::record(std::int64_t amount, TimePoint now) {
  advance(now);
  count_of(slice_) += amount;
  sent_ += amount;
}

void SlidingWindow::record_late(std::int64_t amount, TimePoint recorded_at) {
  const std::int64_t slice = recorded_at.time_since_epoch() / slice_length_;
  if (slice <= slice_ - kept_) return;
  count_of(slice) += amount;
  sent_ += amount;
}

void SlidingWindow::unrecord(std::int64_t amount, TimePoint recorded_at) {
  const std::int64_t slice = recorded_at.time_since_epoch() / slice_length_;
  if (slice <= slice_ - kept_) return;
  std::int64_t& count = count_of(slice);
  const std::int64_t taken = std::min(amount, count);
  count -= taken;
  sent_ -= taken;
}

void SlidingWindow::set_limit(std::int64_t limit) {
  LANEMQ_CHECK(limit > 0);
  limit_ = limit;
  find_pace();
}

void SlidingWindow::find_pace() {
  // For each horizon h the room is today's headroom plus what leaves within h; the lowest rate wins. Room is
  // at most the limit, so that nothing exceeds 10^12 * kSlices. This runs once a slice, and divides only for
  // horizons that lower the pace, which are few.
  std::int64_t room = headroom();
  pace_ = limit_ * scale_;
  const std::size_t slices = counts_.size();
  std::size_t leaving = static_cast<std::size_t>(slice_ + 1) % slices;
  for (std::int64_t step = 1; step <= kept_; ++step) {
    const std::int64_t amount =
        (std::max<std::int64_t>(room, 0) + 1) * scale_ * static_cast<std::int64_t>(kSlices);
    if (amount < pace_ * step) pace_ = std::max<std::int64_t>(amount / step, 1);
    // The slice that leaves at the end of step `step`: during the step it still counts.
    room += counts_[leaving];
    leaving = leaving + 1 == slices ? 0 : leaving + 1;
  }
}

}  // namespace lanemq::core
