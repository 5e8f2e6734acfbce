// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace lanemq::core {

/// How often jobs of one service may still be tried again: at most kRetriesMax and a tenth of what succeeded
/// meanwhile, over any stretch of time. A failing upstream is thereby not hit harder than a sound one,
/// however many attempts its jobs have left (Google, "Site Reliability Engineering", 2016, chapter 21).
class RetryBudget {
 public:
  static constexpr int kRetriesMax = 10;  ///< also what a service starts with
  static constexpr int kSuccessesPerRetry = 10;

  /// A job of the service succeeded.
  void succeeded() { parts_ = std::min(parts_ + 1, kRetriesMax * kSuccessesPerRetry); }
  /// Takes one retry. False, and nothing is taken, when there is none.
  bool take() {
    if (parts_ < kSuccessesPerRetry) return false;
    parts_ -= kSuccessesPerRetry;
    return true;
  }
  /// Whole retries that are left.
  int left() const { return parts_ / kSuccessesPerRetry; }
  bool full() const { return parts_ == kRetriesMax * kSuccessesPerRetry; }

 private:
  int parts_ = kRetriesMax * kSuccessesPerRetry;
};

}  // namespace lanemq::core
