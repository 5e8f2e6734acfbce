// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "broker/core/base/placed_heap.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/scheduler/flow.hpp"
#include "broker/core/scheduler/terms.hpp"

namespace lanemq::core {

/// The flows whose heads a budget refused. They are asked again only when something may have changed for
/// them, so that a decision does not depend on how many budgets are used up.
///
/// Each budget has a line of flows, by rank. A flow that wants the budget and ranks behind one in its line
/// waits there too, whatever it costs: else small jobs would pass a large one for ever. A flow whose group
/// may not start jobs now (no place, a failed upstream) keeps no other waiting. When a budget may have room
/// only the first in its line is asked, or as many as its keys have accounts; when one of these leaves the
/// next is asked.
///
/// A flow leaves when its head changes. Owns nothing: flows must stay at their address.
class Parking {
 public:
  /// There is a line for each budget, and then one for each model that may be apart. `terms`: says whether a
  /// group may start jobs, budgets aside.
  Parking(std::size_t budgets, std::size_t models, const Terms& terms)
      : budgets_(budgets), lines_(budgets + models), terms_(terms) {}
  Parking(const Parking&) = delete;
  Parking& operator=(const Parking&) = delete;

  /// How many flows of a line are asked at once; at least 1.
  void set_width(std::size_t budget, std::size_t width) { lines_[budget].width = width; }

  /// The rank under which a flow is asked: the one it has in the line of a budget, if head, lane and owed
  /// are the same; else `fresh`.
  Rank rank_of(const Flow& flow, const Rank& fresh) const;
  /// The first flow in the budget's line that ranks before `rank` and waits for the budget itself, so that
  /// all behind it wait; null: none. Calls `tell` with each flow before that one, which waits for an account.
  template <class Tell>
  const Stall* ahead(std::size_t budget, const Rank& rank, Tell tell) const;

  /// Calls `tell` with each flow in a budget's line until it returns true. Returns whether it did.
  template <class Tell>
  bool any_in_line(std::size_t budget, Tell tell) const {
    const auto& flows = lines_[budget].flows;
    return std::any_of(flows.begin(), flows.end(), [&](const Flow* flow) { return tell(*flow); });
  }

  /// Whether nothing but such budgets keeps the flow's head back, as far as it was asked.
  template <class Such>
  static bool lacks_only(const Flow& flow, Such such) {
    const auto& stalls = flow.parked_.stalls;
    return std::all_of(stalls.begin(), stalls.end(), [&](const Stall& stall) { return such(stall.budget); });
  }

  /// The first flow before `flow` in a budget's line that is owed its claim and is to be asked again; null:
  /// none. It may start now, so it is asked before `flow`.
  Flow* owed_before(std::size_t budget, const Flow& flow) const;

  /// Puts the flow in the lines of these budgets, and of no others, until one has room or until `wake_at`.
  /// Requires: at least one stall, and the flow's head is the job that was asked. `short_of`: the budget that
  /// it is short of even as an owed flow.
  void park(Flow& flow, const Rank& rank, const std::vector<Stall>& stalls,
            std::optional<std::size_t> short_of, TimePoint wake_at);
  /// Takes the flow out of its lines.
  void leave(Flow& flow);
  /// Takes all flows out of their lines.
  void leave_all();

  /// A budget may have room: asks the first in its line.
  void ease(std::size_t budget);
  /// Asks the flows again whose time has come.
  void wake(TimePoint now);
  /// Lets flows pass those whose groups may not start jobs any more.
  void make_way();
  /// At the end of a level: flows that were to be asked and may not start let others pass. True if there are
  /// flows to be asked now.
  bool pass_on();
  /// When wake() wants to be called; kNever: only after a change.
  TimePoint next_wakeup() const { return wakes_.empty() ? kNever : wakes_.front_key(); }
  bool has_asked() const { return highest_asked_ != kNoLane; }
  /// The highest level of a flow that is to be asked again, since the last call.
  LaneIndex take_highest_asked() { return std::exchange(highest_asked_, kNoLane); }
  static constexpr LaneIndex kNoLane = 0xFF;

 private:
  struct ByRank {
    bool operator()(const Flow* a, const Flow* b) const { return a->parked_.rank < b->parked_.rank; }
  };
  struct Line {
    std::set<Flow*, ByRank> flows;
    std::vector<Flow*> shorts;  ///< flows that lack this budget even as owed flows
    std::size_t width = 1;
    bool mixed = false;  ///< flows of several groups stand in it
  };

  static const Stall& stall_at(const Flow& flow, std::size_t budget);
  bool waits_for_model(const Flow& flow) const;
  bool can_start(const Flow& flow) const { return terms_.can_start(flow.group()); }
  void enter_line(Flow& flow, const Stall& stall);
  void leave_line(Flow& flow, std::size_t budget);
  void set_short(Flow& flow, std::size_t budget);
  void unset_shorts(Line& line);
  void count_parked(FlowGroup& group, bool more);
  void take_out(Flow& flow);
  void ask(Flow& flow);
  void ask_first_ones();

  std::size_t budgets_;
  std::vector<Line> lines_;  // by budget, then by model
  const Terms& terms_;
  PlacedHeap<Flow, TimePoint, &Flow::wake_at_> wakes_;
  std::vector<std::size_t> moved_;  // lines whose first flows may have changed
  std::vector<Flow*> asked_;        // flows that are to be asked, and some that were
  std::vector<FlowGroup*> groups_;  // groups with flows in line
  LaneIndex highest_asked_ = kNoLane;
};

template <class Tell>
const Stall* Parking::ahead(std::size_t budget, const Rank& rank, Tell tell) const {
  for (const Flow* flow : lines_[budget].flows) {
    if (!(flow->parked_.rank < rank)) break;
    if (!can_start(*flow)) continue;
    const Stall& stall = stall_at(*flow, budget);
    if (stall.account == Stall::kNoAccount) return &stall;
    tell(stall);
  }
  return nullptr;
}

}  // namespace lanemq::core
