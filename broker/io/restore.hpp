// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include <lanemq/result.hpp>

#include "broker/core/broker.hpp"
#include "broker/core/desks/restorer.hpp"
#include "broker/io/store.hpp"

namespace lanemq::io {

/// What tells how much time passed while the broker was down, also where somebody set the wall clock.
struct ClockReading {
  std::int64_t unix_us = 0;    ///< the wall clock
  std::int64_t uptime_us = 0;  ///< of the machine, sleep included
  std::int64_t boot = 0;       ///< a number that is another one after each start of the machine
};
ClockReading read_clock();

/// What an earlier run noted of its start.
struct ClockNote {
  std::int64_t stored_us = 0;  ///< the store's clock, which goes on whatever is done to the wall clock
  ClockReading at{};
};

/// The store's clock now. Where the machine was not started again since the note, the time that passed is
/// known; else the wall clock is believed, unless it went back.
std::int64_t stored_us(const ClockNote& note, const ClockReading& now);

/// Brings back what a store knows, and says what it was. `now` tells the core's time, at the beginning and
/// when all is read.
Result<core::Restorer::Restored> restore(core::Broker& broker, Store& store,
                                         const std::function<core::TimePoint()>& now);

}  // namespace lanemq::io
