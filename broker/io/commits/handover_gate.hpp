// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "broker/core/broker.hpp"

namespace lanemq::io {

/// Asks about hand-overs of what banks grant when they leave: a commit may have come late, or the process
/// stood still, and then what was granted is granted to others. Not thread-safe; belongs to the loop.
class HandoverGate {
 public:
  /// `now`: the loop's clock, read anew. `broker` outlives it.
  HandoverGate(core::Broker& broker, std::function<core::TimePoint()> now)
      : broker_(broker), now_(std::move(now)) {}

  bool may_leave(const core::Send& send) {
    if (send.checked_job == 0) return true;
    const core::Record* const record = broker_.jobs().find(core::JobNumber{send.checked_job});
    if (record == nullptr || record->is_result) return false;
    const core::Job& job = *record->job();
    if (job.attempt != send.checked_attempt || job.worker() == nullptr) return false;
    if (broker_.budgets().shared.leaves(job.at_away().reservation, now_())) return true;
    void_.push_back({send.checked_job, send.checked_attempt});
    return false;
  }
  bool any_void() const { return !void_.empty(); }
  /// Those that did not leave since the last call, to be told to the core.
  std::vector<core::HandoverVoid> take_void() { return std::exchange(void_, {}); }

 private:
  core::Broker& broker_;
  std::function<core::TimePoint()> now_;
  std::vector<core::HandoverVoid> void_;
};

}  // namespace lanemq::io
