// SPDX-License-Identifier: Apache-2.0
#include "broker/io/commits/commit_queue.hpp"

#include <algorithm>

#include "broker/io/base/failpoint.hpp"

namespace lanemq::io {
namespace {

/// A turn sends this many committed messages, or a few more: a commit may release a thousand answers of one
/// client, and others must not wait for all of them.
constexpr std::size_t kCommittedSendsPerTurn = 64;
/// Outboxes of committed turns that are kept, to use their memory again.
constexpr std::size_t kSpareOutboxesMax = 32;
constexpr std::size_t kSpareOutboxBytesMax = std::size_t{1} << 20;

}  // namespace

void CommitQueue::commit(core::TimePoint now) {
  core::Writes& writes = broker_.outbox().writes;
  // While the disk stands still no further notes are queued: the next notes replace those that wait.
  const bool due = now - notes_at_ >= kNotesAtLeastEvery && notes_ticket_ <= store_.committed();
  const bool notes = broker_.has_notes() && (!writes.empty() || broker_.needs_notes() || due);
  bool watched = false;
  if (notes) {
    notes_at_ = now;
    watched = broker_.write_notes();
  }
  if (!writes.empty()) {
    ticket_ = store_.submit(writes);
    clock_.submitted(ticket_, now);
  }
  if (notes) notes_ticket_ = ticket_;
  if (watched) watched_notes_ = ticket_;
}

void CommitQueue::commit_last(core::TimePoint now) {
  notes_at_ = {};
  notes_ticket_ = 0;
  commit(now);
}

void CommitQueue::take_committed(core::TimePoint now) {
  clock_.committed(store_.committed(), now);
  if (!watched_notes_ || store_.committed() < *watched_notes_) return;
  watched_notes_.reset();
  broker_.notes_saved();
}

void CommitQueue::send() {
  post_.flush_backlogs();
  core::Outbox& outbox = broker_.outbox();
  post_.send(outbox, {.waiting = false});  // what needs no disk does not wait
  send_committed();
  const bool any_waits = std::any_of(outbox.sends.begin(), outbox.sends.end(),
                                     [](const core::Send& send) { return send.waits; });
  if (any_waits && (!uncommitted_.empty() || ticket_ > may_be_sent())) {
    if (spare_outboxes_.empty()) spare_outboxes_.push_back(std::make_unique<core::Outbox>());
    uncommitted_.push_back({ticket_, outbox.held_bytes(), std::move(spare_outboxes_.back())});
    bytes_ += uncommitted_.back().bytes;
    spare_outboxes_.pop_back();
    return outbox.move_sends(*uncommitted_.back().outbox);
  }
  if (any_waits) post_.send(outbox, {.waiting = true});
  outbox.clear_sends();
}

bool CommitQueue::has_committed() const {
  return !uncommitted_.empty() && uncommitted_.front().ticket <= may_be_sent();
}

/// The last ticket whose messages may leave. A process that stood still wakes with what it had committed
/// before: by then another broker may own the store, and a call that leaves so late is in none of its
/// windows.
std::uint64_t CommitQueue::may_be_sent() const {
  return store_.away() ? 0 : store_.committed();
}

void CommitQueue::send_committed() {
  // A hand-over leaves at once: if it stayed here in a crash, the next life would wait for a worker that
  // never had the job.
  const std::uint64_t committed = may_be_sent();
  for (; offered_ < uncommitted_.size() && uncommitted_[offered_].ticket <= committed; ++offered_)
    post_.send(*uncommitted_[offered_].outbox, {.waiting = true, .to_others = false});
  std::size_t sent = 0;
  while (sent < kCommittedSendsPerTurn && offered_ > 0) {
    std::unique_ptr<core::Outbox> outbox = std::move(uncommitted_.front().outbox);
    bytes_ -= uncommitted_.front().bytes;
    uncommitted_.pop_front();
    --offered_;
    reached(Failpoint::loop_before_reply);
    post_.send(*outbox, {.waiting = true, .to_workers = false});
    sent += outbox->sends.size();
    if (spare_outboxes_.size() >= kSpareOutboxesMax || outbox->bytes.size() > kSpareOutboxBytesMax) continue;
    outbox->clear_sends();
    spare_outboxes_.push_back(std::move(outbox));
  }
}

}  // namespace lanemq::io
