// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "broker/core/base/mark.hpp"

namespace lanemq::core {

/// How often jobs of one service may still be tried again: at most kRetriesMax and a tenth of what succeeded
/// meanwhile, over any stretch of time. A failing upstream is thereby not hit harder than a sound one,
/// however many attempts its jobs have left (Google, "Site Reliability Engineering", 2016, chapter 21).
///
/// Where one client has taken all there was, there are kForOthers more, for those who took fewer than that.
class RetryBudget {
 public:
  static constexpr int kRetriesMax = 10;  ///< also what a service starts with
  static constexpr int kSuccessesPerRetry = 10;
  static constexpr int kForOthers = 3;

  /// A job of the service succeeded.
  void succeeded() {
    if (parts_ == kRetriesMax * kSuccessesPerRetry) return;
    if (++parts_ % kSuccessesPerRetry != 0) return;
    // The oldest is over.
    std::copy(takers_.begin() + 1, takers_.begin() + taken_, takers_.begin());
    --taken_;
  }
  /// Takes one retry for a client, by its mark. False, and nothing is taken, when there is none.
  bool take(std::uint64_t client = kNoMark) {
    const auto its = std::count(takers_.begin(), takers_.begin() + taken_, client);
    const int least = its < kForOthers ? 1 - kForOthers : 1;
    if (parts_ < kSuccessesPerRetry * least) return false;
    parts_ -= kSuccessesPerRetry;
    takers_[static_cast<std::size_t>(taken_++)] = client;
    return true;
  }
  /// Whole retries that are left.
  int left() const { return std::max(parts_, 0) / kSuccessesPerRetry; }
  bool full() const { return parts_ == kRetriesMax * kSuccessesPerRetry; }

 private:
  int parts_ = kRetriesMax * kSuccessesPerRetry;
  std::array<std::uint64_t, kRetriesMax + kForOthers> takers_{};  // of what is taken, the oldest first
  int taken_ = 0;
};

}  // namespace lanemq::core
