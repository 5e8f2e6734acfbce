// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "broker/core/base/mark.hpp"

namespace lanemq::core {

/// How often jobs of one service may be retried: at most kRetriesMax and a tenth of what succeeded meanwhile,
/// over any stretch of time. So a failing upstream gets no more calls than a sound one, whatever attempts its
/// jobs have left (Google, "Site Reliability Engineering", 2016, chapter 21).
///
/// Where one client has taken all retries, kForOthers more are left for clients that took fewer than that.
class RetryBudget {
 public:
  static constexpr int kRetriesMax = 10;  ///< also what a service starts with
  static constexpr int kSuccessesPerRetry = 10;
  static constexpr int kForOthers = 3;

  /// A job of the service succeeded.
  void succeeded() {
    if (parts_ == kRetriesMax * kSuccessesPerRetry) return;
    if (++parts_ % kSuccessesPerRetry != 0) return;
    // The oldest retry is given back.
    std::copy(takers_.begin() + 1, takers_.begin() + taken_, takers_.begin());
    --taken_;
  }
  /// Takes one retry for a client, by its mark. False, with nothing taken, where none is left.
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
  std::array<std::uint64_t, kRetriesMax + kForOthers>
      takers_{};  // clients that took the retries, the oldest first
  int taken_ = 0;
};

}  // namespace lanemq::core
