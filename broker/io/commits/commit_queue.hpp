// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "broker/core/base/times.hpp"
#include "broker/core/broker.hpp"
#include "broker/io/commits/post.hpp"
#include "broker/io/store/store.hpp"

namespace lanemq::io {

/// Times writes on their way to the disk, one after the other.
class CommitClock {
 public:
  explicit CommitClock(core::Times& times) : times_(times) {}

  void submitted(std::uint64_t ticket, core::TimePoint now) {
    if (ticket_) return;
    ticket_ = ticket;
    since_ = now;
  }
  void committed(std::uint64_t ticket, core::TimePoint now) {
    if (!ticket_ || ticket < *ticket_) return;
    times_.record(now - since_, now);
    ticket_.reset();
  }

 private:
  core::Times& times_;
  std::optional<std::uint64_t> ticket_;  ///< of those that are timed now
  core::TimePoint since_{};
};

/// Durable before visible: gives each turn's writes to the store, keeps the messages that depend on them, and
/// sends these in order when they are on disk. Not thread-safe; belongs to the loop.
class CommitQueue {
 public:
  /// All outlive it.
  CommitQueue(core::Broker& broker, Store& store, Post& post, core::Times& times)
      : broker_(broker), store_(store), post_(post), clock_(times) {}

  /// Notes of budgets are written at least this often, where no job is written.
  static constexpr auto kNotesAtLeastEvery = std::chrono::milliseconds(20);

  /// Gives the turn's writes to the store, which commits them while later turns go on; with the notes of
  /// budgets where they are due.
  void commit(core::TimePoint now);
  /// The same for the last turn: notes of budgets are written in any case.
  void commit_last(core::TimePoint now);
  /// Tells the core which notes it waits for are on disk, and notes how long a commit took.
  void take_committed(core::TimePoint now);
  /// Sends the turn's messages, and those whose writes are on disk now.
  void send();
  /// Whether messages wait whose writes are on disk, and may leave: not while another broker may own the
  /// store.
  bool has_committed() const;
  /// Bytes of writes and messages that wait for the disk.
  std::size_t backlog_bytes() const { return store_.backlog_bytes() + bytes_; }

 private:
  /// The messages of one turn, with the ticket of its writes.
  struct Uncommitted {
    std::uint64_t ticket = 0;
    std::size_t bytes = 0;
    std::unique_ptr<core::Outbox> outbox;
  };

  std::uint64_t may_be_sent() const;
  void send_committed();

  core::Broker& broker_;
  Store& store_;
  Post& post_;
  CommitClock clock_;
  std::deque<Uncommitted> uncommitted_;  ///< the oldest turn first
  std::size_t offered_ = 0;  ///< of these the first ones, which are committed and whose offers were sent
  std::size_t bytes_ = 0;    ///< of all of them
  std::vector<std::unique_ptr<core::Outbox>> spare_outboxes_;
  std::uint64_t ticket_ = 0;        ///< of the last turn
  std::uint64_t notes_ticket_ = 0;  ///< of the last notes
  core::TimePoint notes_at_{};
  std::optional<std::uint64_t> watched_notes_;  ///< notes that the core wants to know on disk
};

}  // namespace lanemq::io
