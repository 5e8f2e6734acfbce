// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "broker/core/base/placed_heap.hpp"
#include "broker/core/budgets/budgets.hpp"
#include "broker/core/scheduler/client_queue.hpp"

namespace lanemq::core {

class Lane;
class Service;
class Parking;
class FlowGroup;

/// What goes before what where flows of all lanes wait: the lane in which the head competes, its turn
/// there, and when it arrived.
struct Rank {
  LaneIndex level = 0;
  std::int64_t turn = 0;
  std::uint64_t arrival = 0;

  /// Of what is owed to its lane: behind the top lane, which it never keeps waiting, and before all others;
  /// among these the higher lane goes first.
  static Rank owed(LaneIndex lane, std::uint64_t arrival) {
    return {.level = 1, .turn = std::int64_t{lane} - 0x100, .arrival = arrival};
  }
  /// Before it is the top lane alone.
  static Rank behind_the_top() { return {.level = 1, .turn = std::numeric_limits<std::int64_t>::min()}; }
  bool is_owed() const { return turn < 0; }

  auto operator<=>(const Rank&) const = default;  // NOLINT(modernize-use-nullptr): the 0 that < compares with
};

/// A budget at which a flow waits.
struct Stall {
  static constexpr std::size_t kNoAccount = static_cast<std::size_t>(-1);

  std::size_t budget = 0;
  const RateLimit* rate = nullptr;   ///< the limit that it waits for; null: for its pause or concurrency
  std::size_t account = kNoAccount;  ///< of the budget's keys, whose limit it is; none: the budget's own
  bool behind = false;               ///< it was not asked itself, since somebody is ahead of it in line
};

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
class Flow {
 public:
  Flow(FlowGroup& group, BudgetSet budgets) : group_(group), budgets_(budgets) {}
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;

  FlowGroup& group() const { return group_; }
  Lane& lane() const;
  Service& service() const;
  BudgetSet budgets() const { return budgets_; }

  /// Whether no client has a job here that it may run.
  bool empty() const { return paused_ || turns_.empty(); }
  /// Queued jobs, also of clients that may run none now.
  std::size_t depth() const { return depth_; }
  /// Whether another client has a job here that it may run.
  bool others_than(const Client& client) const {
    return !paused_ && (turns_.size() > 1 || (turns_.size() == 1 && &turns_.front()->client() != &client));
  }
  /// The job whose turn it is, null when there is none.
  Job* head() const { return empty() ? nullptr : turns_.front()->oldest(); }
  /// The weights of all clients that take turns; at least 1.
  std::int64_t weight() const { return weight_ > 0 ? weight_ : 1; }

  /// Queues a job that has just arrived in its queue, which is one of this flow.
  void push(Job& job);
  /// Queues a job that was here before, or in another lane, at its place by arrival.
  void put_back(Job& job);
  void remove(Job& job);
  /// The client may run jobs, or may not, or has another weight: its place among the turns follows.
  void update(ClientQueue& queue);
  /// Something that its jobs need is paused by an operator, or is no more: a paused flow looks empty to
  /// whoever hands out, and keeps what it has.
  void set_paused(bool paused);
  bool paused() const { return paused_; }
  /// Whether one of its budgets counts tokens. Where none does its jobs count for one each, whatever they are
  /// expected to take.
  void set_counts_tokens(bool counts_tokens);
  bool counts_tokens() const { return counts_tokens_; }
  /// What a job of the flow counts for where its clients share.
  std::int64_t cost_of(const Job& job) const { return counts_tokens_ ? job.cost() : 1; }
  /// A job of the queue is about to be handed over and leaves the flow next. Requires: it is still queued.
  void charge(ClientQueue& queue, std::int64_t cost);
  /// What was charged turned out to be `more` (or less, below 0).
  void correct(ClientQueue& queue, std::int64_t more);

  /// Of the head: what it counts for where lanes share, its place, and when it came. Requires: !empty().
  std::int64_t head_cost() const { return listed_.cost; }
  std::uint64_t head_arrival() const { return listed_.arrival; }
  TimePoint head_accepted_at() const { return listed_.accepted_at; }

  /// The lane's virtual time at which the flow's next job starts; kept by Lane.
  std::int64_t tag = 0;
  std::int64_t tag_rest = 0;  ///< of a unit of it
  /// Whether its head waits for a budget; it may be asked again already.
  bool in_line() const { return parked_.in != nullptr; }
  /// Whether it waits for what is owed to its lane.
  bool saves() const { return in_line() && parked_.rank.is_owed(); }

 private:
  friend class Parking;
  friend class FlowGroup;

  /// Whose tag is lower is next; of equals, whose oldest job came first.
  using Turn = std::pair<std::int64_t, std::uint64_t>;
  static Turn turn_of(const ClientQueue& queue) { return {queue.tag_, queue.arrival_}; }
  /// By what its group has listed it.
  struct Listed {
    std::int64_t tag = 0;
    std::uint64_t arrival = 0;
    std::int64_t cost = 0;  ///< of the head, or one of those that HeadCosts names
    TimePoint accepted_at{};
  };

  static constexpr std::size_t kNotListed = static_cast<std::size_t>(-1);

  /// How it waits for a budget.
  struct Parked {
    Parking* in = nullptr;  ///< set while it is in line
    Rank rank;
    std::vector<Stall> stalls;
    bool asked = false;                 ///< it is to be asked again, and keeps its place in line until then
    std::size_t short_of = kNotListed;  ///< the budget that it is short of even if it is owed to its lane
  };

  void move_back(ClientQueue& queue, std::int64_t cost);

  FlowGroup& group_;
  BudgetSet budgets_;
  PlacedHeap<ClientQueue, Turn, &ClientQueue::turn_at_> turns_;
  std::int64_t now_ = 0;  // virtual: where the job that was last handed over started
  std::int64_t weight_ = 0;
  std::size_t depth_ = 0;
  bool paused_ = false, counts_tokens_ = true;

  // Kept by FlowGroup:
  Listed listed_;
  std::size_t turn_at_ = kNotListed, line_at_ = kNotListed, cost_at_ = kNotListed;
  bool due_ = false;

  // Kept by Parking:
  Parked parked_;
  std::size_t wake_at_ = kNotListed, short_at_ = kNotListed;
};

/// What a cost moves a client of such a weight back by, in units of virtual time. What is less than a unit
/// stays in `rest`, for the next time: nobody gains by being served often.
inline std::int64_t virtual_time(std::int64_t cost, std::int64_t weight, std::int64_t& rest) {
  constexpr std::int64_t kUnits = 10'000;  // weights up to client_weight_max are told apart to a hundredth
  const std::int64_t all = cost * kUnits + (rest < weight ? rest : 0);  // else the weight was another one
  rest = all % weight;
  if (rest < 0) rest += weight;
  return (all - rest) / weight;
}

/// Where virtual time ends: far beyond what is ever served, and so that a step from there does not overflow.
inline constexpr std::int64_t kVirtualTimeMax = std::int64_t{1} << 61;

/// The client's limits or what it runs have changed: it takes turns in all its flows, or in none.
void update_turns(Client& client);

}  // namespace lanemq::core
