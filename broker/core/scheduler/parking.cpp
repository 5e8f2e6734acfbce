// SPDX-License-Identifier: Apache-2.0
#include "broker/core/scheduler/parking.hpp"

#include <algorithm>

#include "broker/core/base/check.hpp"
#include "broker/core/scheduler/flow_group.hpp"
#include "broker/core/scheduler/lanes.hpp"

namespace lanemq::core {

const Stall& Parking::stall_at(const Flow& flow, std::size_t budget) {
  const auto& stalls = flow.parked_.stalls;
  return *std::find_if(stalls.begin(), stalls.end(),
                       [&](const Stall& stall) { return stall.budget == budget; });
}

Rank Parking::rank_of(const Flow& flow, const Rank& fresh) const {
  const bool keeps = flow.in_line() && !waits_for_model(flow) && flow.parked_.rank.level == fresh.level &&
                     flow.saves() == fresh.is_owed();
  return keeps ? flow.parked_.rank : fresh;
}

/// Such a flow saves nothing up, and returns behind those that did.
bool Parking::waits_for_model(const Flow& flow) const {
  return flow.parked_.stalls.size() == 1 && flow.parked_.stalls.front().budget >= budgets_;
}

Flow* Parking::owed_before(std::size_t budget, const Flow& flow) const {
  for (Flow* const ahead : lines_[budget].flows) {
    const Rank& rank = ahead->parked_.rank;
    if (ahead == &flow || (rank.level > 0 && !rank.is_owed())) break;
    if (rank.is_owed() && ahead->parked_.asked && can_start(*ahead)) return ahead;
  }
  return nullptr;
}

void Parking::enter_line(Flow& flow, const Stall& stall) {
  Line& line = lines_[stall.budget];
  if (!line.flows.empty() && &(*line.flows.begin())->group() != &flow.group()) line.mixed = true;
  line.flows.insert(&flow);
}

void Parking::leave_line(Flow& flow, std::size_t budget) {
  Line& line = lines_[budget];
  // Only a flow that is asked can keep others from being asked.
  if (flow.parked_.asked || *line.flows.begin() == &flow || line.width > 1) moved_.push_back(budget);
  line.flows.erase(&flow);
  // The top lane's stall counted against owed flows: without it there may be enough for them.
  if (flow.parked_.rank.level == 0) unset_shorts(line);
  if (line.flows.empty()) line.mixed = false;
}

void Parking::set_short(Flow& flow, std::size_t budget) {
  std::size_t& short_of = flow.parked_.short_of;
  if (short_of == budget) return;
  const bool was_short = short_of != Flow::kNotListed;
  if (was_short) {
    std::vector<Flow*>& shorts = lines_[short_of].shorts;
    shorts.back()->short_at_ = flow.short_at_;
    shorts[flow.short_at_] = shorts.back();
    shorts.pop_back();
    flow.short_at_ = Flow::kNotListed;
  }
  const bool is_short = budget != Flow::kNotListed;
  if (is_short) {
    flow.short_at_ = lines_[budget].shorts.size();
    lines_[budget].shorts.push_back(&flow);
  }
  short_of = budget;
  if (is_short != was_short) flow.group().set_short(flow, is_short);
}

void Parking::count_parked(FlowGroup& group, bool more) {
  if (more) {
    if (group.parked_++ > 0) return;
    group.parked_at_ = groups_.size();
    group.was_open_ = true;  // one of its heads was just asked
    groups_.push_back(&group);
    return;
  }
  if (--group.parked_ > 0) return;
  groups_.back()->parked_at_ = group.parked_at_;
  groups_[group.parked_at_] = groups_.back();
  groups_.pop_back();
}

void Parking::park(Flow& flow, const Rank& rank, const std::vector<Stall>& stalls,
                   std::optional<std::size_t> short_of, TimePoint wake_at) {
  LANEMQ_CHECK(!stalls.empty());
  Flow::Parked& parked = flow.parked_;
  const auto stalled_at = [](const std::vector<Stall>& all, std::size_t budget) {
    return std::any_of(all.begin(), all.end(), [&](const Stall& stall) { return stall.budget == budget; });
  };
  const bool moves = flow.in_line() && parked.rank != rank;
  for (const Stall& stall : parked.stalls)
    if (moves || !stalled_at(stalls, stall.budget)) leave_line(flow, stall.budget);
  const std::vector<Stall> before = moves ? std::vector<Stall>() : std::move(parked.stalls);
  if (!flow.in_line()) count_parked(flow.group(), true);
  parked.rank = rank;
  for (const Stall& stall : stalls)
    if (!stalled_at(before, stall.budget)) enter_line(flow, stall);
  parked.stalls = stalls;
  parked.in = this;
  parked.asked = false;
  set_short(flow, short_of.value_or(Flow::kNotListed));
  if (flow.wake_at_ != Flow::kNotListed) wakes_.remove(flow);
  if (wake_at != kNever) wakes_.push(flow, wake_at);
  flow.group().update(flow);
  ask_first_ones();
}

void Parking::take_out(Flow& flow) {
  Flow::Parked& parked = flow.parked_;
  for (const Stall& stall : parked.stalls)
    leave_line(flow, stall.budget);
  parked.stalls.clear();
  parked.in = nullptr;
  parked.asked = false;
  set_short(flow, Flow::kNotListed);
  if (flow.wake_at_ != Flow::kNotListed) wakes_.remove(flow);
  count_parked(flow.group(), false);
  flow.group().update(flow);
}

void Parking::leave(Flow& flow) {
  if (!flow.in_line()) return;
  take_out(flow);
  ask_first_ones();
}

void Parking::leave_all() {
  for (Line& line : lines_)
    while (!line.flows.empty())
      take_out(**line.flows.begin());
  moved_.clear();
}

void Parking::ask(Flow& flow) {
  if (flow.parked_.asked) return;
  flow.parked_.asked = true;
  highest_asked_ =
      std::min(highest_asked_, flow.parked_.rank.is_owed() ? flow.lane().index() : flow.parked_.rank.level);
  asked_.push_back(&flow);
  set_short(flow, Flow::kNotListed);
  if (flow.wake_at_ != Flow::kNotListed) wakes_.remove(flow);
  flow.group().update(flow);
}

void Parking::ask_first_ones() {
  while (!moved_.empty()) {
    const Line& line = lines_[moved_.back()];
    moved_.pop_back();
    std::size_t asked = 0;
    for (auto next = line.flows.begin(); next != line.flows.end() && asked < line.width;) {
      Flow& flow = **next;
      ++next;
      // A flow that may not start is asked when it may, like flows that never stood here.
      if (can_start(flow)) {
        ask(flow);
        // An owed flow runs on another flow's turn (Dispatcher::owed_others()). It does not use up this
        // line's one question: the flow behind it is asked, too.
        if (!flow.parked_.rank.is_owed()) ++asked;
      } else {
        take_out(flow);
      }
    }
  }
}

void Parking::unset_shorts(Line& line) {
  while (!line.shorts.empty())
    set_short(*line.shorts.back(), Flow::kNotListed);
}

void Parking::ease(std::size_t budget) {
  unset_shorts(lines_[budget]);
  moved_.push_back(budget);
  ask_first_ones();
}

void Parking::wake(TimePoint now) {
  while (!wakes_.empty() && wakes_.front_key() <= now) {
    Flow& flow = *wakes_.front();
    if (can_start(flow)) {
      ask(flow);
    } else {
      take_out(flow);
      ask_first_ones();
    }
  }
}

void Parking::make_way() {
  bool some_open = false, some_closed = false;
  for (FlowGroup* group : groups_) {
    const bool open = terms_.can_start(*group);
    some_open = some_open || open;
    some_closed = some_closed || (group->was_open_ && !open);
    group->was_open_ = open;
  }
  if (!some_open || !some_closed) return;
  for (std::size_t budget = 0; budget < lines_.size(); ++budget) {
    const Line& line = lines_[budget];
    if (!line.mixed || (*line.flows.begin())->group().was_open_) continue;
    const auto first = std::find_if(line.flows.begin(), line.flows.end(),
                                    [](const Flow* flow) { return flow->group().was_open_; });
    if (first != line.flows.end() && stall_at(**first, budget).behind) ask(**first);
  }
}

bool Parking::pass_on() {
  if (asked_.empty() && moved_.empty() && groups_.empty()) return false;  // mostly nobody stands in a line
  const std::vector<Flow*> asked = std::exchange(asked_, {});
  for (Flow* flow : asked) {
    if (!flow->parked_.asked) continue;
    if (can_start(*flow))
      asked_.push_back(flow);  // its level was over before it could be asked
    else
      take_out(*flow);
  }
  ask_first_ones();
  make_way();
  return !asked_.empty();
}

}  // namespace lanemq::core
