// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>

#include "broker/core/base/time.hpp"

namespace lanemq::whatif {

/// What a strict upstream would count: the most that was sent in any window of a period. Two calls a whole
/// period apart are in no common window.
///
/// It remembers each call of the last period and does not know the broker's budgets, so that it can check
/// them.
class WindowPeak {
 public:
  explicit WindowPeak(core::Duration period) : period_(period) {}

  /// Times must not decrease.
  void add(core::TimePoint at, std::int64_t amount) {
    while (!calls_.empty() && at - calls_.front().at >= period_) {
      in_window_ -= calls_.front().amount;
      calls_.pop_front();
    }
    calls_.push_back({at, amount});
    in_window_ += amount;
    total_ += amount;
    peak_ = std::max(peak_, in_window_);
  }

  std::int64_t peak() const { return peak_; }
  std::int64_t total() const { return total_; }

 private:
  struct Call {
    core::TimePoint at;
    std::int64_t amount;
  };

  core::Duration period_;
  std::deque<Call> calls_;
  std::int64_t in_window_ = 0, total_ = 0, peak_ = 0;
};

}  // namespace lanemq::whatif
