// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <thread>

namespace lanemq::bench {

// Times that are the load itself, as a benchmark's page states them. What a benchmark waits for has a state
// to look at (tests/support/eventually.hpp).

/// When the next piece of a cadence is due.
inline void wait_for_due(std::chrono::steady_clock::time_point due) {
  std::this_thread::sleep_until(due);
}

/// How long a caller thinks, or a job is worked at.
inline void spend(std::chrono::nanoseconds time) {
  wait_for_due(std::chrono::steady_clock::now() + time);
}

}  // namespace lanemq::bench
