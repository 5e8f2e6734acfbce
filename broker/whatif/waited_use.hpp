// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "broker/core/base/time.hpp"

namespace lanemq::whatif {

/// How much of a limit is used while jobs wait: what is sent in periods laid end to end from the moment at
/// which jobs begin to wait, as long as some do. What is sent at that moment counts. So no such period holds
/// more than a strict upstream allows, and a period with less was not used in full.
///
/// It is told of calls and of waiting jobs, and does not know the broker's budgets. Times must not decrease.
class WaitedUse {
 public:
  explicit WaitedUse(core::Duration period) : period_(period) {}

  void sent(core::TimePoint at, std::int64_t amount) {
    pass(at);
    if (at != sent_at_) sent_now_ = 0;
    sent_at_ = at;
    sent_now_ += amount;
    in_period_ += amount;
  }
  /// Whether jobs wait from now on.
  void set_waiting(bool waiting, core::TimePoint now) {
    pass(now);
    if (waiting == waiting_) return;
    waiting_ = waiting;
    began_ = now;
    in_period_ = sent_at_ == now ? sent_now_ : 0;
  }

  /// Whole periods, and what was sent in them.
  std::int64_t periods() const { return periods_; }
  std::int64_t used() const { return used_; }

 private:
  void pass(core::TimePoint now) {
    for (; waiting_ && now - began_ >= period_; began_ += period_) {
      ++periods_;
      used_ += in_period_;
      in_period_ = 0;
    }
  }

  core::Duration period_;
  bool waiting_ = false;
  core::TimePoint began_{}, sent_at_ = core::kNever;
  std::int64_t sent_now_ = 0, in_period_ = 0;
  std::int64_t periods_ = 0, used_ = 0;
};

}  // namespace lanemq::whatif
