// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/crashing_host.hpp"

#include <algorithm>
#include <stdexcept>

namespace lanemq::sim {
namespace {

/// Notes are written with other writes, and so often without.
constexpr auto kNotesAtLeastEvery = std::chrono::milliseconds(20);

/// A store that refuses what it is given, or cannot read it, is a promise broken by the core.
template <class Use>
void strictly(Use use) {
  try {
    use();
  } catch (const Violation&) {
    throw;
  } catch (const std::logic_error& error) {
    violated(std::string("the store: ") + error.what());
  }
}

}  // namespace

CrashingHost::CrashingHost(const Swarm& swarm, const Crashes& crashes, Scheduler& scheduler, Random& random,
                           Trace* trace)
    : BrokerHost(swarm, scheduler, random, trace, witness_), crashes_(crashes), witness_(swarm, crashes) {
  start_again({}, false);
}

// ---- lives --------------------------------------------------------------------------------------------

void CrashingHost::crash() {
  if (trace_ != nullptr) trace_->add(scheduler_.now(), "the broker dies");
  lose_broker();
  store_.crash();
  waiting_.clear();
  reading_.clear();
  read_.clear();
  committing_ = false;
  watched_notes_ = 0;
  while (!notes_.empty() && notes_.back().first > store_.committed())
    notes_.pop_back();
  const core::TimePoint noted_at = notes_.empty() ? core::TimePoint{} : notes_.back().second;
  witness_.crashed(noted_at);
  if (upstreams_ != nullptr) upstreams_->broker_died(noted_at, scheduler_.now());
  awaits_body_since_.clear();
  change_addresses();
}

void CrashingHost::start_again(const ClockChange& change, bool in_vain) {
  const core::TimePoint now = scheduler_.now();
  if (trace_ != nullptr)
    trace_->add(now, std::string(in_vain ? "the broker starts in vain" : "the broker starts") +
                         ", the wall clock was set by " + std::to_string(core::to_ms(change.wall)) + "ms" +
                         (change.rebooted ? ", the machine was started anew" : ""));
  // What an operator changed is not in the configuration, and gone.
  const std::int64_t wall_ms = options_.wall_ms + core::to_ms(change.wall);
  options_ = file_;
  options_.wall_ms = wall_ms;
  if (upstreams_ != nullptr) upstreams_->configured(options_, false, now);
  clock_set_ += change.wall;
  if (change.rebooted) {
    // The store's clock goes on from what was noted, by the wall clock, and never goes back behind it.
    clock_set_ -= std::max(change.wall, -change.noted);
    witness_.time_is_void(now);
    if (upstreams_ != nullptr) upstreams_->memory_is_void();
  }
  broker_ = std::make_unique<core::Broker>(options_, random_.next());
  strictly([&] { store_.rows().restore(*broker_, now, clock_set_); });
  if (in_vain) return broker_.reset();
  // Nobody is served before this life's beginning is on disk: job numbers are its own from then on.
  store_.submit(broker_->outbox().writes);
  commit_all();
  change_addresses();
  witness_.started(now);
  tell_full_ = full_;
  schedule_turn(now);
}

void CrashingHost::fill(bool full, bool commits) {
  if (trace_ != nullptr)
    trace_->add(scheduler_.now(), full ? commits ? "the disk is full" : "the disk is full, and stands still"
                                       : "the disk is good");
  full_ = full;
  commits_ = commits;
  if (is_down()) return;
  tell_full_ = true;
  schedule_turn(scheduler_.now());
  begin_commit();
}

// ---- turns --------------------------------------------------------------------------------------------

void CrashingHost::begin_turn() {
  const core::TimePoint now = scheduler_.now();
  if (std::exchange(tell_full_, false)) {
    broker_->handle(core::StoreFull{full_}, now);
    witness_.told_full(full_);
  }
  for (const Reading& read : std::exchange(read_, {})) {
    if (read.of_result)
      broker_->handle(store_.rows().result(read.number), now);
    else
      broker_->handle(core::BodyRead{read.number, store_.rows().body(read.number)}, now);
  }
}

void CrashingHost::send_all() {
  const core::TimePoint now = scheduler_.now();
  core::Outbox& outbox = broker_->outbox();
  read_bodies();
  if (broker_->has_notes() &&
      (!outbox.writes.empty() || broker_->needs_notes() || now - noted_at_ >= kNotesAtLeastEvery)) {
    if (broker_->write_notes()) watched_notes_ = store_.submitted() + 1;
    noted_at_ = now;
    notes_.emplace_back(store_.submitted() + 1, now);
  }
  if (broker_->has_notes()) schedule_turn(now + kNotesAtLeastEvery);
  if (!outbox.writes.empty()) store_.submit(outbox.writes);
  for (const core::Notice& notice : outbox.notices)
    witness_.noticed(notice);
  release(outbox, false, now);
  if (store_.committed() == store_.submitted()) {
    release(outbox, true, now);
  } else if (std::any_of(outbox.sends.begin(), outbox.sends.end(),
                         [](const core::Send& send) { return send.waits; })) {
    note_waiting_offers(outbox);
    waiting_.push_back({store_.submitted(), now, std::make_unique<core::Outbox>()});
    outbox.move_sends(*waiting_.back().outbox);
  }
  outbox.clear();
  begin_commit();
}

void CrashingHost::note_waiting_offers(const core::Outbox& outbox) {
  for (const core::Send& send : outbox.sends) {
    if (!send.waits || send.peer != core::Peer::worker) continue;
    Items<wire::WorkerCommand> commands;
    if (const DecodeError* error = waiting_decoder_.decode(outbox.header(send), {}, commands))
      violated("unreadable: " + error->message);
    for (std::size_t item = 0; item < commands.size(); ++item)
      if (const auto* offer = std::get_if<wire::JobOffer>(&commands[item]))
        witness_.offer_waits(*offer, scheduler_.now());
  }
}

/// Some bodies are at hand, since they were read ahead; others have to be read.
void CrashingHost::read_bodies() {
  core::Outbox& outbox = broker_->outbox();
  for (const core::BodyWanted& wanted : std::exchange(outbox.reads, {})) {
    if (!wanted.awaited) continue;
    const std::uint64_t after = store_.submitted() + (outbox.writes.empty() ? 0 : 1);
    if (wanted.of_result) {
      reading_.push_back({wanted.number, after, true});
      continue;
    }
    witness_.awaits_body(wanted.number, scheduler_.now());
    awaits_body_since_[wanted.number] = scheduler_.now();
    const auto body = store_.rows().body(wanted.number);
    if (body && random_.percent(30))
      broker_->handle(core::BodyRead{wanted.number, body}, scheduler_.now());
    else
      reading_.push_back({wanted.number, after});
  }
}

// ---- commits ------------------------------------------------------------------------------------------

void CrashingHost::begin_commit() {
  // What can be read now is read whether or not there is anything to commit.
  const auto ready = std::stable_partition(reading_.begin(), reading_.end(), [&](const Reading& reading) {
    return reading.after > store_.committed();
  });
  for (auto reading = ready; reading != reading_.end(); ++reading)
    scheduler_.after(random_.between(core::Duration(0), crashes_.read_max),
                     [this, read = *reading, life = life_] {
                       if (life != life_) return;
                       read_.push_back(read);
                       schedule_turn(scheduler_.now());
                     });
  reading_.erase(ready, reading_.end());

  if (committing_ || !commits_ || store_.committed() == store_.submitted()) return;
  committing_ = true;
  std::uint64_t number = store_.submitted();
  if (crashes_.splits) number = store_.committed() + 1 + random_.below(number - store_.committed());
  commit_at(scheduler_.now() + random_.between(crashes_.commit_min, crashes_.commit_max), number);
}

/// In a process that may be stopped.
void CrashingHost::commit_at(core::TimePoint when, std::uint64_t number) {
  scheduler_.at(when, [this, number, life = life_] {
    if (life != life_) return;
    if (stands_still()) return commit_at(stands_until_, number);
    committing_ = false;
    commit(number);
    begin_commit();
  });
}

void CrashingHost::commit(std::uint64_t number) {
  strictly([&] { store_.commit(number); });
  if (watched_notes_ != 0 && watched_notes_ <= store_.committed()) {
    watched_notes_ = 0;
    broker_->notes_saved();
  }
  while (notes_.size() > 1 && notes_[1].first <= store_.committed())
    notes_.pop_front();
  while (!waiting_.empty() && waiting_.front().number <= store_.committed()) {
    const Waiting turn = std::move(waiting_.front());
    waiting_.pop_front();
    release(*turn.outbox, true, turn.decided_at);
  }
}

void CrashingHost::commit_all() {
  if (store_.submitted() > store_.committed()) commit(store_.submitted());
}

core::TimePoint CrashingHost::decided_at(std::uint64_t job) {
  const auto awaited = awaits_body_since_.extract(job);
  return awaited.empty() ? releasing_decided_at_ : awaited.mapped();
}

void CrashingHost::release(const core::Outbox& outbox, bool waiting, core::TimePoint decided_at) {
  // The witness is shown the order of the decisions, which is that of the messages to all peers together.
  struct Item {
    std::size_t order;
    const core::Send* send;
    std::size_t item;
  };
  std::vector<Item> items;
  for (const core::Send& send : outbox.sends) {
    if (send.waits != waiting) continue;
    const std::vector<std::size_t> order = outbox.order(send);
    for (std::size_t item = 0; item < order.size(); ++item)
      items.push_back({order[item], &send, item});
  }
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.order < b.order; });
  witness_.releasing(decided_at, scheduler_.now(), waiting);
  releasing_decided_at_ = decided_at;
  releasing_waited_ = waiting;
  for (const Item& one : items)
    report_item(outbox, *one.send, one.item);
  for (const core::Send& send : outbox.sends)
    if (send.waits == waiting) post(outbox, send);
}

}  // namespace lanemq::sim
