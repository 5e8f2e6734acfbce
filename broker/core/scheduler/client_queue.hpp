// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "broker/core/base/intrusive_list.hpp"
#include "broker/core/base/placed_heap.hpp"
#include "broker/core/jobs/job.hpp"

namespace lanemq::core {

struct Client;
class Flow;
class Turns;

/// The queued jobs of one client in one flow, oldest first; a returned job is back at its old place.
///
/// A tenant's has no jobs of its own, but turns of its clients' queues inside.
///
/// Owned by its client. Jobs must stay at their address while they are queued.
class ClientQueue {
 public:
  ClientQueue(Flow& flow, Client& client);
  ~ClientQueue();
  ClientQueue(const ClientQueue&) = delete;
  ClientQueue& operator=(const ClientQueue&) = delete;

  Flow& flow() const { return flow_; }
  Client& client() const { return client_; }
  bool empty() const { return oldest() == nullptr; }
  /// Its own queued jobs.
  std::size_t queued() const { return fresh_.size() + returned_.size(); }
  /// The client's next job, but for those that go out alone; null: none is queued.
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
  /// Forgets the service it was given: the queue joins other turns, where that does not count.
  void begin_anew() { tag_ = tag_rest_ = 0; }

  /// Whether its jobs leave it to other clients' jobs to try the upstream (Service::bars). A change is
  /// followed by Flow::update().
  bool barred = false;
  bool newcomer = false;            ///< it has come to its turns, and was not served since; kept by Turns
  ClientQueue* tenant = nullptr;    ///< of the client's tenant, in the same flow; null: it has none
  std::unique_ptr<Turns> inside;    ///< of a tenant's: its clients' turns; null: of a client's
  std::size_t jobs = 0;             ///< jobs that refer to it, running ones included; of a tenant's: queues
  ListHook<ClientQueue> idle_hook;  ///< listed while jobs is 0

 private:
  friend class Turns;

  Flow& flow_;
  Client& client_;
  IntrusiveList<Job, &Job::hook> fresh_;
  std::map<std::uint64_t, Job*> returned_;  // by arrival; few: workers gave them back

  // Kept by Turns:
  std::int64_t tag_ = 0;           // the virtual time at which its next job starts
  std::int64_t tag_rest_ = 0;      // the rest, less than a unit of tag_
  std::uint32_t weight_ = 0;       // as counted while it takes turns
  std::uint64_t arrival_ = 0;      // of its oldest job while it takes turns
  std::size_t turn_at_ = kNoTurn;  // place in its heap
  static constexpr std::size_t kNoTurn = static_cast<std::size_t>(-1);
};

/// Queues take turns by cost: next is the one whose last jobs cost least for its weight, and each job moves
/// it back by cost / weight. This is start-time fair queuing (Goyal, Vin & Cheng, 1996): of two that both
/// wait, neither gets more than its weighted share and one job. It needs no quantum; deficit round robin
/// does, which with jobs of 10 to 100,000 tokens is either unfair or slow. An idle queue saves nothing up.
///
/// There, virtual time is where the last job started, and newcomers start at it: while they alone are served
/// it stands still, and each further one passes the waiting queues. So while newcomers wait each job moves it
/// on by its part among all waiting queues, as in WF2Q+ (Bennett & Zhang, 1997), and a newcomer's job by its
/// part among itself and the queues served before: to the next turn of these, and as far beyond it as the
/// last newcomer's job moved that. A queue that virtual time has passed keeps that lead when it is served,
/// and catches up. So a waiting queue gets its part by weight, and a newcomer waits for at most the weight of
/// two of its own turns, however many others come.
///
/// Owns nothing.
class Turns {
 public:
  bool empty() const { return known_.empty() && newcomers_.empty(); }
  /// The queue whose turn it is; null: none waits.
  ClientQueue* next() const {
    if (newcomers_.empty()) return known_.front();
    return known_.empty() || newcomers_.front_key() < known_.front_key() ? newcomers_.front()
                                                                         : known_.front();
  }
  std::size_t size() const { return known_.size() + newcomers_.size(); }
  /// Calls `tell` with at most `most` of the queues.
  template <class Tell>
  void each_of(std::size_t most, Tell tell) const {
    known_.each_of(most, tell);
    if (known_.size() < most) newcomers_.each_of(most - known_.size(), tell);
  }
  /// Whether another client's queue takes turns.
  bool others_than(const Client& client) const {
    return size() > 1 || (size() == 1 && &next()->client() != &client);
  }
  /// The sum of the weights of those that take turns; at least 1.
  std::int64_t weight() const { return weight_ > 0 ? weight_ : 1; }

  /// To be called when the queue's oldest job or its client's weight has changed, or whether it takes turns.
  /// `head`: its oldest job; null: it takes no turns.
  void update(ClientQueue& queue, const Job* head);
  /// Charges the queue for its job that is about to go. Requires: it takes turns.
  void charge(ClientQueue& queue, std::int64_t cost);
  /// Moves the queue's next turn back by a cost, or forth where that is below 0.
  void move_back(ClientQueue& queue, std::int64_t cost);

 private:
  /// The lower tag goes first; of equal tags the earlier arrival of the oldest job.
  using Turn = std::pair<std::int64_t, std::uint64_t>;
  using Heap = PlacedHeap<ClientQueue, Turn, &ClientQueue::turn_at_>;
  static Turn turn_of(const ClientQueue& queue) { return {queue.tag_, queue.arrival_}; }
  Heap& heap_of(const ClientQueue& queue) { return queue.newcomer ? newcomers_ : known_; }
  void weigh(ClientQueue& queue, std::uint32_t weight);
  /// Virtual time moves on by what a job costs, among those of that weight. Requires: some were served
  /// before.
  void move_on(std::int64_t cost, std::int64_t weight);

  Heap known_, newcomers_;
  std::int64_t now_ = 0;       // virtual time: where newcomers start
  std::int64_t now_rest_ = 0;  // the rest, less than one unit
  std::int64_t lead_ = 0;      // how far it may have passed those who wait
  std::int64_t step_ = 0;      // by which the last newcomer's job moved that
  std::int64_t weight_ = 0, known_weight_ = 0;
};

inline Flow& Job::flow() const {
  return queue->flow();
}

}  // namespace lanemq::core
