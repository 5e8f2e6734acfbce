// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "broker/core/base/placed_heap.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/scheduler/flow.hpp"
#include "broker/core/scheduler/head_costs.hpp"

namespace lanemq::core {

class Lane;
class Service;

/// The flows of one lane for one service: they want the same places, and take turns for them in the lane's
/// virtual time. Whose turn it is, is found without looking at the others. Whatever keeps all jobs of a lane
/// and service from starting is asked once for the group.
class FlowGroup {
 public:
  FlowGroup(Lane& lane, Service& service) : lane_(lane), service_(service) {}
  FlowGroup(const FlowGroup&) = delete;
  FlowGroup& operator=(const FlowGroup&) = delete;

  Lane& lane() const { return lane_; }
  Service& service() const { return service_; }
  /// The flow for jobs under a set of budgets; made when it is first asked for.
  Flow& flow(BudgetSet budgets);
  const std::vector<std::unique_ptr<Flow>>& flows() const { return flows_; }

  /// Whether no flow is to be asked.
  bool empty() const { return due_.empty() && later_.empty(); }
  /// Of those that are to be asked, the one whose turn it is; null when there is none.
  Flow* first();
  /// Likewise the one whose head came first; null where the lane has no boost_after.
  Flow* oldest() const { return by_arrival_.front(); }

  /// Of all flows with a head, asked or in line, that may have what they want if it is owed to the lane:
  /// the first one whose head costs at most so much. Null when there is none.
  Flow* first_able(std::int64_t cost_max) { return able_.first_within(cost_max, usual_cost()); }
  /// Likewise of those that are short even of that.
  Flow* first_short(std::int64_t cost_max) { return short_.first_within(cost_max, usual_cost()); }
  /// The cost of the most expensive head; 0 when there is none that may be owed.
  std::int64_t most() { return std::max(able_.most(usual_cost()), short_.most(usual_cost())); }
  /// What a flow's head counts for where lanes share. Requires: it is not empty.
  std::int64_t head_cost(const Flow& flow) const;
  /// The flow's head can never be had as owed.
  void set_never_owed(Flow& flow);
  /// Calls `tell` with each flow that has a head until it returns true; whether it did.
  template <class Tell>
  bool any_of(Tell tell) const {
    return able_.any_of(tell) || short_.any_of(tell);
  }

  /// The flow's head, its tag, or whether it is to be asked has changed.
  void update(Flow& flow);
  /// What the flow's head counts for may have changed, or whether it can be owed.
  void update_cost(Flow& flow);
  /// The lane's options have changed.
  void reconfigure();
  /// What jobs are expected to take may be another now.
  void reappraise();

  /// Place among its lane's ready groups; kept by Lane.
  std::size_t ready_at = kNotReady;
  static constexpr std::size_t kNotReady = static_cast<std::size_t>(-1);
  /// The flow that saves up what its lane is owed, or did last; null: none. Kept by Dispatcher.
  Flow* saver = nullptr;
  /// How long it waits at most, when it gives up, and from when on another one may save. Kept by Dispatcher.
  Duration saves_for{};
  TimePoint saves_until{}, rests_until{};

 private:
  friend class Parking;

  std::int64_t usual_cost() const;
  std::int64_t cost_of_head(const Flow& flow) const;
  HeadCosts<&Flow::cost_at_>& costs_of(const Flow& flow);
  void list(Flow& flow);
  void unlist(Flow& flow);
  void forget_costs(Flow& flow);
  void set_short(Flow& flow, bool is_short);

  Lane& lane_;
  Service& service_;
  std::vector<std::unique_ptr<Flow>> flows_;
  absl::flat_hash_map<BudgetSet, Flow*> by_budgets_;
  // Those whose turn has come, by the arrival of their heads, and those that are later than the lane's
  // virtual time, by their tags. The lane's time only moves on, and moves flows from one to the other.
  PlacedHeap<Flow, std::uint64_t, &Flow::turn_at_> due_;
  PlacedHeap<Flow, std::pair<std::int64_t, std::uint64_t>, &Flow::turn_at_> later_;
  // All of these, where the lane has a boost.
  PlacedHeap<Flow, std::uint64_t, &Flow::line_at_> by_arrival_;
  HeadCosts<&Flow::cost_at_> able_, short_;

  // Kept by Parking: flows in line, its place among groups that have some, and whether it could start when
  // it was looked at last.
  std::size_t parked_ = 0, parked_at_ = kNotReady;
  bool was_open_ = false;
};

}  // namespace lanemq::core
