// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "broker/core/base/time.hpp"
#include "broker/core/budgets/circuit_breaker.hpp"
#include "broker/core/jobs/job.hpp"
#include "broker/core/scheduler/dispatcher.hpp"
#include "broker/core/scheduler/workers.hpp"

namespace lanemq::core {

class Journal;
struct State;
class Upstreams;
class Watchers;

/// Jobs at workers: hands jobs over, holds their places, and reads bodies back that only the store has.
class Handover {
 public:
  Handover(State& state, Journal& journal, Dispatcher& dispatcher, Upstreams& upstreams, Watchers& watchers)
      : state_(state),
        journal_(journal),
        dispatcher_(dispatcher),
        upstreams_(upstreams),
        watchers_(watchers) {}
  Handover(const Handover&) = delete;
  Handover& operator=(const Handover&) = delete;

  /// Hands the picked job over. Requires: a place is free, and the budgets have room for the claim.
  void start(const Pick& pick, TimePoint now);
  /// Sends the job to its worker.
  void offer(Job& job, const Blob& body, TimePoint now);
  /// Takes over a job that the worker has run since before the broker's restart. False: this is no such job.
  bool adopt(Worker& worker, wire::Lease lease, TimePoint now);
  /// The worker turns out to live, and runs a job that waits since it was taken for lost. False: the job
  /// does not.
  bool go_on(Worker& worker, const Lost& lost, TimePoint now);
  /// The job's call is over; `verdict`: what it says about the upstream. Frees the place; the caller erases
  /// the job if it has ended.
  void leave(Job& job, Verdict verdict, TimePoint now);
  /// The worker confirmed the job, or it is over: its body is not lent any more.
  void take_back(Away& away);

  /// The bound of lent bytes; one body may go beyond it.
  std::size_t lent_bytes_max() const;

 private:
  bool debit_waits(const Reservation& reservation);
  void run_on(Job& job, Worker& worker, TimePoint now);
  void take_place(Job& job, Worker& worker);
  void lend(Job& job);
  void hold_bodies(bool held);
  void read_ahead(const Job& job);

  State& state_;
  Journal& journal_;
  Dispatcher& dispatcher_;
  Upstreams& upstreams_;
  Watchers& watchers_;
};

}  // namespace lanemq::core
