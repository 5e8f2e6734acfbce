// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "broker/core/base/time.hpp"

namespace lanemq::core {

class StoredNumbers;

/// The last mark of a series, and the last one different from it. That is enough to tell whether a client or
/// model was alone.
class LastTwo {
 public:
  void note(std::uint64_t mark, TimePoint now) {
    if (at_ != kNever && mark != mark_) {
      other_at_ = at_;
    }
    mark_ = mark;
    at_ = now;
  }
  /// When a mark other than `mark` came last; kNever: none did.
  TimePoint other_than(std::uint64_t mark) const { return mark != mark_ ? at_ : other_at_; }
  /// Whether a mark other than `mark` came within that time.
  bool others_within(std::uint64_t mark, Duration time, TimePoint now) const {
    const TimePoint at = other_than(mark);
    return at != kNever && now - at <= time;
  }

  /// For exact saves.
  void save(std::int64_t epoch_us, StoredNumbers& numbers) const;
  void restore(StoredNumbers& numbers, std::int64_t epoch_us, TimePoint now);

 private:
  std::uint64_t mark_ = 0;
  TimePoint at_ = kNever, other_at_ = kNever;
};

}  // namespace lanemq::core
