// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "broker/core/budgets/budgets.hpp"
#include "broker/core/scheduler/client_queue.hpp"

namespace lanemq::core {

class Lane;
class Service;
class Parking;
class FlowGroup;

/// The order of flows of all lanes in a line: the level at which the head competes, its turn there, and its
/// arrival.
struct Rank {
  LaneIndex level = 0;
  std::int64_t turn = 0;
  std::uint64_t arrival = 0;

  /// The rank of an owed job: behind the top lane, which it never keeps waiting, and before all others; of
  /// two owed jobs that of the higher lane goes first.
  static Rank owed(LaneIndex lane, std::uint64_t arrival) {
    return {.level = 1, .turn = std::int64_t{lane} - 0x100, .arrival = arrival};
  }
  /// The rank right behind the top lane.
  static Rank behind_the_top() { return {.level = 1, .turn = std::numeric_limits<std::int64_t>::min()}; }
  bool is_owed() const { return turn < 0; }

  auto operator<=>(const Rank&) const = default;  // NOLINT(modernize-use-nullptr): the 0 that < compares with
};

/// A budget at which a flow waits.
struct Stall {
  static constexpr std::size_t kNoAccount = static_cast<std::size_t>(-1);

  std::size_t budget = 0;
  const RateLimit* rate = nullptr;   ///< the limit that it waits for; null: a pause or the concurrency
  std::size_t account = kNoAccount;  ///< the account whose limit it is; none: the budget's own
  bool behind = false;               ///< the budget was not asked, since another flow is ahead in its line
};

/// The queued jobs of one lane that need the same service and the same budgets: if its head cannot run now,
/// none of them can.
///
/// Its clients take turns by cost (Turns), those of one tenant as one, and inside it among themselves. The
/// jobs of one client are first in, first out.
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

  /// Whether no client may run a job here.
  bool empty() const { return paused_ || turns_.empty(); }
  /// Queued jobs, also of clients that may run none now.
  std::size_t depth() const { return depth_; }
  /// Whether others than the tenant, or than the client without one, may run a job here.
  bool others_than(const Client& party) const { return !paused_ && turns_.others_than(party); }
  const Turns& turns() const { return turns_; }
  /// The next job; null: none may run.
  Job* head() const { return empty() ? nullptr : turns_.next()->oldest(); }
  /// The sum of the weights of tenants, and clients without one, that take turns; at least 1.
  std::int64_t weight() const { return turns_.weight(); }

  /// Queues a new job in its ClientQueue. Requires: that belongs to this flow.
  void push(Job& job);
  /// Queues a job by its arrival: it was here before, or in another lane.
  void put_back(Job& job);
  void remove(Job& job);
  /// To be called when the client, or tenant, may or may not run jobs, or its weight has changed: moves its
  /// turn.
  void update(ClientQueue& queue);
  /// Whether an operator has paused something that its jobs need. A paused flow looks empty to the
  /// dispatcher, and keeps its jobs.
  void set_paused(bool paused);
  bool paused() const { return paused_; }
  /// Whether one of its budgets counts tokens. If none does each job costs 1.
  void set_counts_tokens(bool counts_tokens);
  bool counts_tokens() const { return counts_tokens_; }
  /// The cost of a job where the flow's clients share.
  std::int64_t cost_of(const Job& job) const { return counts_tokens_ ? job.cost() : 1; }
  /// Charges the client for a job that is about to be handed over. Requires: the job is still queued.
  void charge(ClientQueue& queue, std::int64_t cost);
  /// A charge turned out to be `more` (less: below 0) than was charged.
  void correct(ClientQueue& queue, std::int64_t more);

  /// The head's cost where lanes share, its place, and its arrival. Requires: !empty().
  std::int64_t head_cost() const { return listed_.cost; }
  std::uint64_t head_arrival() const { return listed_.arrival; }
  TimePoint head_accepted_at() const { return listed_.accepted_at; }

  /// The lane's virtual time at which the flow's next job starts; kept by Lane.
  std::int64_t tag = 0;
  std::int64_t tag_rest = 0;  ///< the rest, less than a unit of tag
  /// Whether it stands in a line, also while it is to be asked again.
  bool in_line() const { return parked_.in != nullptr; }
  /// A budget refuses its head.
  void refused(TimePoint now) {
    if (!parked_.refused_since) parked_.refused_since = now;
  }
  /// Its head starts. Returns since when budgets have refused its heads; none: the last ones were not. Those
  /// that start beside one that had to wait have waited with it. Requires: the head is still in line where it
  /// was refused.
  std::optional<TimePoint> starts(TimePoint now) {
    if (in_line()) parked_.waiter_started_at = now;
    if (parked_.waiter_started_at != now) parked_.refused_since.reset();
    return parked_.refused_since;
  }
  std::optional<TimePoint> refused_since() const { return parked_.refused_since; }
  /// Whether it stands in line as an owed flow, which saves up.
  bool saves() const { return in_line() && parked_.rank.is_owed(); }

 private:
  friend class Parking;
  friend class FlowGroup;

  /// The head's values under which its group has listed it.
  struct Listed {
    std::int64_t tag = 0;
    std::uint64_t arrival = 0;
    std::int64_t cost = 0;  ///< of the head, or one of those that HeadCosts names
    TimePoint accepted_at{};
    std::int64_t weight = 0;  ///< of the flow, as its group counts it; 0: it is not to be asked
  };

  static constexpr std::size_t kNotListed = static_cast<std::size_t>(-1);

  /// How it stands in lines.
  struct Parked {
    Parking* in = nullptr;  ///< set while it is in line
    Rank rank;
    std::vector<Stall> stalls;
    bool asked = false;                 ///< to be asked again; it keeps its place in line until then
    std::size_t short_of = kNotListed;  ///< the budget that it is short of even as an owed flow
    /// Since when its heads have been refused; when one that was last started.
    std::optional<TimePoint> refused_since, waiter_started_at;
  };

  /// The oldest job of a queue that takes turns; null: it takes none now.
  const Job* head_in_turn(const ClientQueue& queue) const;
  Turns& turns_of(const ClientQueue& queue) {
    return queue.tenant == nullptr ? turns_ : *queue.tenant->inside;
  }
  void update_turn(ClientQueue& queue);

  FlowGroup& group_;
  BudgetSet budgets_;
  Turns turns_;
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

/// How far a cost moves a client of such a weight back, in units of virtual time. The rest below a unit stays
/// in `rest`: no client gains by being served often.
inline std::int64_t virtual_time(std::int64_t cost, std::int64_t weight, std::int64_t& rest) {
  constexpr std::int64_t kUnits = 10'000;  // tells weights up to client_weight_max apart to a hundredth
  const std::int64_t all = cost * kUnits + (rest < weight ? rest : 0);  // else the weight was another one
  rest = all % weight;
  if (rest < 0) rest += weight;
  return (all - rest) / weight;
}

/// The end of virtual time: never reached, and a step from there does not overflow.
inline constexpr std::int64_t kVirtualTimeMax = std::int64_t{1} << 61;

/// The client's limits or running jobs have changed: it takes turns in all its flows, or in none.
void update_turns(Client& client);

}  // namespace lanemq::core
