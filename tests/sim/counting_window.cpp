// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/counting_window.hpp"

namespace lanemq::sim {
namespace {

using core::Duration;
using core::TimePoint;

/// More than any limit: what is over it is over it by so much.
constexpr std::int64_t kAmountMax = std::int64_t{1} << 40;

std::int64_t sum_since(const std::vector<Counted>& amounts, TimePoint after, TimePoint now) {
  std::int64_t sum = 0;
  // From the youngest on, since the list is long and the window short.
  for (auto one = amounts.rbegin(); one != amounts.rend() && one->at > after; ++one)
    if (one->at <= now) sum += std::min(one->amount, kAmountMax);
  return sum;
}

}  // namespace

std::int64_t CountingWindow::used(const std::vector<Counted>& amounts, TimePoint now) const {
  if (kind == Kind::sliding) return sum_since(amounts, now - period, now);
  if (kind == Kind::fixed) {
    const Duration since = (now.time_since_epoch() + offset) % period;
    return sum_since(amounts, now - since - Duration(1), now);
  }
  // In exact arithmetic: an amount times the period.
  core::Int128 missing = 0;
  TimePoint last{};
  const auto fill = [&](TimePoint until) {
    missing = std::max<core::Int128>(missing - static_cast<core::Int128>((until - last).count()) * limit, 0);
    last = until;
  };
  for (const Counted& one : amounts) {
    if (one.at > now) break;
    fill(one.at);
    missing += static_cast<core::Int128>(std::min(one.amount, kAmountMax)) * period.count();
  }
  fill(now);
  return static_cast<std::int64_t>((missing + period.count() - 1) / period.count());
}

TimePoint CountingWindow::fits_at(const std::vector<Counted>& amounts, std::int64_t amount,
                                  TimePoint now) const {
  if (amount > most()) return core::kNever;
  // Looked for in steps, by asking.
  TimePoint least = now, most_late = now + 2 * period;
  if (used(amounts, now) + amount <= most()) return now;
  while (most_late - least > std::chrono::milliseconds(1)) {
    const TimePoint middle = least + (most_late - least) / 2;
    (used(amounts, middle) + amount <= most() ? most_late : least) = middle;
  }
  return most_late;
}

Duration CountingWindow::reset(const std::vector<Counted>& amounts, TimePoint now) const {
  if (kind == Kind::fixed) return period - (now.time_since_epoch() + offset) % period;
  if (kind == Kind::sliding)
    return amounts.empty() ? Duration(0) : std::max(amounts.back().at + period - now, Duration(0));
  return Duration(
      static_cast<std::int64_t>(static_cast<core::Int128>(used(amounts, now)) * period.count() / limit));
}

std::string CountingWindow::describe() const {
  std::string text = kind == Kind::sliding ? "sliding" : kind == Kind::fixed ? "fixed" : "bucket";
  text += " " + std::to_string(limit) + " in " + std::to_string(period.count() / 1000) + "ms";
  if (kind == Kind::bucket) text += " burst " + std::to_string(burst);
  return text;
}

}  // namespace lanemq::sim
