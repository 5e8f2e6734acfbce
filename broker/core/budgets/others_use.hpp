// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "broker/core/base/time.hpp"

namespace lanemq::core {

class StoredNumbers;

/// Other users' share of a limit that we have in common, as far as the upstream's words tell, and how that
/// share is refilled.
///
/// Upstreams report with each answer what remains and when the limit is full again (`reset`). In a bucket,
/// which is refilled continuously, that is (limit - remaining) * period / limit, and what others took is
/// refilled evenly until then. In a window all is refilled at the reset. Until the words tell them apart it
/// is a bucket: a call too early costs one refusal, a wait for a whole reset may cost a minute.
///
/// Nothing waits for a whole reset unasked: while this alone keeps jobs back, one may go now and then.
class OthersUse {
 public:
  /// An upstream's report on a limit.
  struct Said {
    std::int64_t remaining = 0;
    std::optional<std::int64_t> limit{};
    std::optional<Duration> reset{};
  };

  /// Where what remains is less than we left, `foreign` of the limit is others'. Differences up to
  /// `tolerance` are calls that cross on their way. `limit`: what counts where the upstream states none.
  void heard(const Said& said, std::int64_t foreign, std::int64_t tolerance, std::int64_t limit,
             Duration period, TimePoint now);
  /// The part of others' use that still counts.
  std::int64_t amount(TimePoint now) const;
  /// When nothing counts any more.
  TimePoint until() const { return until_; }
  bool any() const { return amount_ > 0; }
  /// Whether others' use is refilled evenly: else all at once.
  bool is_even() const { return !is_window() && reset_told_; }
  void forget() { *this = OthersUse(); }

  /// Whether a job may go that this alone keeps back, to find out whether it is still so.
  bool may_ask(TimePoint now) const { return now >= ask_at_; }
  TimePoint ask_at() const { return ask_at_; }
  /// Such a job goes.
  void asked(TimePoint now);
  /// A call that was handed over at that time was answered, and the upstream did not say what remains. If it
  /// had asked, half of what counts is taken to be back.
  void granted(TimePoint taken_at, TimePoint now);

  /// For RateLimit::save() and restore().
  static constexpr std::int64_t kNumbers = 6;
  void save(std::int64_t epoch_us, StoredNumbers& numbers) const;
  void restore(StoredNumbers& numbers, std::int64_t epoch_us, std::int64_t limit, Duration period,
               TimePoint now);

 private:
  bool is_window() const { return window_seen_ > 0; }
  void set(std::int64_t amount, Duration back_in, TimePoint now);

  std::int64_t amount_ = 0;  // at from_
  TimePoint from_{}, until_{};
  TimePoint ask_at_ = kNever, asked_at_ = kNever;
  Duration asks_after_{};
  // Answers that looked like a window's, less those that looked like a bucket's; and the part, in
  // sixteenths, of the pace at which a bucket gives back that others leave to us.
  std::int8_t window_seen_ = 0, left_ = 16;
  bool reset_told_ = false;  // the last answer told when the limit is full again
};

}  // namespace lanemq::core
