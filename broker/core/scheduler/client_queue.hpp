// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "broker/core/base/intrusive_list.hpp"
#include "broker/core/jobs/job.hpp"

namespace lanemq::core {

struct Client;
class Flow;

/// The queued jobs of one client in one flow, oldest first; a job that comes back stands at its old place.
///
/// Owned by its client. Jobs must stay at their address while they are queued.
class ClientQueue {
 public:
  ClientQueue(Flow& flow, Client& client) : flow_(flow), client_(client) {}
  ClientQueue(const ClientQueue&) = delete;
  ClientQueue& operator=(const ClientQueue&) = delete;

  Flow& flow() const { return flow_; }
  Client& client() const { return client_; }
  bool empty() const { return fresh_.empty() && returned_.empty(); }
  /// The job whose turn it is within the client, null when there is none.
  Job* oldest() const;
  /// The one that came next after a queued job that was never handed over; null where there is none.
  Job* after(const Job& job) const { return job.returned ? nullptr : fresh_.next(job); }
  /// Whether the job's arrival is the latest so far.
  bool comes_last(const Job& job) const { return fresh_.empty() || fresh_.back()->arrival < job.arrival; }
  /// Appends a job that has just arrived. Requires: comes_last().
  void push(Job& job);
  /// Puts a job back that was in this queue before, or in one of another lane, at its place by arrival.
  void put_back(Job& job);
  void remove(Job& job);

  /// All its jobs, in no particular order.
  void append_to(std::vector<Job*>& all) const;

  /// Whether its jobs leave it to those of other clients to try an upstream (Service::bars). Its flow is to
  /// be told.
  bool barred = false;
  std::size_t jobs = 0;             ///< that refer to it, running ones included
  ListHook<ClientQueue> idle_hook;  ///< listed while none does

 private:
  friend class Flow;

  Flow& flow_;
  Client& client_;
  IntrusiveList<Job, &Job::hook> fresh_;
  std::map<std::uint64_t, Job*> returned_;  // by arrival; few: what workers gave back

  // Kept by Flow:
  std::int64_t tag_ = 0;           // the flow's virtual time at which its next job starts
  std::int64_t tag_rest_ = 0;      // of a unit of it
  std::uint32_t weight_ = 0;       // as counted in the flow while it takes turns
  std::uint64_t arrival_ = 0;      // of its oldest job, likewise
  std::size_t turn_at_ = kNoTurn;  // its place in the flow's heap
  static constexpr std::size_t kNoTurn = static_cast<std::size_t>(-1);
};

inline Flow& Job::flow() const {
  return queue->flow();
}

}  // namespace lanemq::core
