// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <lanemq/result.hpp>

#include "broker/core/broker.hpp"
#include "broker/core/desks/restorer.hpp"
#include "broker/io/store/store.hpp"

namespace lanemq::io {

/// Clocks that tell how long the broker was down, even if the wall clock was set.
struct ClockReading {
  std::int64_t unix_us = 0;    ///< the wall clock
  std::int64_t uptime_us = 0;  ///< since the machine started, sleep included
  std::int64_t boot = 0;       ///< another number after each start of the machine; 0: not known
};
ClockReading read_clock();
/// The same where the boot is known.
ClockReading read_times(std::int64_t boot);

/// The clocks as the last run noted them.
struct ClockNote {
  std::int64_t stored_us = 0;  ///< the store's clock, which setting the wall clock does not change
  ClockReading at{};
};

/// The store's clock now. If the machine was not restarted since the note the elapsed time is known; else the
/// wall clock counts, unless it went back, or the note's was never set.
std::int64_t stored_us(const ClockNote& note, const ClockReading& now);

/// The name of that note, and what its record says. An error: it cannot be read.
inline constexpr std::string_view kClockNote = "clock";
Result<ClockNote> clock_note(std::string_view record);
void write_clock_note(const ClockNote& note, core::Writes& writes);

/// The clock that a store goes by: the store's own, or this machine's. Requires: before the first submit().
Result<ClockReading> clock_of(Store& store);

/// For restore(), by its caller.
struct RestoreCalls {
  std::function<core::TimePoint()> now;  ///< the core's time; called at the beginning and after all is read
  /// Called now and then, with the jobs and results that were read so far.
  std::function<void(std::size_t rows)> progress;
  std::function<ClockReading()> clock = read_clock;  ///< this machine's
};

/// The clocks of a start.
struct StartClocks {
  ClockNote noted;             ///< what the store's note says now
  ClockReading machine;        ///< as they were read then
  std::int64_t behind_us = 0;  ///< so far the wall clock stands before the last life's note; 0: it does not
};

/// The findings of restore().
struct Restored : core::Restorer::Restored {
  StartClocks clocks;
};

/// Restores everything from the store, and returns what it was.
Result<Restored> restore(core::Broker& broker, Store& store, const RestoreCalls& calls);

}  // namespace lanemq::io
