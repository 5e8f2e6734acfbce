// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include <lanemq/messages.hpp>

#include "broker/core/base/time.hpp"
#include "broker/core/budgets/budgets.hpp"
#include "broker/core/budgets/estimates.hpp"
#include "broker/core/jobs/job.hpp"

namespace lanemq::core {

class Flow;
class FlowGroup;
struct State;

/// The terms on which a job starts: what it is expected to take, the lane in which it competes, what it
/// claims of its budgets, and whether jobs like it may start at all. Asks; but for what jobs are expected to
/// take it changes nothing.
class Terms {
 public:
  explicit Terms(State& state);
  Terms(const Terms&) = delete;
  Terms& operator=(const Terms&) = delete;

  /// What is asked of the options for each job is found out anew.
  void options_changed();
  /// Whether any lane has boost_after, share_min.
  bool boosts() const { return boosts_; }
  bool shares() const { return shares_; }

  /// A job that comes, as the budgets of the set count it; `cost`: what its client has stated. Nothing where
  /// none of them counts tokens.
  Estimate estimate(BudgetSet set, std::string_view model, std::string_view client, std::string_view body,
                    const std::optional<wire::Cost>& cost);
  /// What the job is expected to take is there, if a budget of it counts tokens, and else is not. Called
  /// before it is the head of its flow.
  void appraise(Job& job);
  /// All heads anew: other budgets count tokens than before.
  void reappraise();

  /// A turn begins: what is asked until the next one is asked as of `now`.
  void begin(TimePoint now) { now_ = now; }
  TimePoint begun_at() const { return now_; }

  bool is_top(LaneIndex lane) const;
  /// The lane in which a job competes: its own, or one higher for each boost_after that it has waited, but
  /// never the top.
  LaneIndex level_of(LaneIndex lane, TimePoint accepted_at, TimePoint now) const;
  LaneIndex level_of(const Job& job, TimePoint now) const;
  /// Of its head. Requires: it is not empty.
  LaneIndex level_of(const Flow& flow, TimePoint now) const;
  Claim claim_of(const Job& job, TimePoint now) const;
  /// What a job may have as owed: all but what is held for the top lane.
  Claim owed_claim_of(const Job& job) const;

  /// Whether jobs of the group may be handed over now, where their budgets allow it.
  bool can_start(const FlowGroup& group) const;
  /// From when on jobs of the flow's model go: it is paused, or its calls fail and nobody tries it now.
  TimePoint model_open_from(const Flow& flow, TimePoint now) const;

 private:
  bool upstream_admits(const FlowGroup& group) const;
  static std::uint16_t refused_key_of(const Job& job);
  void fit(BudgetSet set, const std::optional<wire::Cost>& stated, Estimate& estimate) const;

  State& state_;
  std::vector<int> hold_below_;           // by lane: thousandths of each burst that it leaves to those above
  bool boosts_ = false, shares_ = false;  // whether any lane has boost_after, share_min
  TimePoint now_{};
};

}  // namespace lanemq::core
