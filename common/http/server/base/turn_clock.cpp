// SPDX-License-Identifier: Apache-2.0
#include "common/http/server/base/turn_clock.hpp"

#include <algorithm>

namespace lanemq::http {

void TurnClock::note(TimePoint began, TimePoint ended) {
  const std::int64_t number = ended.time_since_epoch() / kSlot;
  Slot& slot = slots_[static_cast<std::size_t>(number) % slots_.size()];
  if (slot.number != number) slot = {.number = number, .longest = {}};
  slot.longest = std::max(slot.longest, ended - began);
}

TurnClock::Duration TurnClock::longest(TimePoint now) const {
  const auto first = now.time_since_epoch() / kSlot - static_cast<std::int64_t>(slots_.size());
  Duration longest{};
  for (const Slot& slot : slots_)
    if (slot.number > first) longest = std::max(longest, slot.longest);
  return longest;
}

}  // namespace lanemq::http
