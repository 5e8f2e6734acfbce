// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "tests/sim/broker_host.hpp"
#include "tests/sim/crashes.hpp"
#include "tests/sim/crashing_store.hpp"
#include "tests/sim/witness.hpp"

namespace lanemq::sim {

/// A broker with a store, as its loop has it: a turn's writes are committed while later turns go on, what
/// waits for them is sent then, and bodies come back later. It can die at any time.
class CrashingHost final : public BrokerHost {
 public:
  CrashingHost(const Swarm& swarm, const Crashes& crashes, Scheduler& scheduler, Random& random,
               Trace* trace);

  /// Dies, with all that was not committed or sent. Requires: it is not down.
  void crash();
  /// The clocks of the machine while the broker was down.
  struct ClockChange {
    core::Duration wall{};   ///< the wall clock was set forward by so much
    bool rebooted = false;   ///< the machine's own clock tells nothing of the time in between
    core::Duration noted{};  ///< rebooted: how long ago the store's clock was noted last
  };
  /// Starts on what is committed; `in_vain`: dies at once, with everything restored and nothing written.
  /// Requires: it is down.
  void start_again(const ClockChange& change, bool in_vain);
  /// All is committed, whatever the disk is like: the end of a broker that stops in good order.
  void commit_all();
  /// The disk is full, or good again; `commits`: what is written is committed all the same.
  void fill(bool full, bool commits);

  Witness& witness() { return witness_; }
  const StoreModel& rows() const { return store_.rows(); }

 private:
  void begin_turn() override;
  /// What was decided is looked at when it is sent.
  void report() override {}
  void send_all() override;
  core::TimePoint decided_at(std::uint64_t job) override;
  /// What it takes of budgets outlives the broker, but where the disk is full.
  bool is_durable() const override { return releasing_waited_ || !(full_ || tell_full_); }
  void read_bodies();
  void release(const core::Outbox& outbox, bool waiting, core::TimePoint decided_at);
  void release_committed();
  void note_waiting_offers(const core::Outbox& outbox);
  void begin_commit();
  void commit_at(core::TimePoint when, std::uint64_t number);
  void commit(std::uint64_t number);

  const Crashes& crashes_;
  Witness witness_;
  Decoder waiting_decoder_;
  CrashingStore store_;
  core::Duration clock_set_{};  // of the wall clock, by which the store's does not go
  /// The sends of a turn that wait for its writes.
  struct Waiting {
    std::uint64_t number;
    core::TimePoint decided_at;
    std::unique_ptr<core::Outbox> outbox;
  };
  std::deque<Waiting> waiting_;
  /// When turns that wrote notes were, by their numbers.
  std::deque<std::pair<std::uint64_t, core::TimePoint>> notes_;
  core::TimePoint noted_at_{};
  std::uint64_t watched_notes_ = 0;  // the commit of which the broker wants to hear; 0: none
  struct Reading {
    std::uint64_t number, after;  ///< after: the turn that has to be committed first
    bool of_result = false;
  };
  std::vector<Reading> reading_;
  std::vector<Reading> read_;
  /// What is released was decided then, unless its body had to be read.
  core::TimePoint releasing_decided_at_{};
  bool releasing_waited_ = false;
  std::map<std::uint64_t, core::TimePoint> awaits_body_since_;
  bool committing_ = false, commits_ = true, full_ = false, tell_full_ = false;
};

}  // namespace lanemq::sim
