// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "broker/core/base/time.hpp"

namespace lanemq::core {

/// How much of a limit's state a save has.
enum class Detail : std::uint8_t {
  few,    ///< few bytes, erring on the side of the limit: for restarts, which are rare
  exact,  ///< in full: for state that is saved and restored with each use
};

/// What was sent in the last period, in slices, for an upstream that counts every window of that length.
///
/// A bucket alone either wastes quota (refilled at (limit - capacity) / period) or breaks the limit (refilled
/// at limit / period, it lets limit + capacity through). This ledger bounds the bucket exactly and says how
/// fast it may refill: at the fastest even pace at which the window never fills up, so that no job waits for
/// an earlier burst to leave. A lump is thus sent again over a whole period; a caller that knows its lumps
/// may refill faster.
///
/// Errs on the side of the limit: what was sent counts to the end of its slice plus a slack, the time by
/// which two calls may swap or drift apart on their way to the upstream's counter.
class SlidingWindow {
 public:
  static constexpr std::size_t kSlices = 600;  ///< to a period

  /// `scale`: units of the pace. Requires: limit > 0, period >= 60 ms, limit * scale <= 10^12.
  SlidingWindow(std::int64_t limit, Duration period, std::int64_t scale = 1);

  /// Drops what has left the window.
  void advance(TimePoint now);
  void record(std::int64_t amount, TimePoint now);
  /// Adds to a record of an earlier time, which turned out to be too low.
  void record_late(std::int64_t amount, TimePoint recorded_at);
  /// Takes back what was recorded but never sent.
  void unrecord(std::int64_t amount, TimePoint recorded_at);

  /// Changes the units of the pace, from the next change of slice on.
  void set_scale(std::int64_t scale) { scale_ = scale; }
  /// Sets another limit. Requires: limit > 0.
  void set_limit(std::int64_t limit);

  /// The amounts that still count, in at most kSaved steps, each at the time of its latest part; `exact`: in
  /// slices.
  static constexpr std::size_t kSaved = 61;
  struct Sent {
    TimePoint at{};
    std::int64_t amount = 0;
  };
  std::vector<Sent> sent(Detail detail = Detail::few) const;

  /// How much may be sent now; negative after the limit was lowered.
  std::int64_t headroom() const { return limit_ - sent_; }
  /// The sum of all that still counts.
  std::int64_t total() const { return sent_; }
  /// The refill rate, in 1/scale of the amount per period: above 0, at most `limit`, changed only when a
  /// slice ends. It may run ahead of the headroom by less than one, so that a job that waits for one to leave
  /// the window goes as soon as it has left.
  std::int64_t pace() const { return pace_; }
  /// When the next slice ends, so that headroom and pace may change.
  TimePoint next_change() const { return start_of(slice_ + 1); }

 private:
  TimePoint start_of(std::int64_t slice) const { return TimePoint(slice * slice_length_); }
  std::int64_t& count_of(std::int64_t slice) {
    return counts_[static_cast<std::size_t>(slice) % counts_.size()];
  }
  void find_pace();

  std::int64_t limit_, scale_;
  Duration slice_length_;
  std::int64_t kept_;                 // slices that count: the period, the open slice, the slack
  std::vector<std::int64_t> counts_;  // a ring of kept_ slices
  std::int64_t slice_ = 0;            // the open slice
  std::int64_t sent_ = 0;             // the sum of counts_
  std::int64_t pace_;
};

}  // namespace lanemq::core
