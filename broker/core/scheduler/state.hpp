// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <lanemq/blob.hpp>
#include <lanemq/codec.hpp>

#include "broker/core/base/event.hpp"
#include "broker/core/base/options.hpp"
#include "broker/core/base/outbox.hpp"
#include "broker/core/base/pauses.hpp"
#include "broker/core/base/stats.hpp"
#include "broker/core/base/timer_wheel.hpp"
#include "broker/core/base/times.hpp"
#include "broker/core/budgets/budgets.hpp"
#include "broker/core/budgets/caller_budgets.hpp"
#include "broker/core/budgets/estimates.hpp"
#include "broker/core/jobs/job_table.hpp"
#include "broker/core/scheduler/clients.hpp"
#include "broker/core/scheduler/connections.hpp"
#include "broker/core/scheduler/isolation.hpp"
#include "broker/core/scheduler/lanes.hpp"
#include "broker/core/scheduler/workers.hpp"

namespace lanemq::core {

/// Services and clients whose waits and runs are known: 121 KiB each.
inline constexpr std::size_t kTimedServicesMax = 16, kTimedClientsMax = limits::timed_clients_max;

/// While the store is away, answers that have waited their time are looked at again so often.
inline constexpr Duration kAwayLook = std::chrono::seconds(1);

/// The tables that all parts of the broker share. Looks up, and keeps tables consistent with each other;
/// decides nothing. Owned by Broker; parts hold a reference.
struct State {
  /// Requires: at least one lane, at most kLanesMax, and one default lane.
  State(Options all, std::uint64_t seed);
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// Null: unknown. An empty name is the default lane.
  Lane* lane_named(std::string_view name) const;
  /// The lane of that name; the default lane where it is not configured.
  Lane& lane_or_default(std::string_view name) const;
  /// For people: high, normal, low.
  std::string lane_names() const;
  /// Null: unknown.
  Budget* budget_named(std::string_view name);

  /// The flow for jobs of the service in the lane, which is added if there is none.
  Flow& flow_of(Lane& lane, Service& service, BudgetSet budgets);
  /// The budgets that count the job from now on. Its flow may be another one's: it came before its model was
  /// set apart, or before its limits were learnt.
  BudgetSet home_of(const Job& job);
  /// Sets what a flow knows of its budgets, and whether an operator has paused something that it needs.
  void update_flow(Flow& flow);
  void update_flows(const FlowGroup& group);
  void update_flows();
  /// Puts the job into its queue or among the delayed jobs, and counts it. Requires: it is queued or delayed,
  /// and has its lane and client queue.
  void enqueue(Job& job);
  /// The opposite. Requires: its state is still the one it was enqueued with.
  void leave_queue(Job& job);
  /// Sets the job's timer to the next time when something is due for it.
  void set_timer(Job& job);
  /// The job's attempt is over, and what its worker said of it goes.
  void forget_progress(Job& job);
  /// Record into the figures of the job's service and client, where these have any. Require: it is in a queue
  /// or runs.
  void note_wait(const Job& job, Duration waited, TimePoint now);
  void note_run(const Job& job, Duration ran_for, TimePoint now);
  void note_tokens(const Job& job, std::int64_t tokens, TimePoint now);
  void set_away(bool away, TimePoint now) {
    if (store_away && !away) store_owned_at = now;
    store_away = away;
  }
  /// The start of a peer's counted silence, for a peer last heard at `heard`. While the store is away the
  /// broker refuses what peers ask, and they look elsewhere: that time does not count, and after it their
  /// silence begins anew, since they have to find their way back.
  TimePoint silent_from(TimePoint heard, TimePoint now) const {
    return store_away ? now : std::max(heard, store_owned_at);
  }
  /// Running jobs of all lanes.
  std::size_t running() const;

  /// Adds an answer to the outbox.
  template <class Message>
  void answer(const Origin& to, const Message& message, const Blob& body = {}) {
    Connection* const connection =
        to.grouping == nullptr && to.peer == Peer::client ? connections.find(to.address) : nullptr;
    outbox.add(to.peer, to.address, to.envelope, message, body,
               connection != nullptr ? &connection->grouping : to.grouping);
  }
  template <class Message>
  void tell(Worker& worker, const Message& message, const Blob& body = {}) {
    outbox.add(Peer::worker, worker.address, {}, message, body, &worker.grouping);
  }

  Options options;
  const ShardMap shards;  ///< as clients are told of them
  std::mt19937_64 random;
  std::vector<std::unique_ptr<Lane>> lanes;
  Lane* default_lane = nullptr;
  // Before those who hold places of theirs.
  NamedTimes service_times{kTimedServicesMax}, client_times{kTimedClientsMax};
  Workers workers;
  Isolation isolation{workers};
  Clients clients;
  Connections connections;
  Budgets budgets;
  CallerBudgets callers;
  Estimates estimates;
  std::uint64_t id_hash_seed;
  JobTable jobs;
  std::uint64_t body_hash_seed;
  TimerWheel timers;
  IntrusiveList<Away, &Away::hook> delayed;  ///< jobs that wait for a retry, or for their delay
  Pauses pauses;
  std::uint64_t next_arrival = 1;
  std::size_t bytes = 0;  ///< bytes of jobs, as the bounds count them
  /// Bytes of waiting requests besides the submits, and of bodies that were read back for workers.
  std::size_t waiters_bytes = 0, lent_bytes = 0;
  std::size_t groups_bytes = 0;  ///< bytes of groups of jobs
  bool bodies_held = false;      ///< lent_bytes is at its bound
  bool draining = false;
  bool store_full = false, store_behind = false, store_stalled = false;
  bool store_away = false, store_unsafe = false;
  TimePoint store_full_at{};     ///< when its disk became full last
  TimePoint store_owned_at{};    ///< when it was last away no more
  TimePoint store_went_on_at{};  ///< when it last stood still no more
  Stats stats;
  Outbox outbox;
  Buffer scratch;  ///< for texts that are needed until an answer is encoded

 private:
  template <class Note>
  void note(const Job& job, TimePoint now, Note&& note);
};

}  // namespace lanemq::core
