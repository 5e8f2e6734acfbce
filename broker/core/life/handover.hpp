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

/// Jobs at workers: the one way in which a job is handed over, its place there, and bodies that are on disk
/// alone and have to be read back for it.
class Handover {
 public:
  Handover(State& state, Journal& journal, Dispatcher& dispatcher, Upstreams& upstreams)
      : state_(state), journal_(journal), dispatcher_(dispatcher), upstreams_(upstreams) {}
  Handover(const Handover&) = delete;
  Handover& operator=(const Handover&) = delete;

  /// Requires: there is a place for it, and its budgets have room for the claim.
  void start(const Pick& pick, TimePoint now);
  /// Says to its worker what a job that was handed over is.
  void offer(Job& job, const Blob& body, TimePoint now);
  /// What a worker still runs since before the broker's restart goes on as if nothing had been. False if it
  /// is not such a job.
  bool adopt(Worker& worker, wire::Lease lease, TimePoint now);
  /// The call that the job was handed over for is over, and this is what its end says of the upstream. Its
  /// place is free; a job that has ended is the caller's to erase.
  void leave(Job& job, Verdict verdict, TimePoint now);
  /// Its worker has the job, or it is over: the body that was read for it is not lent any more.
  void take_back(Away& away);

  /// What bodies may be lent at a time, and one body more.
  std::size_t lent_bytes_max() const;

 private:
  void take_place(Job& job, Worker& worker);
  void lend(Job& job);
  void hold_bodies(bool held);
  void read_ahead(const Job& job);

  State& state_;
  Journal& journal_;
  Dispatcher& dispatcher_;
  Upstreams& upstreams_;
};

}  // namespace lanemq::core
