// SPDX-License-Identifier: Apache-2.0
#include "broker/io/loop/loop_clock.hpp"

namespace lanemq::io {
namespace {

/// A loop that returns so much later than expected was stopped, or starved.
constexpr auto kStandstill = std::chrono::milliseconds(500);
/// After a standstill the loop reads all that came meanwhile before timers fire. It reads at least this long,
/// since the sockets' threads stood still as well, and at most that long, since a peer may send without end.
constexpr auto kCatchUpMin = std::chrono::milliseconds(50);
constexpr auto kCatchUpMax = std::chrono::milliseconds(1000);

}  // namespace

std::optional<core::Duration> LoopClock::move_on(core::Duration expected) {
  const core::TimePoint before = now_;
  now_ = read();
  const core::Duration passed = now_ - before;
  if (passed < kStandstill || passed - kStandstill < expected) return std::nullopt;
  if (!stood_still_at_) stood_still_at_ = now_;  // slow turns one after the other are one standstill
  return passed;
}

bool LoopClock::catches_up(std::size_t read) {
  if (!stood_still_at_) return false;
  const core::Duration since = now_ - *stood_still_at_;
  const bool over = since >= kCatchUpMax || (read == 0 && since >= kCatchUpMin);
  if (over) stood_still_at_.reset();
  return !over;
}

}  // namespace lanemq::io
