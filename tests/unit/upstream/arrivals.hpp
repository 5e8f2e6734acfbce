// SPDX-License-Identifier: Apache-2.0
// Random arrivals, and what each kind of window promises.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <rapidcheck.h>

#include "tests/support/upstream/counter.hpp"

namespace lanemq::upstream {

inline constexpr TimePoint kStart = TimePoint() + std::chrono::hours(1);
/// The periods that the kinds of windows are looked at with.
inline constexpr Duration kPeriods[] = {std::chrono::seconds(1), std::chrono::seconds(10),
                                        std::chrono::seconds(60)};

struct Arrival {
  TimePoint at;
  std::uint64_t amount;
};

/// Arrivals in bursts and with pauses up to more than a period, sometimes exactly one period apart.
inline std::vector<Arrival> draw_arrivals(std::uint64_t amount_max, Duration period) {
  const std::int64_t whole = period.count();
  const auto gap =
      rc::gen::weightedOneOf<std::int64_t>({{4, rc::gen::just<std::int64_t>(0)},
                                            {4, rc::gen::inRange<std::int64_t>(0, whole / 30)},
                                            {4, rc::gen::inRange<std::int64_t>(0, whole / 3)},
                                            {2, rc::gen::just(whole)},
                                            {1, rc::gen::inRange<std::int64_t>(0, whole / 2 * 3)}});
  const auto draws = *rc::gen::container<std::vector<std::pair<std::int64_t, std::uint64_t>>>(
      rc::gen::pair(gap, rc::gen::inRange<std::uint64_t>(1, amount_max + 1)));
  std::vector<Arrival> arrivals;
  TimePoint now = kStart;
  for (const auto& [pause, amount] : draws) {
    now += Duration(pause);
    arrivals.push_back({now, amount});
  }
  return arrivals;
}

/// What a refusal promises: the amount fits when the wait is over, and not a nanosecond earlier.
template <typename AnyCounter>
void expect_exact_wait(const AnyCounter& counter, std::uint64_t amount, TimePoint now) {
  AnyCounter early = counter;
  AnyCounter late = counter;
  const auto wait = AnyCounter(counter).wait(amount, now);
  RC_ASSERT(wait.has_value());
  RC_ASSERT(*wait > Duration::zero());
  RC_ASSERT(*early.wait(amount, now + *wait - Duration(1)) == Duration(1));
  RC_ASSERT(*late.wait(amount, now + *wait) == Duration::zero());
}

}  // namespace lanemq::upstream
