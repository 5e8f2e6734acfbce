// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "broker/core/scheduler/flow.hpp"

namespace lanemq::core {

/// Stands for the usual cost of the service's jobs: the head's tokens are not counted.
inline constexpr std::int64_t kUsualCost = 0;
/// Stands for a head that can never be had as owed: more than any lane is ever owed.
inline constexpr std::int64_t kNeverOwed = std::numeric_limits<std::int64_t>::max();

/// Flows and the costs of their heads, in one block of memory, so that a flow whose head is cheap enough is
/// found fast. That there is none mostly shows in two numbers.
///
/// `At` is where a flow notes its place. Owns nothing: flows must stay at their address.
template <std::size_t Flow::*At>
class HeadCosts {
 public:
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

  bool empty() const { return all_.empty(); }
  /// Requires: the flow is in no such list.
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

  /// The flow with the lowest tag whose head costs at most `cost_max`; null: none. `usual`: the usual cost.
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
  /// The highest cost; 0: no flows. `usual`: the usual cost.
  std::int64_t most(std::int64_t usual) {
    if (most_may_be_less_) {
      most_ = 0;
      for (const Entry& entry : all_)
        if (entry.cost != kNeverOwed) most_ = std::max(most_, entry.cost);
      most_may_be_less_ = false;
    }
    return usual_ > 0 ? std::max(most_, usual) : most_;
  }
  /// Calls `tell` with each flow until it returns true. Returns whether it did.
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
  std::size_t usual_ = 0;            // flows of the usual cost
  std::int64_t least_ = kNeverOwed;  // at most the lowest other cost
  std::int64_t most_ = 0;            // at least the highest other cost
  bool most_may_be_less_ = false;
};

}  // namespace lanemq::core
