// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/peak.hpp"

#include <algorithm>

namespace lanemq::upstream {

void PeakMeter::add(std::chrono::nanoseconds at, std::uint64_t tokens) {
  constexpr std::chrono::seconds kMinute(60);
  // The fullest minute ends with an arrival, so it is enough to look back from each.
  while (!last_minute_.empty() &&
         (at - last_minute_.front().at >= kMinute || last_minute_.size() == kArrivalsMax)) {
    tokens_last_minute_ -= last_minute_.front().tokens;
    last_minute_.pop_front();
  }
  last_minute_.push_back({at, tokens});
  tokens_last_minute_ += tokens;
  calls_peak_ = std::max<std::uint64_t>(calls_peak_, last_minute_.size());
  tokens_peak_ = std::max(tokens_peak_, tokens_last_minute_);
}

}  // namespace lanemq::upstream
