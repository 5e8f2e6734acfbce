// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

#include "broker/core/base/time.hpp"
#include "broker/io/loop/boot_clock.hpp"

namespace lanemq::io {

/// The loop's time: that of the turn, and whether the process stood still. Not thread-safe.
class LoopClock {
 public:
  /// The core's time at the start, so that the last day, the longest period, lies after time zero.
  static constexpr auto kAtStart = std::chrono::hours(48);
  /// How often a loop looks for more while it catches up.
  static constexpr auto kCatchUpPause = std::chrono::milliseconds(5);

  LoopClock() : started_(BootClock::now()) {}

  /// The clock, read anew.
  core::TimePoint read() const {
    return core::TimePoint(
        std::chrono::duration_cast<core::Duration>(BootClock::now() - started_ + kAtStart));
  }
  /// The time of this turn.
  core::TimePoint now() const { return now_; }
  void begin() { now_ = read(); }
  /// Reads the time for what comes next. Where more than `expected` passed, by kStandstill, returns what
  /// passed: the process stood still, and catches_up() from now on.
  std::optional<core::Duration> move_on(core::Duration expected);

  /// Whether the loop still reads what came during a standstill: until then no timer fires, so that no peer
  /// that spoke in time counts as silent. `read`: messages of this turn.
  bool catches_up(std::size_t read);
  bool catching_up() const { return stood_still_at_.has_value(); }

  /// The loop has looked for commands.
  void polled() { polled_ = BootClock::now(); }
  /// A loop that is never idle has to look for them.
  bool commands_are_due() const { return BootClock::now() - polled_ > kCommandsAtLeastEvery; }

 private:
  static constexpr auto kCommandsAtLeastEvery = std::chrono::milliseconds(10);

  const BootClock::time_point started_;
  BootClock::time_point polled_{};
  core::TimePoint now_{};
  std::optional<core::TimePoint> stood_still_at_;  ///< the end of a standstill, while its messages are read
};

}  // namespace lanemq::io
