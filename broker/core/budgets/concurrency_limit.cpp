// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/concurrency_limit.hpp"

namespace lanemq::core {
namespace {

/// The wait after a refused try: kTryFirst, doubled at each further refusal, at most kTryMost.
constexpr Duration kTryFirst = std::chrono::seconds(1), kTryMost = std::chrono::minutes(1);
/// A try adds at most 1/kStepPart of the places that are taken.
constexpr std::int64_t kStepPart = 8;
/// Refusals within this time are of one row. Where nothing was learnt before a row, it was about the pace
/// once the limit has fallen to this part of where the row began.
constexpr Duration kRow = std::chrono::seconds(10);
constexpr std::int64_t kFewPart = 16;
/// For so long refusals are taken to be about the pace, once that has shown.
constexpr Duration kPaceKnown = std::chrono::minutes(5);

}  // namespace

bool ConcurrencyLimit::lift() {
  pace_until_ = {};
  if (limit_ == configured_) return false;
  limit_ = configured_;
  successes_ = 0;
  learns_ = stated_ = false;
  return true;
}

void ConcurrencyLimit::lower(std::int64_t limit, TimePoint now) {
  if (configured_ > 0) limit = std::min(limit, configured_);
  limit_ = taken_ = std::max<std::int64_t>(limit, 1);
  learns_ = true;
  tried_at_ = kNever;
  step_ = 1;
  stated_ = false;
  cut_at_ = now;
}

void ConcurrencyLimit::learn(std::int64_t limit, TimePoint now) {
  lower(limit, now);
  stated_ = true;
  tries_after_ = kTryMost;
  next_try_ = now + kTryMost;
}

void ConcurrencyLimit::try_more(TimePoint called_at, TimePoint now) {
  if (tried_at_ != kNever) {
    if (called_at < tried_at_ || running_ < taken_) return;
    taken_ = limit_;
    tried_at_ = kNever;
    tries_after_ = {};
    step_ = std::min(2 * step_, std::max<std::int64_t>(taken_ / kStepPart, 1));
  }
  // Where there is room, more cannot be tried.
  if (now < next_try_ || running_ + 1 < limit_) return;
  limit_ = configured_ > 0 ? std::min(taken_ + step_, configured_) : taken_ + step_;
  tried_at_ = now;
  if (limit_ == configured_) learns_ = false;
}

ConcurrencyLimit::Shown ConcurrencyLimit::refused(TimePoint called_at, TimePoint now, bool places) {
  if (!places && now < pace_until_) return Shown::pace;
  if (learns_ && called_at < cut_at_) {
    // Each refused call that was under way at the last refusal shows that one fewer is taken.
    limit_ = taken_ = std::max<std::int64_t>({running_, limit_ - 1, 1});
    return Shown::places;
  }
  if (learns_ && tried_at_ != kNever && called_at >= tried_at_) {
    lower(taken_, now);
    tries_after_ = std::clamp(2 * tries_after_, kTryFirst, kTryMost);
    next_try_ = now + tries_after_;
    return Shown::places;
  }
  if (!learns_ || now - cut_at_ > kRow) first_ = learns_ ? 0 : running_ + 1;
  const std::int64_t limit = learns_ ? std::min(limit_ * 7 / 10, running_) : running_;
  if (!places && (running_ == 0 || limit * kFewPart <= first_)) {
    lift();
    pace_until_ = now + kPaceKnown;
    return Shown::pace;
  }
  lower(limit, now);
  tries_after_ = kTryFirst;
  next_try_ = now + kTryFirst;
  return Shown::places;
}

}  // namespace lanemq::core
