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

/// The queued jobs of one client in one flow, oldest first; a returned job is back at its old place.
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
  /// The client's next job; null: none is queued.
  Job* oldest() const;
  /// The job that arrived after this one and was never handed over; null: none. Also null for a returned job.
  Job* after(const Job& job) const { return job.returned ? nullptr : fresh_.next(job); }
  /// Whether the job arrived later than all others.
  bool comes_last(const Job& job) const { return fresh_.empty() || fresh_.back()->arrival < job.arrival; }
  /// Appends a job that has just arrived. Requires: comes_last().
  void push(Job& job);
  /// Puts a job back by its arrival: it was in this queue before, or in one of another lane.
  void put_back(Job& job);
  void remove(Job& job);

  /// Appends all its jobs, in no particular order.
  void append_to(std::vector<Job*>& all) const;

  /// Whether its jobs leave it to other clients' jobs to try the upstream (Service::bars). A change is
  /// followed by Flow::update().
  bool barred = false;
  std::size_t jobs = 0;             ///< jobs that refer to it, running ones included
  ListHook<ClientQueue> idle_hook;  ///< listed while jobs is 0

 private:
  friend class Flow;

  Flow& flow_;
  Client& client_;
  IntrusiveList<Job, &Job::hook> fresh_;
  std::map<std::uint64_t, Job*> returned_;  // by arrival; few: workers gave them back

  // Kept by Flow:
  std::int64_t tag_ = 0;           // the flow's virtual time at which its next job starts
  std::int64_t tag_rest_ = 0;      // the rest, less than a unit of tag_
  std::uint32_t weight_ = 0;       // as counted in the flow while it takes turns
  std::uint64_t arrival_ = 0;      // of its oldest job while it takes turns
  std::size_t turn_at_ = kNoTurn;  // place in the flow's heap
  static constexpr std::size_t kNoTurn = static_cast<std::size_t>(-1);
};

inline Flow& Job::flow() const {
  return queue->flow();
}

}  // namespace lanemq::core
