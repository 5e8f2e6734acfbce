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

/// The flows whose heads were refused by a budget. They are not asked again until something may have
/// changed for them, so that a decision does not depend on how many budgets are used up.
///
/// Each budget has a line of them, by rank: who wants it and is behind somebody in its line waits there too,
/// whatever it costs. Else small jobs would pass a large one for ever. A flow of a group that may not start
/// jobs now (it has no place, its upstream failed) keeps nobody waiting. When a budget has room again only
/// the first in its line is asked, or, of a budget with keys, as many as these have accounts; when one of
/// these has left the line, the next is.
///
/// A flow leaves by itself when its head is another. Owns nothing: flows must stay at their address.
class Parking {
 public:
  /// `budgets`: how many there are. `terms`: say whether a group's jobs may start now, but for budgets.
  Parking(std::size_t budgets, const Terms& terms) : lines_(budgets), terms_(terms) {}
  Parking(const Parking&) = delete;
  Parking& operator=(const Parking&) = delete;

  /// How many in line of a budget are asked at once; 1 at least.
  void set_width(std::size_t budget, std::size_t width) { lines_[budget].width = width; }

  /// The rank under which a flow is asked: while it waits with the same head in the same lane and is owed
  /// to it as before, the one it has.
  Rank rank_of(const Flow& flow, const Rank& fresh) const;
  /// The first in line at a budget of those before `rank` who wait for the budget itself; they keep whoever
  /// is behind waiting. Null when there is none. `tell` is called with each before that one, who waits for
  /// one of its accounts.
  template <class Tell>
  const Stall* ahead(std::size_t budget, const Rank& rank, Tell tell) const;

  /// Calls `tell` with each flow in line at a budget until it returns true; whether it did.
  template <class Tell>
  bool any_in_line(std::size_t budget, Tell tell) const {
    const auto& flows = lines_[budget].flows;
    return std::any_of(flows.begin(), flows.end(), [&](const Flow* flow) { return tell(*flow); });
  }

  /// The first in line at a budget, before `flow`, that is owed what it wants and is to be asked again;
  /// null when there is none. It may have it now: whoever is behind it is to be asked after it.
  Flow* owed_before(std::size_t budget, const Flow& flow) const;

  /// The flow waits at these budgets and at no other until one has room, or until `wake_at`. Requires:
  /// there is at least one, and its head is the one that was asked. `short_of`: the budget among these that
  /// it is short of even if it is owed to its lane.
  void park(Flow& flow, const Rank& rank, const std::vector<Stall>& stalls,
            std::optional<std::size_t> short_of, TimePoint wake_at);
  /// The flow is asked like any other again.
  void leave(Flow& flow);
  /// All are.
  void leave_all();

  /// A budget may have room.
  void ease(std::size_t budget);
  /// Has those asked again whose time has come.
  void wake(TimePoint now);
  /// Groups that may not start jobs any more make way for others.
  void make_way();
  /// After all that can be asked was asked: those who should have been, and may not start, make way for
  /// others. True if there are some who are to be asked now.
  bool pass_on();
  /// When wake() wants to be called; kNever: when something has changed.
  TimePoint next_wakeup() const { return wakes_.empty() ? kNever : wakes_.front_key(); }
  /// The highest lane in which somebody competes who came to be asked since this was called last.
  LaneIndex take_highest_asked() { return std::exchange(highest_asked_, kNoLane); }
  static constexpr LaneIndex kNoLane = 0xFF;

 private:
  struct ByRank {
    bool operator()(const Flow* a, const Flow* b) const { return a->parked_.rank < b->parked_.rank; }
  };
  struct Line {
    std::set<Flow*, ByRank> flows;
    std::vector<Flow*> shorts;  ///< that are short of this budget even if they are owed
    std::size_t width = 1;
    bool mixed = false;  ///< somebody waits behind one of another group
  };

  static const Stall& stall_at(const Flow& flow, std::size_t budget);
  bool can_start(const Flow& flow) const { return terms_.can_start(flow.group()); }
  void enter_line(Flow& flow, const Stall& stall);
  void leave_line(Flow& flow, std::size_t budget);
  void set_short(Flow& flow, std::size_t budget);
  void unset_shorts(Line& line);
  void count_parked(FlowGroup& group, bool more);
  void take_out(Flow& flow);
  void ask(Flow& flow);
  void ask_first_ones();

  std::vector<Line> lines_;  // by budget
  const Terms& terms_;
  PlacedHeap<Flow, TimePoint, &Flow::wake_at_> wakes_;
  std::vector<std::size_t> moved_;  // lines whose first ones may be others
  std::vector<Flow*> asked_;        // flows in line that are to be asked, and some that were
  std::vector<FlowGroup*> groups_;  // that have flows in line
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
