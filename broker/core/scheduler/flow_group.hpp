// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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

/// The flows of one lane for one service. They want the same places, and take turns by the lane's virtual
/// time; the next one is found without looking at the others. What keeps all of them from starting is asked
/// once for the group.
class FlowGroup {
 public:
  FlowGroup(Lane& lane, Service& service) : lane_(lane), service_(service) {}
  FlowGroup(const FlowGroup&) = delete;
  FlowGroup& operator=(const FlowGroup&) = delete;

  Lane& lane() const { return lane_; }
  Service& service() const { return service_; }
  /// The flow for jobs with a set of budgets, which is added if there is none.
  Flow& flow(BudgetSet budgets);
  const std::vector<std::unique_ptr<Flow>>& flows() const { return flows_; }

  /// Whether no flow is to be asked.
  bool empty() const { return due_.empty() && later_.empty(); }
  /// Among the flows to be asked, the one whose turn it is; null: none.
  Flow* first();
  /// Among the flows to be asked, the one with the oldest head; null where the lane has no boost_after.
  Flow* oldest() const { return by_arrival_.front(); }
  /// The sum of the weights of the flows to be asked.
  std::int64_t weight() const { return weight_; }
  /// The lowest tag behind the lane's virtual time among the flows to be asked; none: no tag is behind it.
  std::optional<std::int64_t> next_tag() const {
    if (later_.empty()) return std::nullopt;
    return later_.front_key().first;
  }

  /// The first flow, to be asked or in line, whose head costs at most so much and may start if it is owed.
  /// Null: none.
  Flow* first_able(std::int64_t cost_max) { return able_.first_within(cost_max, usual_cost()); }
  /// The first flow whose head costs at most so much and cannot start even if it is owed. Null: none.
  Flow* first_short(std::int64_t cost_max) { return short_.first_within(cost_max, usual_cost()); }
  /// The cost of the most expensive head that may be owed; 0: none may.
  std::int64_t most() { return std::max(able_.most(usual_cost()), short_.most(usual_cost())); }
  /// The cost of a flow's head where lanes share. Requires: the flow is not empty.
  std::int64_t head_cost(const Flow& flow) const;
  /// Notes that the flow's head can never be had as owed.
  void set_never_owed(Flow& flow);
  /// Calls `tell` with each flow that has a head, until it returns true. Returns whether it did.
  template <class Tell>
  bool any_of(Tell tell) const {
    return able_.any_of(tell) || short_.any_of(tell);
  }

  /// To be called when the flow's head or tag has changed, or whether it is to be asked.
  void update(Flow& flow);
  /// To be called when the cost of the flow's head may have changed, or whether it can be owed.
  void update_cost(Flow& flow);
  /// To be called when the lane's options have changed.
  void reconfigure();
  /// To be called when the estimates of jobs may have changed.
  void reappraise();

  /// Place among its lane's ready groups; kept by Lane.
  std::size_t ready_at = kNotReady;
  static constexpr std::size_t kNotReady = static_cast<std::size_t>(-1);
  /// The flow that saves up what its lane is owed, or did last; null: none. Kept by Dispatcher.
  Flow* saver = nullptr;
  /// How long the saver waits at most, when it gives up, and from when another may save. Kept by Dispatcher.
  Duration saves_for{};
  TimePoint saves_until{}, rests_until{};

 private:
  friend class Parking;

  std::int64_t usual_cost() const;
  std::int64_t cost_of_head(const Flow& flow) const;
  HeadCosts<&Flow::cost_at_>& costs_of(const Flow& flow);
  void list(Flow& flow);
  void unlist(Flow& flow);
  void count_weight(Flow& flow, std::int64_t weight);
  void forget_costs(Flow& flow);
  void set_short(Flow& flow, bool is_short);

  Lane& lane_;
  Service& service_;
  std::vector<std::unique_ptr<Flow>> flows_;
  absl::flat_hash_map<BudgetSet, Flow*> by_budgets_;
  // Flows whose turn has come, by arrival of their heads; and flows later than the lane's virtual time, by
  // tag. That time only moves on, and moves flows from later_ to due_.
  PlacedHeap<Flow, std::uint64_t, &Flow::turn_at_> due_;
  PlacedHeap<Flow, std::pair<std::int64_t, std::uint64_t>, &Flow::turn_at_> later_;
  // All of these flows, where the lane has boost_after.
  PlacedHeap<Flow, std::uint64_t, &Flow::line_at_> by_arrival_;
  HeadCosts<&Flow::cost_at_> able_, short_;
  std::int64_t weight_ = 0;

  // Kept by Parking: flows in line; place among groups with such flows; whether it could start when last
  // looked at.
  std::size_t parked_ = 0, parked_at_ = kNotReady;
  bool was_open_ = false;
};

}  // namespace lanemq::core
