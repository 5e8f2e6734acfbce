// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

#include "broker/core/base/time.hpp"
#include "broker/core/budgets/shared/slice.hpp"

namespace lanemq::core {

/// The time by which a bank counts, of its last draw. Of any two draws it says no more than passed between
/// them: what it lags behind never shrinks, since a lag that did would count a grant of before as too old. It
/// is never set back.
///
/// From draw to draw it advances as the database's clock does. Where another server answers, whose clock may
/// be ahead, or the clock was set, it advances by no more than the drawing shard saw pass since its own last
/// draw (Slices). That counts from the bank's time of then: if the clock has changed in between, the time may
/// have fallen behind since, and kSkewMax is taken off, as for a shard that saw nothing pass. Clocks of
/// shards and servers need only keep a rate. Where a clock was set ahead, a shard that saw nothing pass
/// believes it.
struct BankTime {
  /// A database's clock is ahead of the one before by at most this, when another server takes over. More than
  /// that above what the drawing shard saw pass: it was set.
  static constexpr Duration kSkewMax = std::chrono::seconds(1);

  TimePoint at{};
  TimePoint database{};  ///< the database's clock at that time
  std::uint64_t server = 0;
  std::uint64_t clock_changes = 0;  ///< how often it had to do with another clock

  void tell(const BankClock& clock, const Draw& draw) {
    at += at == TimePoint{} ? clock.now - TimePoint{} : passed(clock, draw);
    database = clock.now;
    server = clock.server;
  }

 private:
  /// An upper bound on the time since the draw before. Counts a change where that is not known exactly.
  Duration passed(const BankClock& clock, const Draw& draw);
};

}  // namespace lanemq::core
