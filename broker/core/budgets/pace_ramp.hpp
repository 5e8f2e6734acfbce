// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "broker/core/base/time.hpp"

namespace lanemq::core {

/// The part of a limit's pace that counts: none in a pause, a tenth after it, then twice as much each second.
/// Where the upstream has said that the pace rises too fast it rises by a tenth instead.
class PaceRamp {
 public:
  /// In thousandths: the part right after a pause, and the full pace.
  static constexpr int kFirst = 100, kFull = 1000;

  bool is_full() const { return share_ == kFull; }
  bool is_paused() const { return share_ == 0; }
  /// Thousandths of the pace; 0 in a pause.
  int share() const { return share_; }
  /// When it rises next; where it is full that means nothing.
  TimePoint next() const { return next_; }
  /// Whether it rises by a tenth.
  bool is_gentle() const { return fell_at_ != kNever; }

  void pause(TimePoint until) {
    share_ = 0;
    next_ = until;
  }
  /// The upstream says that the pace rose too fast with a call made at `called_at`. Calls that were under way
  /// at such a fall are one sign with it: false. Others' calls make the upstream's seconds uneven, so a fall
  /// is small.
  bool fall(TimePoint called_at, TimePoint now) {
    if (is_gentle() && called_at <= fell_at_) return false;
    fell_at_ = now;
    if (is_paused()) return true;
    share_ = std::max(share_ * kFallLeaves / 100, kFirst);
    next_ = now + kStep;
    return true;
  }
  /// Takes the step that is due at next().
  void rise() {
    share_ = std::clamp(share_ * (is_gentle() ? kGentle : kSteep) / 100, kFirst, kFull);
    next_ += kStep;
  }
  /// Full, as if the upstream had said nothing.
  void lift() {
    share_ = kFull;
    fell_at_ = kNever;
  }
  void restore(int share, TimePoint next) {
    share_ = std::clamp(share, 0, kFull);
    next_ = next;
  }

 private:
  static constexpr Duration kStep = std::chrono::seconds(1);
  /// In hundredths: the pace after a fall, and after a step, of the pace before.
  static constexpr int kFallLeaves = 85, kGentle = 110, kSteep = 200;

  int share_ = kFull;
  TimePoint next_{};
  TimePoint fell_at_ = kNever;  // the last time
};

}  // namespace lanemq::core
