// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace lanemq::io {

/// Asks the kernel to run the calling thread, and those that it starts later, in slices of this length (0.1
/// ms to 100 ms; 0: the system's own, some 3 ms): one that asks for short slices gets the same share of the
/// machine, but is sooner when it wakes up beside threads that always have something to do. Linux 6.12 and
/// later (EEVDF); where that is not known, or somebody has set a real-time or idle policy, nothing happens.
/// Returns whether the kernel took it.
bool ask_for_time_slice(std::chrono::nanoseconds slice) noexcept;

}  // namespace lanemq::io
