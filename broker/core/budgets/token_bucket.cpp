// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/token_bucket.hpp"

#include <algorithm>
#include <limits>

#include "broker/core/base/check.hpp"

namespace lanemq::core {

TokenBucket::TokenBucket(std::int64_t rate, Duration period, std::int64_t capacity)
    : rate_(rate), period_(period), capacity_(capacity), level_(capacity) {
  LANEMQ_CHECK(rate > 0 && capacity > 0 && capacity <= kLevelMax && period.count() > 0);
}

void TokenBucket::refill(TimePoint now) {
  if (now <= refilled_at_) return;
  const Duration elapsed = now - refilled_at_;
  refilled_at_ = now;
  if (level_ >= capacity_) return;
  const Int128 gained = static_cast<Int128>(elapsed.count()) * rate_ + part_;
  const std::int64_t period = period_.count();
  // The product mostly fits a word, which divides much faster.
  constexpr Int128 kWord = std::numeric_limits<std::int64_t>::max();
  const bool fits = gained <= kWord;
  const Int128 whole =
      fits ? static_cast<Int128>(static_cast<std::int64_t>(gained) / period) : gained / period;
  if (whole >= static_cast<Int128>(capacity_) - level_) return set_whole(capacity_);
  level_ += static_cast<std::int64_t>(whole);
  part_ = static_cast<std::int64_t>(gained - whole * period);
}

void TokenBucket::set_whole(std::int64_t tokens) {
  level_ = std::clamp(tokens, -kLevelMax, capacity_);
  part_ = 0;
}

void TokenBucket::give(std::int64_t tokens) {
  level_ += std::min(tokens, kLevelMax);
  if (level_ >= capacity_) set_whole(capacity_);
}

TimePoint TokenBucket::when_level(std::int64_t tokens, TimePoint now) const {
  const Int128 missing = (static_cast<Int128>(tokens) - level_) * period_.count() - part_;
  if (missing <= 0) return now;
  if (rate_ <= 0) return kNever;
  const Int128 wait = (missing + rate_ - 1) / rate_;
  return wait < static_cast<Int128>((kNever - now).count()) ? now + Duration(static_cast<std::int64_t>(wait))
                                                            : kNever;
}

}  // namespace lanemq::core
