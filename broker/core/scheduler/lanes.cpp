// SPDX-License-Identifier: Apache-2.0
#include "broker/core/scheduler/lanes.hpp"

#include "broker/core/scheduler/workers.hpp"

namespace lanemq::core {

void Lane::configure(const LaneOptions& options) {
  options_ = options;
  for (const auto& group : groups_)
    group->reconfigure();
}

Flow& Lane::flow(Service& service, BudgetSet budgets) {
  std::vector<FlowGroup*>& groups = service.groups;
  const auto place = std::find_if(groups.begin(), groups.end(),
                                  [&](const FlowGroup* group) { return group->lane().index() >= index_; });
  if (place != groups.end() && &(*place)->lane() == this) return (*place)->flow(budgets);
  groups_.push_back(std::make_unique<FlowGroup>(*this, service));
  groups.insert(place, groups_.back().get());
  return groups_.back()->flow(budgets);
}

void Lane::forget_leaving() {
  std::erase_if(groups_, [](const auto& group) { return group->service().leaves; });
}

void Lane::update_ready(FlowGroup& group) {
  const bool is_ready = group.ready_at != FlowGroup::kNotReady;
  const bool should_be = !group.empty() && group.service().free_places > 0;
  if (is_ready == should_be) return;
  if (should_be) {
    group.ready_at = ready_.size();
    ready_.push_back(&group);
    return;
  }
  FlowGroup* const last = ready_.back();
  ready_[group.ready_at] = last;
  last->ready_at = group.ready_at;
  ready_.pop_back();
  group.ready_at = FlowGroup::kNotReady;
}

void Lane::charge(Flow& flow, std::optional<std::int64_t> cost) {
  constexpr std::int64_t kOfLate = 16;
  if (cost) usual_cost_ = std::max<std::int64_t>(usual_cost_ + (*cost - usual_cost_) / kOfLate, 1);
  virtual_now_ = turn_of(flow);
  flow.tag = virtual_now_ + virtual_time(cost.value_or(usual_cost_), flow.weight(), flow.tag_rest);
}

void Lane::count_leaving(TimePoint now) {
  ++left_in_second_;
  const std::chrono::duration<double> elapsed = now - second_began_;
  if (elapsed.count() < 1) return;
  leaving_per_second = static_cast<double>(left_in_second_) / elapsed.count();
  second_began_ = now;
  left_in_second_ = 0;
}

}  // namespace lanemq::core
