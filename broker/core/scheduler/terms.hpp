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

/// The terms on which a job starts: its estimate, the level at which it competes, its claim, and whether jobs
/// like it may start at all. Changes nothing but the estimates of jobs.
class Terms {
 public:
  explicit Terms(State& state);
  Terms(const Terms&) = delete;
  Terms& operator=(const Terms&) = delete;

  /// To be called when the options have changed.
  void options_changed();
  /// Whether any lane has boost_after, or share_min.
  bool boosts() const { return boosts_; }
  bool shares() const { return shares_; }

  /// The estimate of a new job, as the set's budgets count it; empty where none counts tokens. `cost`: what
  /// its client has stated; where it is not certain the larger counts of that and our own.
  Estimate estimate(BudgetSet set, std::string_view model, std::string_view client, std::string_view body,
                    const std::optional<wire::Cost>& cost);
  /// Sets the job's estimate if its budgets count tokens and it has none or a rough one, else clears it.
  /// Called before the job becomes a head.
  void appraise(Job& job);
  /// The body of a job with a rough estimate came from the store: estimates it anew if it costs more than
  /// what it was handed out for, and returns whether it does.
  bool costs_more(Job& job, std::string_view body);
  /// Estimates all heads anew: other budgets count tokens than before.
  void reappraise();

  /// Begins a turn: later questions are answered as of `now`.
  void begin(TimePoint now) { now_ = now; }
  TimePoint begun_at() const { return now_; }

  bool is_top(LaneIndex lane) const;
  /// The level at which a job competes: its lane, or one higher for each boost_after that it has waited, but
  /// never the top lane.
  LaneIndex level_of(LaneIndex lane, TimePoint accepted_at, TimePoint now) const;
  LaneIndex level_of(const Job& job, TimePoint now) const;
  /// The level of its head. Requires: the flow is not empty.
  LaneIndex level_of(const Flow& flow, TimePoint now) const;
  Claim claim_of(const Job& job, TimePoint now) const;
  /// The claim of a job as an owed one: it holds back only for the top lane.
  Claim owed_claim_of(const Job& job) const;

  /// Whether jobs of the group may be handed over now, budgets aside.
  bool can_start(const FlowGroup& group) const;
  /// From when jobs of the flow's model may go: it is paused, or it fails and is not tried now.
  TimePoint model_open_from(const Flow& flow, TimePoint now) const;

 private:
  bool upstream_admits(const FlowGroup& group) const;
  static std::uint16_t refused_key_of(const Job& job);
  Estimate estimate_of(const Job& job, const auto& body) const;
  void fit(BudgetSet set, const std::optional<wire::Cost>& stated, Estimate& estimate) const;

  State& state_;
  std::vector<int> hold_below_;           // by lane: thousandths of each burst that it leaves to higher lanes
  bool boosts_ = false, shares_ = false;  // whether any lane has boost_after, share_min
  TimePoint now_{};
};

}  // namespace lanemq::core
