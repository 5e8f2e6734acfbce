// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "broker/core/budgets.hpp"
#include "broker/core/client_queue.hpp"

namespace lanemq::core {

class Lane;
class Service;

/// The queued jobs of one lane that need the same service and the same budgets: if its head cannot run now,
/// none of them can.
///
/// Its clients take turns by cost: the one whose last jobs cost it least for its weight is next, and what it
/// is served moves it back by cost / weight. This is start-time fair queuing (Goyal, Vin & Cheng, 1996): of
/// two clients that both wait, neither gets more than its weighted share and one job. It needs no quantum, as
/// deficit round robin does, which with jobs of 10 to 100,000 tokens is either unfair or slow. A client that
/// had nothing to do saves nothing up. Within a client it is first in, first out.
///
/// Owns nothing: queues belong to their clients.
class Stream {
 public:
  Stream(Lane& lane, Service& service, BudgetSet budgets)
      : lane_(lane), service_(service), budgets_(budgets) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Lane& lane() const { return lane_; }
  Service& service() const { return service_; }
  BudgetSet budgets() const { return budgets_; }

  /// Whether no client has a job here that it may run.
  bool empty() const { return paused_ || turns_.empty(); }
  /// Queued jobs, also of clients that may run none now.
  std::size_t depth() const { return depth_; }
  /// The job whose turn it is, null when there is none.
  Job* head() const { return empty() ? nullptr : turns_.front()->oldest(); }
  /// The weights of all clients that take turns; at least 1.
  std::int64_t weight() const { return weight_ > 0 ? weight_ : 1; }

  /// Queues a job that has just arrived in its queue, which is one of this stream.
  void push(Job& job);
  /// Queues a job that was here before, or in another lane, at its place by arrival.
  void put_back(Job& job);
  void remove(Job& job);
  /// The client may run jobs, or may not, or has another weight: its place among the turns follows.
  void update(ClientQueue& queue);
  /// Something that its jobs need is paused by an operator, or is no more: a paused stream looks empty to
  /// whoever hands out, and keeps what it has.
  void set_paused(bool paused);
  /// A job of the queue is about to be handed over. Requires: it is still queued.
  void charge(ClientQueue& queue, std::int64_t cost);
  /// What was charged turned out to be `more` (or less, below 0).
  void correct(ClientQueue& queue, std::int64_t more);

  /// Place among its lane's ready streams; kept by Lane.
  std::size_t ready_at = kNotReady;
  static constexpr std::size_t kNotReady = static_cast<std::size_t>(-1);
  /// The lane's virtual time at which the stream's next job starts; kept by Lane.
  std::int64_t tag = 0;
  /// The turn in which its budgets were found wanting, so that they are asked once a turn.
  std::uint64_t unaffordable_in_turn = 0;

 private:
  static bool before(const ClientQueue& a, const ClientQueue& b);
  void place(ClientQueue& queue, std::size_t at);
  void rise(std::size_t at);
  void sink(std::size_t at);
  void add_turn(ClientQueue& queue);
  void drop_turn(ClientQueue& queue);

  Lane& lane_;
  Service& service_;
  BudgetSet budgets_;
  std::vector<ClientQueue*> turns_;  // a binary heap: who is next comes first
  std::int64_t now_ = 0;             // virtual: where the job that was last handed over started
  std::int64_t weight_ = 0;
  std::size_t depth_ = 0;
  bool paused_ = false;
};

/// What a cost moves a client of such a weight back by, in units of virtual time.
inline std::int64_t virtual_time(std::int64_t cost, std::int64_t weight) {
  constexpr std::int64_t kUnits = 10'000;  // weights up to client_weight_max are told apart to a hundredth
  return cost * kUnits / weight;
}

/// The client's limits or what it runs have changed: it takes turns in all its streams, or in none.
void update_turns(Client& client);

}  // namespace lanemq::core
