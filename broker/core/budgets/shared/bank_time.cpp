// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/shared/bank_time.hpp"

#include <algorithm>

namespace lanemq::core {

Duration BankTime::passed(const BankClock& clock, const Draw& draw) {
  const Duration by_clock = clock.now - database;
  const bool counts_on = draw.saw && draw.clock_changes == clock_changes;
  const Duration seen = draw.saw ? *draw.saw - at : Duration::max();
  const bool was_set = by_clock < Duration(0) || by_clock - kSkewMax > seen || (counts_on && by_clock < seen);
  if (clock.server == server && !was_set) return by_clock;
  ++clock_changes;
  return std::max(std::min(counts_on ? by_clock : by_clock - kSkewMax, seen), Duration(0));
}

}  // namespace lanemq::core
