// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace lanemq::core {

/// The core's time: microseconds since an origin that the caller chooses. Nothing in the core reads a clock.
struct Timeline {
  using duration = std::chrono::microseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<Timeline>;
  static constexpr bool is_steady = true;
};

using TimePoint = Timeline::time_point;
using Duration = Timeline::duration;

inline constexpr TimePoint kNever = TimePoint::max();

/// For products of amounts and microseconds.
__extension__ using Int128 = __int128;

inline std::int64_t to_ms(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

/// Milliseconds in 32 bits; more than 49 days are said to be 49 days.
inline std::uint32_t to_ms32(Duration duration) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(to_ms(duration), 0, UINT32_MAX));
}

}  // namespace lanemq::core
