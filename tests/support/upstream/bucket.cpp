// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/bucket.hpp"

#include <algorithm>
#include <cassert>

namespace lanemq::upstream {

Bucket::Bucket(std::uint64_t limit, std::uint64_t capacity, Duration period)
    : limit_(limit), capacity_(capacity), units_each_(period.count()) {
  assert(limit > 0 && limit <= kTokensMax && capacity > 0 && capacity <= kTokensMax);
  assert(period > Duration::zero() && period <= kPeriodMax);
}

std::optional<Duration> Bucket::wait(std::uint64_t amount, TimePoint now) {
  if (amount > capacity_) return std::nullopt;
  refill(now);
  const std::uint64_t debt_allowed = (capacity_ - amount) * units_each_;
  return debt_ <= debt_allowed ? Duration::zero() : time_to_repay(debt_ - debt_allowed);
}

void Bucket::take(std::uint64_t amount, TimePoint now) {
  refill(now);
  debt_ += amount * units_each_;
  assert(amount > 0 && debt_ <= full());
}

std::uint64_t Bucket::remaining(TimePoint now) {
  refill(now);
  return (full() - debt_) / units_each_;
}

Duration Bucket::reset(TimePoint now) {
  refill(now);
  return time_to_repay(debt_);
}

void Bucket::set(const Allowance& allowance, TimePoint now) {
  refill(now);
  const std::uint64_t held = full() - debt_;
  limit_ = allowance.limit;
  capacity_ = allowance.capacity;
  debt_ = full() - std::min(held, full());
}

void Bucket::refill(TimePoint now) {
  // Compared as times first, for the product of a long pause and a high limit would not fit into 64 bits.
  const Duration elapsed = now - as_of_;
  debt_ = elapsed >= time_to_repay(debt_) ? 0 : debt_ - elapsed.count() * limit_;
  as_of_ = now;
}

Duration Bucket::time_to_repay(std::uint64_t debt) const {
  return Duration(debt / limit_ + (debt % limit_ != 0));
}

}  // namespace lanemq::upstream
