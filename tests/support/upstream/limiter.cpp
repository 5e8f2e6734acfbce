// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/limiter.hpp"

#include <algorithm>
#include <cassert>

namespace lanemq::upstream {
namespace {

constexpr std::uint64_t kUnitsEach = kWindow.count();

std::unique_ptr<Counter> make_counter(WindowKind kind, std::uint64_t limit, std::uint64_t capacity) {
  if (limit == 0) return nullptr;
  if (kind == WindowKind::sliding) return std::make_unique<SlidingWindow>(limit);
  return std::make_unique<Bucket>(limit, capacity);
}

Verdict judge(Counter* counter, Dimension dimension, std::uint64_t amount, TimePoint now) {
  if (!counter) return {};
  const auto wait = counter->wait(amount, now);
  const std::uint64_t limit = wait ? counter->limit() : counter->ceiling();
  const std::uint64_t remaining = counter->remaining(now);
  return {.accepted = wait == Duration::zero(),
          .dimension = dimension,
          .wait = wait,
          .limit = limit,
          .used = limit > remaining ? limit - remaining : 0,
          .requested = amount};
}

bool waits_longer(const Verdict& a, const Verdict& b) {
  return a.wait.value_or(Duration::max()) > b.wait.value_or(Duration::max());
}

}  // namespace

SlidingWindow::SlidingWindow(std::uint64_t limit) : limit_(limit) {
  assert(limit > 0 && limit <= kTokensPerMinuteMax);
}

std::optional<Duration> SlidingWindow::wait(std::uint64_t amount, TimePoint now) {
  if (amount > limit_) return std::nullopt;
  forget_old(now);
  std::uint64_t used = used_;
  auto oldest = taken_.begin();
  auto wait = Duration::zero();
  while (used + amount > limit_) {
    used -= oldest->amount;
    wait = oldest->at + kWindow - now;
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
  return limit_ - used_;
}

Duration SlidingWindow::reset(TimePoint now) {
  forget_old(now);
  return taken_.empty() ? Duration::zero() : taken_.back().at + kWindow - now;
}

void SlidingWindow::forget_old(TimePoint now) {
  while (!taken_.empty() && taken_.front().at + kWindow <= now) {
    used_ -= taken_.front().amount;
    taken_.pop_front();
  }
}

Bucket::Bucket(std::uint64_t limit, std::uint64_t capacity) : limit_(limit), capacity_(capacity) {
  assert(limit > 0 && limit <= kTokensPerMinuteMax && capacity > 0 && capacity <= kTokensPerMinuteMax);
}

std::optional<Duration> Bucket::wait(std::uint64_t amount, TimePoint now) {
  if (amount > capacity_) return std::nullopt;
  refill(now);
  const std::uint64_t debt_allowed = (capacity_ - amount) * kUnitsEach;
  return debt_ <= debt_allowed ? Duration::zero() : time_to_repay(debt_ - debt_allowed);
}

void Bucket::take(std::uint64_t amount, TimePoint now) {
  refill(now);
  debt_ += amount * kUnitsEach;
  assert(amount > 0 && debt_ <= capacity_ * kUnitsEach);
}

std::uint64_t Bucket::remaining(TimePoint now) {
  refill(now);
  return (capacity_ * kUnitsEach - debt_) / kUnitsEach;
}

Duration Bucket::reset(TimePoint now) {
  refill(now);
  return time_to_repay(debt_);
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

Limiter::Limiter(const Quota& quota)
    : requests_(make_counter(quota.window, quota.requests_per_minute,
                             quota.burst_requests
                                 ? quota.burst_requests
                                 : std::max<std::uint64_t>(1, quota.requests_per_minute / 10))),
      tokens_(make_counter(quota.window, quota.tokens_per_minute,
                           quota.burst_tokens ? quota.burst_tokens : quota.tokens_per_minute)) {}

Verdict Limiter::admit(std::uint64_t tokens, TimePoint now) {
  const Verdict by_requests = judge(requests_.get(), Dimension::requests, 1, now);
  const Verdict by_tokens = judge(tokens_.get(), Dimension::tokens, tokens, now);
  const Verdict& verdict = waits_longer(by_tokens, by_requests) ? by_tokens : by_requests;
  if (!verdict.accepted) return verdict;
  if (requests_) requests_->take(1, now);
  if (tokens_) tokens_->take(tokens, now);
  return verdict;
}

std::optional<Gauge> Limiter::gauge(Dimension dimension, TimePoint now) const {
  Counter* const counter = dimension == Dimension::requests ? requests_.get() : tokens_.get();
  if (!counter) return std::nullopt;
  return Gauge{.limit = counter->limit(), .remaining = counter->remaining(now), .reset = counter->reset(now)};
}

}  // namespace lanemq::upstream
