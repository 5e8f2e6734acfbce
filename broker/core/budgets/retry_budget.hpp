// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include <absl/container/flat_hash_map.h>

#include "broker/core/base/mark.hpp"

namespace lanemq::core {

/// How often jobs of one service may be retried: at most kRetriesMax and a tenth of what succeeded meanwhile,
/// over any stretch of time. So a failing upstream gets no more calls than a sound one, whatever attempts its
/// jobs have left (Google, "Site Reliability Engineering", 2016, chapter 21).
///
/// Successes while retries are taken are saved up for their client first, kSavedMax retries at most, and the
/// client's retries use those first: so a client whose calls all fail leaves the others what they earn. Where
/// one has taken all retries, kForOthers more are left for clients that took fewer than that. Retries beyond
/// a client's savings are taken from its tenant.
class RetryBudget {
 public:
  static constexpr int kRetriesMax = 10;  ///< also what a service starts with
  static constexpr int kSuccessesPerRetry = 10;
  static constexpr int kForOthers = 3;
  static constexpr int kSavedMax = 3;
  /// Clients that may save up, and those of one tenant.
  static constexpr std::size_t kSaversMax = 256, kSaversOfTenant = kSaversMax / 4;

  /// A job of the service succeeded.
  void succeeded(const Caller& whose = {}) {
    if (full() || save(whose)) return;
    if (++parts_ % kSuccessesPerRetry != 0) return;
    // The oldest retry is given back.
    std::copy(takers_.begin() + 1, takers_.begin() + taken_, takers_.begin());
    --taken_;
    if (full()) savers_.clear();
  }
  /// Takes one retry for a client. False, with nothing taken, where none is left.
  bool take(const Caller& whose = {}) {
    if (const auto saver = savers_.find(whose.client);
        saver != savers_.end() && saver->second.parts >= kSuccessesPerRetry) {
      saver->second.parts -= kSuccessesPerRetry;
      return true;
    }
    const auto its = std::count(takers_.begin(), takers_.begin() + taken_, whose.party());
    const int least = its < kForOthers ? 1 - kForOthers : 1;
    if (parts_ < kSuccessesPerRetry * least) return false;
    parts_ -= kSuccessesPerRetry;
    takers_[static_cast<std::size_t>(taken_++)] = whose.party();
    return true;
  }
  /// Whole retries that are left, but for what clients have saved up.
  int left() const { return std::max(parts_, 0) / kSuccessesPerRetry; }
  bool full() const { return parts_ == kRetriesMax * kSuccessesPerRetry; }

 private:
  /// One client's savings.
  struct Saver {
    std::uint64_t tenant = kNoMark;
    int parts = 0;
  };

  /// False where the client may save up no more.
  bool save(const Caller& whose) {
    if (whose.client == kNoMark) return false;
    auto saver = savers_.find(whose.client);
    if (saver == savers_.end()) {
      if (savers_.size() >= kSaversMax) return false;
      const auto is_its = [&](const auto& other) { return other.second.tenant == whose.tenant; };
      if (whose.tenant != kNoMark &&
          static_cast<std::size_t>(std::count_if(savers_.begin(), savers_.end(), is_its)) >= kSaversOfTenant)
        return false;
      saver = savers_.emplace(whose.client, Saver{.tenant = whose.tenant}).first;
    }
    if (saver->second.parts >= kSavedMax * kSuccessesPerRetry) return false;
    ++saver->second.parts;
    return true;
  }

  int parts_ = kRetriesMax * kSuccessesPerRetry;
  std::array<std::uint64_t, kRetriesMax + kForOthers>
      takers_{};  // clients, or their tenants, that took the retries, the oldest first
  int taken_ = 0;
  absl::flat_hash_map<std::uint64_t, Saver> savers_;  // by the client's mark, while some retries are taken
};

}  // namespace lanemq::core
