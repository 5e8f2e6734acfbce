// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/cluster/owner_commits.hpp"

#include <utility>

namespace lanemq::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Step = io::CommitFence::Step;
using Refusal = io::CommitFence::Refusal;

// As PostgresCommits has them.
constexpr milliseconds kSlice{250};
constexpr seconds kHangs{2};

}  // namespace

OwnerCommits::OwnerCommits(Process& process, Database& database, Random& random,
                           std::shared_ptr<DatabaseWay> way, std::uint64_t& batches, io::OwnerRow owned,
                           io::CommitFence::Time lease, io::CommitFence::Time away_max, Calls calls)
    : process_(process),
      database_(database),
      random_(random),
      way_(std::move(way)),
      batches_(batches),
      calls_(std::move(calls)),
      fence_(std::move(owned), lease, away_max, process.boot()) {
  process_.after({}, [this] { next(); });
}

void OwnerCommits::submit(core::Writes&& writes) {
  turns_.emplace_back().swap(writes);
  process_.after({}, [this] { next(); });
}

void OwnerCommits::end() {
  ends_ = true;
  process_.after({}, [this] { next(); });
}

/// Takes what is there; where nothing is, it shows now and then that the owner is alive.
void OwnerCommits::next() {
  if (busy_ || over_) return;
  if (turns_.empty() && ends_) return give_back();
  if (turns_.empty() && process_.steady() < beat_at_) {
    if (!std::exchange(waits_for_beat_, true))
      process_.after(
          std::chrono::duration_cast<core::Duration>(beat_at_ - process_.steady()) + milliseconds(1), [this] {
            waits_for_beat_ = false;
            next();
          });
    return;
  }
  busy_ = true;
  count_ = turns_.empty() ? 0 : 1 + random_.below(turns_.size());
  batch_ = 0;
  batch_turns_.reset();
  if (count_ > 0) {
    batch_ = ++batches_;
    std::vector<core::Writes> turns;
    for (std::size_t i = 0; i < count_; ++i) {
      turns.push_back(std::move(turns_.front()));
      turns_.pop_front();
    }
    batch_turns_ = std::make_shared<const std::vector<core::Writes>>(std::move(turns));
  }
  fence_.begin(count_ > 0);
  step();
}

void OwnerCommits::step() {
  ++operation_;
  switch (fence_.step()) {
    case Step::send:
      return link_ ? send() : lose();
    case Step::read_row:
      return read_row();
    case Step::wait_for_room:
      return process_.after(kRetryPause, [this] {
        if (!may_go_on()) return;
        const bool beats = process_.steady() >= beat_at_;
        if (beats) beat_at_ = process_.steady() + io::OwnerWatch::kBeat;
        fence_.waited(beats);
        step();
      });
    case Step::done:
      return done();
    case Step::deposed:
      return be_over(End::deposed);
    case Step::commits_lost:
      return be_over(End::commits_lost);
  }
}

void OwnerCommits::done() {
  busy_ = false;
  beat_at_ = process_.steady() + io::OwnerWatch::kBeat;
  if (count_ > 0) calls_.committed(count_, batch_);
  next();
}

// ---- a transaction ------------------------------------------------------------------------------------

void OwnerCommits::send() {
  fence_.sent(process_.boot());
  LogEntry entry;
  entry.row = {.epoch = fence_.epoch(), .ticket = fence_.next_ticket(), .claim = fence_.owner().claim};
  if (fence_.sends_changes()) {
    entry.batch = batch_;
    entry.turns = batch_turns_;
  }
  answer_.reset();
  lost_ = looks_ = false;
  const std::uint64_t operation = operation_;
  link_->on_lost = process_.called<>([this, operation] {
    if (operation != operation_) return;
    lost_ = true;
    if (!looks_) sending_over();
  });
  database_.begin(link_, entry, process_.called<Committed>([this, operation](Committed answer) {
    if (operation != operation_) return;
    answer_ = answer;
    if (!looks_) sending_over();
  }));
  // Some transactions take a while to be sent.
  if (random_.percent(90))
    database_.commit(link_);
  else
    process_.after(random_.between(core::Duration(0), core::Duration(milliseconds(300))),
                   [this, link = link_] { database_.commit(link); });
  process_.after(
      kSlice, [this, operation, look_at = process_.steady() + kHangs] { watch_sending(operation, look_at); });
}

void OwnerCommits::watch_sending(std::uint64_t operation, std::chrono::steady_clock::time_point look_at) {
  if (operation != operation_ || !may_go_on()) return;
  if (process_.steady() >= look_at) return look_for_primary(operation);
  process_.after(kSlice, [this, operation, look_at] { watch_sending(operation, look_at); });
}

/// A server that has not answered for so long may be a primary no more.
void OwnerCommits::look_for_primary(std::uint64_t operation) {
  looks_ = true;
  database_.connect(way_, process_.called<DatabaseLink>([this, operation](DatabaseLink other) {
    const bool another = other && (other->server != link_->server || other->start != link_->start);
    if (other) database_.hang_up(other, true);
    looks_ = false;
    if (operation != operation_) return;
    if (another) return lose();
    if (answer_ || lost_) return sending_over();
    process_.after(kSlice, [this, operation, look_at = process_.steady() + kHangs] {
      watch_sending(operation, look_at);
    });
  }));
}

void OwnerCommits::sending_over() {
  if (!answer_) return lose();
  switch (*answer_) {
    case Committed::yes:
      fence_.committed(false);
      break;
    case Committed::warned:
      database_.hang_up(std::exchange(link_, nullptr), true);
      fence_.committed(true);
      break;
    case Committed::no_row:
      fence_.refused(Refusal::fence);
      break;
    case Committed::no_room:
      fence_.refused(Refusal::room);
      break;
    case Committed::locked:
      fence_.refused(Refusal::passing);
      break;
  }
  step();
}

/// The connection is of no use any more.
void OwnerCommits::lose() {
  if (link_) database_.hang_up(std::exchange(link_, nullptr), true);
  fence_.lost();
  step();
}

// ---- the row ------------------------------------------------------------------------------------------

void OwnerCommits::read_row() {
  if (!link_) return reconnect();
  const std::uint64_t operation = operation_;
  const auto fail = [this, operation] {
    if (operation != operation_) return;
    if (link_) database_.hang_up(std::exchange(link_, nullptr), true);
    ++operation_;
    process_.after(kRetryPause, [this] { reconnect(); });
  };
  link_->on_lost = process_.called<>(fail);
  process_.after(kStatementMax, fail);
  database_.read_row(link_, process_.called<const io::OwnerRow&>([this, operation](const io::OwnerRow& row) {
    if (operation == operation_) take_row(row);
  }));
}

void OwnerCommits::reconnect() {
  if (!may_go_on()) return;
  database_.connect(way_, process_.called<DatabaseLink>([this](DatabaseLink link) {
    if (!link) return process_.after(kRetryPause, [this] { reconnect(); });
    link_ = std::move(link);
    ++operation_;
    read_row();
  }));
}

void OwnerCommits::take_row(const io::OwnerRow& row) {
  fence_.row_read(row);
  // Each commit that was told is on two servers, and a standby that has most is promoted. But an old primary
  // may be there again.
  if (fence_.step() == Step::commits_lost && link_->server == database_.primary())
    violated("the owner of epoch " + std::to_string(row.epoch) + " misses commits: the row has " +
             std::to_string(row.ticket) + " of " + std::to_string(fence_.ticket()));
  step();
}

bool OwnerCommits::may_go_on() {
  if (over_) return false;
  if (fence_.is_patient(process_.boot())) return true;
  be_over(End::deposed);
  return false;
}

void OwnerCommits::give_back() {
  busy_ = true;
  ++operation_;
  if (!link_) return be_over(End::given_back);
  const std::uint64_t operation = operation_;
  const auto over = [this, operation] {
    if (operation == operation_) be_over(End::given_back);
  };
  link_->on_lost = process_.called<>(over);
  process_.after(seconds(1), over);
  database_.give_back(link_, fence_.owner(), process_.called<Committed>([over](Committed) { over(); }));
}

void OwnerCommits::be_over(End end) {
  if (std::exchange(over_, true)) return;
  ++operation_;
  calls_.over(end);
}

}  // namespace lanemq::sim
