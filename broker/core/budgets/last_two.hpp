// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "broker/core/base/time.hpp"

namespace lanemq::core {

/// Of many who come by, each with a mark of its own: the last one, and the last one who was another. That is
/// enough to tell whether somebody is alone.
class LastTwo {
 public:
  void note(std::uint64_t mark, TimePoint now) {
    if (at_ != kNever && mark != mark_) {
      other_at_ = at_;
    }
    mark_ = mark;
    at_ = now;
  }
  /// When somebody else than `mark` came last; kNever: nobody did.
  TimePoint other_than(std::uint64_t mark) const { return mark != mark_ ? at_ : other_at_; }
  /// Whether somebody else did within that time.
  bool others_within(std::uint64_t mark, Duration time, TimePoint now) const {
    const TimePoint at = other_than(mark);
    return at != kNever && now - at <= time;
  }

 private:
  std::uint64_t mark_ = 0;
  TimePoint at_ = kNever, other_at_ = kNever;
};

}  // namespace lanemq::core
