// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace lanemq::test {

/// The pause of tests between two looks at what nothing can wake them for: a row of a database, a file, a
/// figure of another thread. What has a descriptor, a future or a condition is waited for by that instead.
inline void pause_between_looks(std::chrono::milliseconds pause = std::chrono::milliseconds(20)) {
  std::this_thread::sleep_for(pause);
}

/// Looks until it is so. False: it was not within `patience`, which says how long a busy machine may hold
/// others up, and not how fast they are.
template <class IsSo>
bool eventually(const IsSo& is_so, std::chrono::seconds patience = std::chrono::seconds(60)) {
  const auto end = std::chrono::steady_clock::now() + patience;
  for (std::chrono::milliseconds pause{1}; !is_so();
       pause = std::min(2 * pause, std::chrono::milliseconds(20))) {
    if (std::chrono::steady_clock::now() >= end) return false;
    pause_between_looks(pause);
  }
  return true;
}

}  // namespace lanemq::test
