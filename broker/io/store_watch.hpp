// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "broker/core/broker.hpp"
#include "broker/io/commit_queue.hpp"
#include "broker/io/store.hpp"

namespace lanemq::io {

/// Tells the core and the log how the store is: whether it has room, goes on, and keeps up. Not thread-safe;
/// belongs to the loop.
class StoreWatch {
 public:
  /// A disk that has committed nothing for so long, although something waits for it, stands still.
  static constexpr auto kDiskStandsStill = std::chrono::milliseconds(500);

  /// All outlive it. `backlog_bytes_max`: what may wait for the disk before clients' jobs are refused.
  StoreWatch(core::Broker& broker, const Store& store, const CommitQueue& commits,
             std::size_t backlog_bytes_max)
      : broker_(broker), store_(store), commits_(commits), backlog_bytes_max_(backlog_bytes_max) {}

  /// Whether more waits for the disk than may. Asked before each message, since one may be large.
  void tell_behind(core::TimePoint now);
  /// Whether the disk goes on.
  void tell_stalled(core::TimePoint now);
  /// Whether it has room. False: the store has failed, and the broker is to end.
  bool tell_condition(core::TimePoint now);
  /// The loop stood still: the disk had no time either.
  void stood_still(core::TimePoint now) { went_on_at_ = now; }

 private:
  core::Broker& broker_;
  const Store& store_;
  const CommitQueue& commits_;
  std::size_t backlog_bytes_max_;
  bool behind_ = false, stalled_ = false;  ///< what the core was told
  std::uint64_t committed_before_ = 0;     ///< when the disk was last seen to go on, or had nothing to do
  core::TimePoint went_on_at_{};
  StoreCondition condition_ = StoreCondition::good;
};

}  // namespace lanemq::io
