// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "broker/io/store/postgres/database/owner_row.hpp"

namespace lanemq::io {

/// Decides what the owner of a store in PostgreSQL does with its transactions, one at a time: each is settled
/// before another begins, since an earlier sending of it may still be under way on the server, and the row's
/// ticket does not tell what was in it.
///
/// Its driver calls begin(), does what step() says, and reports the result, until step() is `done` or the
/// store is lost. The row's state after a loss may be known to that server alone: it is `done` only after a
/// commit of the owner's own. Pure; not thread-safe.
class CommitFence {
 public:
  /// By a clock that runs through a suspend, after which another broker may own the store.
  using Time = std::chrono::nanoseconds;

  enum class Step : std::uint8_t {
    send,           ///< a transaction of epoch() and next_ticket(), with the changes if sends_changes()
    read_row,       ///< of a connection that is made anew where none stands; then row_read()
    wait_for_room,  ///< a pause, then waited()
    done,           ///< the transaction is in for good, and may be told
    deposed,        ///< another broker owns the store, or the next owner must find out what it holds
    commits_lost,   ///< the database knows less than was committed, or of earlier owners alone
  };
  enum class Refusal : std::uint8_t {
    fence,    ///< epoch or ticket are not what the transaction says
    room,     ///< the server has no room for it
    passing,  ///< for a reason that passes, or has by now: it may be sent again
  };

  /// `owned`: as this process has made it at `now`. `lease`: after so long without a commit a candidate takes
  /// the store over. `away_max`: how much longer to try, since this process cannot see the other one.
  CommitFence(OwnerRow owned, Time lease, Time away_max, Time now)
      : owned_(std::move(owned)),
        away_after_(lease * 4 / 5),
        patience_(lease + away_max),
        good_at_(now),
        told_ticket_(owned_.ticket) {}

  /// A transaction is to be settled; without changes it is a sign of life. Requires: no other one is.
  void begin(bool has_changes) {
    changes_.pending = changes_.sent = has_changes;
    changes_.ticket = 0;
    step_ = Step::send;
  }

  Step step() const { return step_; }
  bool sends_changes() const { return changes_.sent; }
  std::int64_t epoch() const { return owned_.epoch; }
  const OwnerRow& owner() const { return owned_; }
  /// Whether the row is that of this owner.
  bool owns(const OwnerRow& row) const { return row.is_of(owned_); }
  /// The ticket of the last transaction that is in.
  std::int64_t ticket() const { return owned_.ticket; }
  std::int64_t next_ticket() const { return owned_.ticket + 1; }
  /// Whether an earlier sending may still be under way.
  bool in_doubt() const { return in_doubt_; }
  /// When the last commit that succeeded was sent.
  Time good_at() const { return good_at_; }
  /// How long after good_at() another broker may soon own the store. Any thread may ask.
  Time away_after() const { return away_after_; }
  bool is_patient(Time now) const { return now - good_at_ < patience_; }

  // ---- step() is `send` ----

  void sent(Time now) {
    sent_at_ = now;
    under_way_ = true;
  }
  /// COMMIT has answered. `warned`: with a warning, which alone says that a wait for a standby was cancelled:
  /// others see the transaction, and the standby may not have it.
  void committed(bool warned) {
    if (warned) return lost();
    good_at_ = sent_at_;
    settled(true);
  }
  /// It was refused, and is undone.
  void refused(Refusal refusal) {
    under_way_ = false;
    if (refusal == Refusal::fence) step_ = Step::read_row;
    if (refusal == Refusal::room) step_ = Step::wait_for_room;
  }
  /// The transaction's outcome is unknown; the connection is not used any more.
  void lost() {
    in_doubt_ = in_doubt_ || under_way_;
    step_ = Step::read_row;
  }

  // ---- `read_row` ----

  void row_read(const OwnerRow& row) {
    // Servers that went on apart may each have an owner of one epoch.
    if (row.epoch < owned_.epoch)
      step_ = Step::commits_lost;
    else if (!owns(row))
      step_ = Step::deposed;
    // From before going back, or from what was sent since: it is unknown which, so neither is reported.
    else if (owned_.ticket < row.ticket && row.ticket <= went_back_from_)
      step_ = Step::deposed;
    else if (row.ticket == next_ticket())
      settled(false);
    else if (told_ticket_ <= row.ticket && row.ticket <= owned_.ticket)
      go_back(row.ticket);
    else
      step_ = Step::commits_lost;
  }

  // ---- `wait_for_room` ----

  /// `beats`: candidates have not seen for long that the owner is alive. A sign of life takes no room. There
  /// is none while an earlier sending may still be under way: the same is sent again.
  void waited(bool beats) {
    if (!in_doubt_) changes_.sent = changes_.pending && !beats;
    step_ = Step::send;
  }

 private:
  /// The transaction sent last is in. `told`: its commit said so, and not the row.
  void settled(bool told) {
    ++owned_.ticket;
    under_way_ = in_doubt_ = false;
    if (told) told_ticket_ = owned_.ticket, went_back_from_ = 0;
    if (changes_.sent) changes_.ticket = owned_.ticket;
    const bool was_beat = changes_.pending && !changes_.sent;
    step_ = told && !was_beat ? Step::done : Step::send;
    changes_.pending = changes_.sent = was_beat;
  }

  /// A standby was promoted that has not received what the row of another server said.
  void go_back(std::int64_t ticket) {
    if (ticket < owned_.ticket)
      went_back_from_ = std::max(went_back_from_, in_doubt_ ? next_ticket() : owned_.ticket);
    if (ticket < changes_.ticket) changes_.pending = true, changes_.ticket = 0;
    if (ticket < owned_.ticket) changes_.sent = changes_.pending;
    owned_.ticket = ticket;
    step_ = Step::send;
  }

  OwnerRow owned_;
  const Time away_after_, patience_;
  Time good_at_, sent_at_{};
  std::int64_t told_ticket_;  ///< of the last transaction whose own commit said that it is in
  struct Changes {
    bool pending = false;     ///< that are not in
    bool sent = false;        ///< with what is sent now
    std::int64_t ticket = 0;  ///< with which they are in, by the row's word; 0: they are not
  } changes_;
  /// Up to this another server, which was left for one that knew less, may have had other transactions under
  /// the tickets that come again now; 0: none.
  std::int64_t went_back_from_ = 0;
  Step step_ = Step::done;
  bool under_way_ = false;  ///< the last transaction was sent, and has no answer yet
  bool in_doubt_ = false;   ///< an earlier sending may be under way
};

}  // namespace lanemq::io
