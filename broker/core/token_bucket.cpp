// SPDX-License-Identifier: Apache-2.0
#include "broker/core/token_bucket.hpp"

#include <algorithm>

#include "broker/core/check.hpp"

namespace lanemq::core {

TokenBucket::TokenBucket(std::int64_t rate, Duration period, std::int64_t capacity)
    : rate_(rate), period_(period), capacity_(capacity) {
  LANEMQ_CHECK(rate > 0 && capacity > 0 && period.count() > 0);
  capacity_ = std::min(capacity, kScaledMax / period.count());
  scaled_ = capacity_ * period.count();
}

void TokenBucket::refill(TimePoint now) {
  if (now <= refilled_at_) return;
  // More than a period's worth is never needed: the capacity is at most what a period brings.
  const Duration elapsed = std::min(now - refilled_at_, std::max(period_, Duration(std::chrono::hours(24))));
  refilled_at_ = now;
  const std::int64_t full = capacity_ * period_.count();
  if (scaled_ >= full) return;
  scaled_ = static_cast<std::int64_t>(
      std::min<Int128>(static_cast<Int128>(scaled_) + static_cast<Int128>(elapsed.count()) * rate_, full));
}

void TokenBucket::lower_to(std::int64_t tokens) {
  if (tokens < capacity_) scaled_ = std::min(scaled_, tokens * period_.count());
}

std::int64_t TokenBucket::level() const {
  const std::int64_t period = period_.count();
  return scaled_ >= 0 ? scaled_ / period : -((-scaled_ + period - 1) / period);
}

void TokenBucket::give(std::int64_t tokens) {
  scaled_ = std::min(scaled_ + tokens * period_.count(), capacity_ * period_.count());
}

TimePoint TokenBucket::when_level(std::int64_t tokens, TimePoint now) const {
  const Int128 missing = static_cast<Int128>(tokens) * period_.count() - scaled_;
  if (missing <= 0) return now;
  if (rate_ <= 0) return kNever;
  return now + Duration(static_cast<std::int64_t>((missing + rate_ - 1) / rate_));
}

}  // namespace lanemq::core
