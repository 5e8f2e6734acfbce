// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace lanemq::io {

/// Asks the kernel to run the calling thread, and threads it starts later, in slices of this length (0.1 ms
/// to 100 ms; 0: the system's own, some 3 ms). A thread with short slices gets the same share of the machine,
/// but runs sooner when it wakes up beside busy threads. Needs Linux 6.12 (EEVDF). On older kernels, and
/// under a real-time or idle policy, nothing happens. Returns whether the kernel accepted it.
bool ask_for_time_slice(std::chrono::nanoseconds slice) noexcept;

}  // namespace lanemq::io
