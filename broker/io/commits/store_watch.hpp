// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "broker/core/broker.hpp"
#include "broker/io/commits/commit_queue.hpp"
#include "broker/io/store/store.hpp"

namespace lanemq::io {

/// Tells the core and the log whether the store has room, goes on and keeps up. Not thread-safe; belongs to
/// the loop.
class StoreWatch {
 public:
  /// A disk stands still if it commits nothing for so long while writes wait for it.
  static constexpr auto kDiskStandsStill = std::chrono::milliseconds(500);

  /// All outlive it. `backlog_bytes_max`: bytes that may wait for the disk before jobs are refused.
  StoreWatch(core::Broker& broker, const Store& store, const CommitQueue& commits,
             std::size_t backlog_bytes_max)
      : broker_(broker), store_(store), commits_(commits), backlog_bytes_max_(backlog_bytes_max) {}

  /// Tells the core whether more waits for the disk than may. To be called before each message, since one may
  /// be large.
  void tell_behind(core::TimePoint now);
  /// Tells the core whether the disk stands still.
  void tell_stalled(core::TimePoint now);
  /// Tells the core whether another broker may own the store. To be called before anything is decided.
  void tell_away(core::TimePoint now);
  /// Tells the core whether the store can keep what durable jobs are told.
  void tell_unsafe(core::TimePoint now);
  /// Tells the core whether the disk has room. False: the store has failed or has another owner, and the
  /// broker must end.
  bool tell_condition(core::TimePoint now);
  bool stalled() const { return stalled_; }
  /// The store's state for the statistics: `good`, `behind`, `stalled`, `away`, `unsafe`, `gone`, `full`,
  /// `failed` or `deposed`.
  std::string_view state() const;
  /// Bytes that wait for the disk.
  std::size_t backlog_bytes() const { return commits_.backlog_bytes(); }
  std::string_view kind() const { return store_.name(); }
  std::optional<StoreRoom> room() const { return store_.disk_room(); }
  std::optional<StoreOwnership> ownership() const { return store_.ownership(); }
  /// The process stood still, and so did the store's thread.
  void stood_still(core::TimePoint now) { went_on_at_ = now; }

 private:
  void tell_gone() const;

  core::Broker& broker_;
  const Store& store_;
  const CommitQueue& commits_;
  std::size_t backlog_bytes_max_;
  bool behind_ = false, stalled_ = false, away_ = false, unsafe_ = false;  ///< as the core was told
  StorePromise told_ = StorePromise::kept;                                 ///< of the log; never `unknown`
  std::uint64_t committed_before_ = 0;  ///< when the disk last committed, or had nothing to do
  core::TimePoint went_on_at_{};
  StoreCondition condition_ = StoreCondition::good;
};

}  // namespace lanemq::io
