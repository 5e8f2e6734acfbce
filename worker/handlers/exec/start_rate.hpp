// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

#include <lanemq/worker.hpp>

namespace lanemq::worker {

/// Bounds the starts of programs: so many in a second, at once or spread.
class StartRate {
 public:
  explicit StartRate(std::size_t per_second)
      : interval_(kWindow / std::max<std::size_t>(per_second, 1)), ahead_max_(kWindow - interval_) {}

  /// Counts a start, if one more is allowed now.
  bool take(TimePoint now) {
    if (now < next()) return false;
    used_until_ = std::max(used_until_, now) + interval_;
    return true;
  }
  /// When the next start is allowed; may be over.
  TimePoint next() const { return used_until_ - ahead_max_; }

 private:
  static constexpr std::chrono::nanoseconds kWindow = std::chrono::seconds(1);

  std::chrono::nanoseconds interval_, ahead_max_;
  TimePoint used_until_{};  ///< what was started is evenly spread until then
};

}  // namespace lanemq::worker
