// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "broker/core/scheduler/flow.hpp"

namespace lanemq::core {

/// Instead of a cost. Of a head whose tokens nobody counts: whatever jobs of its service usually cost.
inline constexpr std::int64_t kUsualCost = 0;
/// Of a head that can never be had as owed: more than any lane is ever owed.
inline constexpr std::int64_t kNeverOwed = std::numeric_limits<std::int64_t>::max();

/// Flows, and what their heads cost: whoever costs little enough is found by a look along one block of
/// memory, and that there is none mostly by a look at two numbers.
///
/// `At` is where a flow notes its place. Owns nothing: flows must stay at their address.
template <std::size_t Flow::*At>
class HeadCosts {
 public:
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

  bool empty() const { return all_.empty(); }
  /// Requires: it is in no such list.
  void add(Flow& flow, std::int64_t cost, std::int64_t tag) {
    flow.*At = all_.size();
    all_.push_back({&flow, cost, tag});
    comes(cost);
  }
  void change(const Flow& flow, std::int64_t cost, std::int64_t tag) {
    Entry& entry = all_[flow.*At];
    entry.tag = tag;
    if (entry.cost == cost) return;
    goes(entry.cost);
    entry.cost = cost;
    comes(cost);
  }
  void remove(Flow& flow) {
    Entry& entry = all_[flow.*At];
    goes(entry.cost);
    all_.back().flow->*At = flow.*At;
    entry = all_.back();
    all_.pop_back();
    flow.*At = kNowhere;
  }

  /// Of those whose heads cost at most `cost_max` the one with the lowest tag; null when there is none.
  /// `usual`: the usual cost.
  Flow* first_within(std::int64_t cost_max, std::int64_t usual) {
    const bool usual_is_within = usual_ > 0 && usual <= cost_max;
    if (least_ > cost_max && !usual_is_within) return nullptr;
    const Entry* first = nullptr;
    least_ = kNeverOwed;
    for (const Entry& entry : all_) {
      const bool is_usual = entry.cost == kUsualCost;
      if (!is_usual) least_ = std::min(least_, entry.cost);
      const bool is_within = is_usual ? usual_is_within : entry.cost <= cost_max;
      if (is_within && (first == nullptr || entry.tag < first->tag)) first = &entry;
    }
    return first != nullptr ? first->flow : nullptr;
  }
  /// The greatest cost; 0 when there is none. `usual`: the usual cost.
  std::int64_t most(std::int64_t usual) {
    if (most_may_be_less_) {
      most_ = 0;
      for (const Entry& entry : all_)
        if (entry.cost != kNeverOwed) most_ = std::max(most_, entry.cost);
      most_may_be_less_ = false;
    }
    return usual_ > 0 ? std::max(most_, usual) : most_;
  }
  /// Calls `tell` with each flow until it returns true; whether it did.
  template <class Tell>
  bool any_of(Tell tell) const {
    return std::any_of(all_.begin(), all_.end(), [&](const Entry& entry) { return tell(*entry.flow); });
  }

 private:
  struct Entry {
    Flow* flow;
    std::int64_t cost, tag;
  };

  void comes(std::int64_t cost) {
    if (cost == kUsualCost) {
      ++usual_;
    } else if (cost != kNeverOwed) {
      least_ = std::min(least_, cost);
      if (cost < most_) return;
      most_ = cost;
      most_may_be_less_ = false;
    }
  }
  void goes(std::int64_t cost) {
    if (cost == kUsualCost)
      --usual_;
    else if (cost == most_)
      most_may_be_less_ = true;
  }

  std::vector<Entry> all_;
  std::size_t usual_ = 0;            // those of the usual cost
  std::int64_t least_ = kNeverOwed;  // no other cost is lower
  std::int64_t most_ = 0;            // likewise higher
  bool most_may_be_less_ = false;
};

}  // namespace lanemq::core
