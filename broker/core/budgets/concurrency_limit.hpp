// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "broker/core/base/time.hpp"

namespace lanemq::core {

class StoredNumbers;

/// How many jobs of a budget run at once, and how many may: what is configured; less after the upstream said
/// that it is overloaded (AIMD; Chiu & Jain, 1989); or what its refusals have shown that it takes at once.
///
/// A refusal that says nothing, or only to come again soon, may be about the calls under way or about the
/// pace. As many as were under way and taken are tried first: where refusals stop, it was the places. Then
/// one more is tried from time to time, and more while that is taken; where it is refused the next try comes
/// after twice as long. A refusal while none is under way, or, before anything was learnt, while few are, is
/// about the pace. The idea of learning the bound from losses is that of Netflix's concurrency-limits
/// (AIMDLimit); the search for it is ours.
class ConcurrencyLimit {
 public:
  /// `configured` 0: no limit, and overload changes nothing.
  explicit ConcurrencyLimit(std::int64_t configured) : configured_(configured), limit_(configured) {}

  std::int64_t configured() const { return configured_; }
  /// The limit that counts now, at least 1; 0: there is none.
  std::int64_t limit() const { return limit_; }
  /// Whether it is lower than configured, or learnt where none is.
  bool is_learnt() const { return limit_ != configured_; }
  /// Whether the upstream has stated it; else refusals have shown it.
  bool is_stated() const { return stated_; }
  /// When it was last stated or shown.
  TimePoint learnt_at() const { return cut_at_; }
  std::int64_t running() const { return running_; }
  bool full() const { return limit_ > 0 && running_ >= limit_; }

  void take() { ++running_; }
  void free() { --running_; }

  /// Sets another limit, at its full value; running jobs go on.
  void configure(std::int64_t limit) {
    if (limit == configured_) return;
    configured_ = limit;
    lift();
  }

  /// Forgets what the upstream said and showed: the configured limit counts. True if another did.
  bool lift();

  /// A call made at `called_at` found the upstream overloaded: lowers the limit by three tenths. All calls
  /// that were under way at a cut are one sign, not many.
  void overloaded(TimePoint called_at, TimePoint now) {
    if (configured_ == 0 || called_at < cut_at_) return;
    limit_ = std::max<std::int64_t>(limit_ * 7 / 10, 1);
    cut_at_ = now;
    successes_ = 0;
  }
  /// A call made at `called_at` was answered: the limit grows by one for each full round of answers. `calls`:
  /// the number of answers reported at once, this one the last.
  void succeeded(TimePoint called_at, TimePoint now, std::int64_t calls = 1) {
    if (limit_ == configured_) return;
    if (learns_) return try_more(called_at, now);
    for (; calls > 0; --calls) {
      if (limit_ == configured_ || called_at < cut_at_) return;
      if (++successes_ < limit_) continue;
      ++limit_;
      successes_ = 0;
    }
  }

  /// What a refusal was about: calls at once, or calls over time.
  enum class Shown : std::uint8_t { places, pace };
  /// A call made at `called_at`, which does not run any more, was refused, and nothing says why. `places`: it
  /// was for too many at once, as the upstream says, or since nothing else is counted.
  Shown refused(TimePoint called_at, TimePoint now, bool places);
  /// The upstream states that `limit` calls may run at once.
  void learn(std::int64_t limit, TimePoint now);

  /// How long after the last refusal its findings are kept over restarts.
  static constexpr Duration kLearntFor = std::chrono::hours(1);
  void save_learnt(std::int64_t epoch_us, StoredNumbers& numbers) const;
  void restore_learnt(StoredNumbers numbers, std::int64_t epoch_us, TimePoint now);

  /// For exact saves: how far it was lowered, not what runs.
  void save(std::int64_t epoch_us, StoredNumbers& numbers) const;
  void restore(StoredNumbers& numbers, std::int64_t epoch_us, TimePoint now);

 private:
  void try_more(TimePoint called_at, TimePoint now);
  void lower(std::int64_t limit, TimePoint now);

  std::int64_t configured_, limit_;
  std::int64_t running_ = 0, successes_ = 0;
  TimePoint cut_at_{};
  // Where refusals have shown the limit:
  bool learns_ = false;                // so it is
  bool stated_ = false;                // the upstream said it
  std::int64_t taken_ = 0, step_ = 1;  // calls at once that were accepted; further ones tried next
  std::int64_t first_ = 0;             // under way at the first of a row of refusals, if nothing was learnt
  TimePoint tried_at_ = kNever;        // since when more than taken_ may run
  TimePoint next_try_{};               // not before
  Duration tries_after_{};             // the last try that was refused
  TimePoint pace_until_{};             // refusals before are about the pace
};

}  // namespace lanemq::core
