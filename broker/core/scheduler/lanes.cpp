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

/// A job's cost, in tokens where they are counted.
std::int64_t Lane::cost_of(std::optional<std::int64_t> tokens) {
  constexpr std::int64_t kOfLate = 16;
  if (!tokens) return usual_cost_;
  usual_cost_ = std::max<std::int64_t>(usual_cost_ + (*tokens - usual_cost_) / kOfLate, 1);
  return *tokens;
}

/// The weight of all flows that are to be asked, and may get a place; at least 1.
std::int64_t Lane::ready_weight() const {
  std::int64_t weight = 0;
  for (const FlowGroup* group : ready_)
    weight += group->weight();
  return std::max<std::int64_t>(weight, 1);
}

/// A job starts at `tag`: virtual time is there from now on. Where it starts no later, and others wait that
/// were served before, it moves time on by its part among all, up to the next turn of these: see Turns.
void Lane::move_on(std::int64_t tag, std::int64_t cost) {
  if (tag > virtual_now_) {
    virtual_now_ = tag;
    return;
  }
  std::int64_t next = kVirtualTimeMax;
  for (const FlowGroup* group : ready_)
    next = std::min(next, group->next_tag().value_or(kVirtualTimeMax));
  if (next == kVirtualTimeMax) return;
  const std::int64_t on = virtual_now_ + virtual_time(cost, ready_weight(), virtual_rest_);
  virtual_now_ = std::max(virtual_now_, std::min(on, next));
}

void Lane::charge(Flow& flow, std::optional<std::int64_t> cost) {
  const std::int64_t start = turn_of(flow), moved = cost_of(cost);
  move_on(flow.tag, moved);
  flow.tag = start + virtual_time(moved, flow.weight(), flow.tag_rest);
}

void Lane::charge_boosted(std::optional<std::int64_t> cost) {
  const std::int64_t start = turn_of_boosted(), moved = cost.value_or(usual_cost_);
  move_on(boosted_tag_, moved);
  boosted_tag_ = start + virtual_time(moved, ready_weight(), boosted_rest_);
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
