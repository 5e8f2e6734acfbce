// SPDX-License-Identifier: Apache-2.0
#include "broker/core/scheduler/flow_group.hpp"

#include "broker/core/scheduler/lanes.hpp"
#include "broker/core/scheduler/parking.hpp"
#include "broker/core/scheduler/terms.hpp"
#include "broker/core/scheduler/workers.hpp"

namespace lanemq::core {

Flow& FlowGroup::flow(BudgetSet budgets) {
  Flow*& known = by_budgets_[budgets];
  if (known == nullptr) {
    flows_.push_back(std::make_unique<Flow>(*this, budgets));
    known = flows_.back().get();
  }
  return *known;
}

Flow* FlowGroup::first() {
  while (!later_.empty() && later_.front_key().first <= lane_.virtual_now()) {
    Flow& due = *later_.front();
    later_.remove(due);
    due.due_ = true;
    due_.push(due, due.listed_.arrival);
  }
  return due_.empty() ? later_.front() : due_.front();
}

void FlowGroup::list(Flow& flow) {
  flow.due_ = flow.listed_.tag <= lane_.virtual_now();
  if (flow.due_)
    due_.push(flow, flow.listed_.arrival);
  else
    later_.push(flow, {flow.listed_.tag, flow.listed_.arrival});
  if (lane_.options().boost_after.count() > 0) by_arrival_.push(flow, flow.listed_.arrival);
  count_weight(flow, flow.weight());
}

void FlowGroup::unlist(Flow& flow) {
  if (flow.due_)
    due_.remove(flow);
  else
    later_.remove(flow);
  if (flow.line_at_ != kNotReady) by_arrival_.remove(flow);
  count_weight(flow, 0);
}

void FlowGroup::count_weight(Flow& flow, std::int64_t weight) {
  weight_ += weight - flow.listed_.weight;
  flow.listed_.weight = weight;
}

void FlowGroup::reconfigure() {
  for (const auto& flow : flows_) {
    if (flow->turn_at_ == kNotReady) continue;
    unlist(*flow);
    list(*flow);
  }
}

void FlowGroup::reappraise() {
  for (const auto& flow : flows_) {
    Job* const head = flow->head();
    if (head == nullptr || flow->cost_at_ == kNotReady || lane_.terms == nullptr) continue;
    lane_.terms->appraise(*head);
    update_cost(*flow);
  }
}

/// The cost of a job whose tokens are not counted, beside jobs of the service whose tokens are.
std::int64_t FlowGroup::usual_cost() const {
  return service_.usual_cost();
}

/// The cost of the flow's head as it is listed.
std::int64_t FlowGroup::cost_of_head(const Flow& flow) const {
  return flow.counts_tokens() ? flow.head()->cost() : kUsualCost;
}

std::int64_t FlowGroup::head_cost(const Flow& flow) const {
  return flow.head_cost() == kUsualCost ? usual_cost() : flow.head_cost();
}

HeadCosts<&Flow::cost_at_>& FlowGroup::costs_of(const Flow& flow) {
  return flow.parked_.short_of == kNotReady ? able_ : short_;
}

void FlowGroup::update_cost(Flow& flow) {
  if (flow.cost_at_ == kNotReady) return;
  flow.listed_.cost = cost_of_head(flow);
  costs_of(flow).change(flow, flow.listed_.cost, flow.tag);
}

void FlowGroup::set_never_owed(Flow& flow) {
  flow.listed_.cost = kNeverOwed;
  costs_of(flow).change(flow, kNeverOwed, flow.tag);
}

void FlowGroup::forget_costs(Flow& flow) {
  if (flow.cost_at_ == kNotReady) return;
  costs_of(flow).remove(flow);
}

void FlowGroup::set_short(Flow& flow, bool is_short) {
  (is_short ? able_ : short_).remove(flow);
  (is_short ? short_ : able_).add(flow, flow.listed_.cost, flow.listed_.tag);
}

void FlowGroup::update(Flow& flow) {
  Job* const head = flow.head();
  // The flow has another head, which must be asked itself.
  if (flow.in_line() && (head == nullptr || head->arrival != flow.listed_.arrival))
    return flow.parked_.in->leave(flow);
  const bool listed = flow.turn_at_ != kNotReady;
  const bool should_be = head != nullptr && (!flow.in_line() || flow.parked_.asked);
  const Flow::Listed before = flow.listed_;
  const bool same = head != nullptr && flow.tag == before.tag && head->arrival == before.arrival;
  if (head == nullptr) {
    forget_costs(flow);
  } else if (!same || flow.cost_at_ == kNotReady) {
    if (lane_.terms != nullptr) lane_.terms->appraise(*head);
    flow.listed_ = {.tag = flow.tag,
                    .arrival = head->arrival,
                    .cost = cost_of_head(flow),
                    .accepted_at = head->accepted_at,
                    .weight = before.weight};
    if (flow.counts_tokens()) service_.expect_cost(head->cost());
    if (flow.cost_at_ == kNotReady)
      costs_of(flow).add(flow, flow.listed_.cost, flow.tag);
    else
      costs_of(flow).change(flow, flow.listed_.cost, flow.tag);
  }
  if (should_be) {
    if (listed && same) return count_weight(flow, flow.weight());
    if (listed) unlist(flow);
    list(flow);
  } else if (listed) {
    unlist(flow);
  }
  if (listed != should_be) lane_.update_ready(*this);
}

}  // namespace lanemq::core
