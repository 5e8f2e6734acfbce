// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "broker/core/broker.hpp"
#include "broker/io/post.hpp"
#include "broker/io/store.hpp"

namespace lanemq::io {

/// Durable before visible: gives each turn's writes to the store, keeps the messages that depend on them, and
/// sends these when they are on disk, in order. Not thread-safe; belongs to the loop.
class CommitQueue {
 public:
  /// All outlive it.
  CommitQueue(core::Broker& broker, Store& store, Post& post) : broker_(broker), store_(store), post_(post) {}

  /// How old what is on disk of the budgets may be, where no job is written.
  static constexpr auto kNotesAtLeastEvery = std::chrono::milliseconds(20);

  /// Gives the turn's writes to the store, which commits them while later turns go on; and notes of the
  /// budgets where they are due.
  void commit(core::TimePoint now);
  /// The same for the end: what budgets gave is written in any case.
  void commit_last(core::TimePoint now);
  /// Tells the core that notes it waits for are on disk.
  void take_committed();
  /// Sends what the turn says and what the disk has let go.
  void send();
  /// Whether send() would find something that the disk has let go.
  bool has_committed() const;
  /// What waits for the disk, in bytes: writes, and messages.
  std::size_t backlog_bytes() const { return store_.backlog_bytes() + bytes_; }

 private:
  /// What one turn says, with the ticket of its writes.
  struct Uncommitted {
    std::uint64_t ticket = 0;
    std::size_t bytes = 0;
    std::unique_ptr<core::Outbox> outbox;
  };

  void send_committed();

  core::Broker& broker_;
  Store& store_;
  Post& post_;
  std::deque<Uncommitted> uncommitted_;  ///< the oldest turn first
  std::size_t offered_ = 0;              ///< the first of them, which are committed and whose jobs have left
  std::size_t bytes_ = 0;                ///< of all of them
  std::vector<std::unique_ptr<core::Outbox>> spare_outboxes_;
  std::uint64_t ticket_ = 0;        ///< the last one
  std::uint64_t notes_ticket_ = 0;  ///< of the last notes that were given to the store
  core::TimePoint notes_at_{};
  std::optional<std::uint64_t>
      watched_notes_;  ///< those of which the core wants to hear that they are on disk
};

}  // namespace lanemq::io
