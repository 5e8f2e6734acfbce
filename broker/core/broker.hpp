// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "broker/core/base/event.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/jobs/kept_result.hpp"
#include "broker/core/scheduler/state.hpp"

namespace lanemq::core {

class Groups;
struct Parts;
class Restorer;

/// The broker's decisions, without a clock, a socket, a file, a thread or a log: it is told what happened and
/// says what is wanted. Equal options, seed and events give equal answers.
///
/// A turn is: handle() for each thing that happened, advance() once, take the outbox, send it, clear it.
/// Times must not go back from call to call.
class Broker {
 public:
  /// Requires: at least one lane, at most kLanesMax, and one default lane.
  Broker(Options options, std::uint64_t seed);
  ~Broker();
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;

  /// Restores what an earlier life of the broker has left; to be used before the first handle(). The broker
  /// has to outlive it.
  Restorer restorer();

  /// Takes note of what happened. Hands out no job: only advance() does.
  void handle(const Event& event, TimePoint now);
  /// Brings everything up to `now`: expires, wakes, then hands out what can run. A large backlog of due
  /// timers is handled in part; next_wakeup() is then not after `now`.
  void advance(TimePoint now);
  /// When advance() wants to be called even if nothing happens.
  std::optional<TimePoint> next_wakeup() const;
  /// The effects of this turn. The caller sends the messages in order and clears it.
  Outbox& outbox() { return state_.outbox; }

  /// Draining, and nothing runs any more.
  bool drained() const { return state_.draining && state_.running() == 0; }
  /// Ends what still runs with `draining`; for when the time to finish is over.
  void give_up_running(TimePoint now);

  /// Adds what has changed besides jobs and results to the outbox's writes: once for each commit. True if
  /// notes_saved() is to be called when they are on disk.
  bool write_notes();
  bool has_notes() const;
  /// Whether this turn must write them: a message in the outbox waits for them, or they are a group's.
  bool needs_notes() const;
  void notes_saved() { state_.budgets.saved(); }
  /// No job is handed over any more: the next notes are the last ones, and debit nothing ahead.
  void end_notes() { state_.budgets.end_leases(); }

  const Options& options() const { return state_.options; }
  const Stats& stats() const { return state_.stats; }
  const std::vector<std::unique_ptr<Lane>>& lanes() const { return state_.lanes; }
  const Workers& workers() const { return state_.workers; }
  const Clients& clients() const { return state_.clients; }
  const Connections& connections() const { return state_.connections; }
  Budgets& budgets() { return state_.budgets; }
  const Budgets& budgets() const { return state_.budgets; }
  const JobTable& jobs() const { return state_.jobs; }
  const Pauses& pauses() const { return state_.pauses; }
  const Groups& groups() const;
  std::size_t running() const { return state_.running(); }
  std::size_t kept_results() const { return kept().size(); }
  std::size_t kept_bytes() const { return kept().bytes(); }
  std::size_t dead_jobs() const { return kept().dead_size(); }
  std::size_t dead_bytes() const { return kept().dead_bytes(); }
  /// Bytes of kept results in the store, about.
  std::size_t kept_stored_bytes() const { return kept().stored_bytes(); }
  /// How long after its job ended an id is known at present: retain, or less while a bound forgets results
  /// early.
  Duration ids_good_for(TimePoint now) const;
  /// Bytes of all jobs, of who waits for them and of kept results, as the bounds count them.
  std::size_t memory_bytes() const;
  /// Bytes of bodies that were read back from the store and whose workers have not confirmed them.
  std::size_t lent_bytes() const { return state_.lent_bytes; }
  /// The bound of lent_bytes(); one body may go beyond it.
  std::size_t lent_bytes_max() const;
  /// The breakers that keep jobs from a service's upstream, for reports. Views: good until the next event.
  std::vector<ShownBreaker> breakers_of(const Service& service) const;
  /// By lane: the age of the job that has been queued longest.
  std::vector<Duration> oldest(TimePoint now) const;

 private:
  void on(const OptionsChanged& event, TimePoint now);
  void on(const StoreStalled& event, TimePoint now);
  void on(const StoodStill& event);
  void fire(Timer& timer, TimePoint now);
  const KeptResults& kept() const;

  State state_;
  std::unique_ptr<Parts> parts_;  // hold references to state_
};

}  // namespace lanemq::core
