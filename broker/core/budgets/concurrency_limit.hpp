// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "broker/core/base/time.hpp"

namespace lanemq::core {

class StoredNumbers;

/// How many jobs of a budget run at once, and how many may: what is configured, or less after the upstream
/// said that it is overloaded (AIMD; Chiu & Jain, 1989).
class ConcurrencyLimit {
 public:
  /// `configured` 0: no limit, and overload changes nothing.
  explicit ConcurrencyLimit(std::int64_t configured) : configured_(configured), limit_(configured) {}

  std::int64_t configured() const { return configured_; }
  /// The limit that counts now: 1 to configured().
  std::int64_t limit() const { return limit_; }
  std::int64_t running() const { return running_; }
  bool full() const { return configured_ > 0 && running_ >= limit_; }

  void take() { ++running_; }
  void free() { --running_; }

  /// Sets another limit, at its full value; running jobs go on.
  void configure(std::int64_t limit) {
    if (limit == configured_) return;
    configured_ = limit_ = limit;
    successes_ = 0;
  }

  /// Restores the configured limit. True if it was lower.
  bool lift() {
    if (limit_ == configured_) return false;
    limit_ = configured_;
    successes_ = 0;
    return true;
  }

  /// A call made at `called_at` found the upstream overloaded: lowers the limit by three tenths. All calls
  /// that were under way at a cut are one sign, not many.
  void overloaded(TimePoint called_at, TimePoint now) {
    if (configured_ == 0 || called_at < cut_at_) return;
    limit_ = std::max<std::int64_t>(limit_ * 7 / 10, 1);
    cut_at_ = now;
    successes_ = 0;
  }
  /// A call made at `called_at` was answered: the limit grows by one for each full round of answers. `calls`:
  /// so many, of which it was the last.
  void succeeded(TimePoint called_at, std::int64_t calls = 1) {
    for (; calls > 0; --calls) {
      if (limit_ == configured_ || called_at < cut_at_) return;
      if (++successes_ < limit_) continue;
      ++limit_;
      successes_ = 0;
    }
  }

  /// For exact saves: how far it was lowered, not what runs.
  void save(std::int64_t epoch_us, StoredNumbers& numbers) const;
  void restore(StoredNumbers& numbers, std::int64_t epoch_us, TimePoint now);

 private:
  std::int64_t configured_, limit_;
  std::int64_t running_ = 0, successes_ = 0;
  TimePoint cut_at_{};
};

}  // namespace lanemq::core
