// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lanemq/error_table.hpp>

#include "broker/core/base/options.hpp"
#include "broker/core/base/times.hpp"
#include "broker/core/jobs/job.hpp"
#include "broker/core/scheduler/flow_group.hpp"

namespace lanemq::core {

class Service;
class Terms;

/// Counters of a lane, since the start.
struct LaneCounters {
  std::uint64_t accepted = 0, succeeded = 0, failed = 0, refused = 0, requeued = 0, duplicates = 0;
  std::uint64_t cancelled = 0;                    ///< of those that failed
  std::map<ErrorCode, std::uint64_t> refused_by;  ///< `refused` by what the clients were told
  std::uint64_t restored = 0;                     ///< accepted before a restart, and restored
  std::uint64_t sent_on = 0;                      ///< submits that were told which other shard takes them
};

/// One priority lane: its flows, its bounds and its figures.
class Lane {
 public:
  Lane(const LaneOptions& options, LaneIndex index) : options_(options), index_(index) {}
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  const LaneOptions& options() const { return options_; }
  /// Requires: the same name.
  void configure(const LaneOptions& options);
  LaneIndex index() const { return index_; }
  std::size_t depth() const { return queued + delayed; }
  /// The number of jobs that depth_max bounds: jobs that tell of ends have a bound of their own.
  std::size_t bounded_depth() const { return depth() - webhooks; }

  /// The flow for jobs of a service with a set of budgets, which is added if there is none.
  Flow& flow(Service& service, BudgetSet budgets);

  /// Destroys the flows of services that are about to be forgotten. Requires: nothing refers to them.
  void forget_leaving();

  /// A group is ready while one of its flows is to be asked and its service has a free place.
  void update_ready(FlowGroup& group);
  const std::vector<FlowGroup*>& ready() const { return ready_; }

  /// The flow's turn in virtual time: of flows that want the same place the lowest goes first, so that a long
  /// queue for one service or budget does not keep others waiting.
  std::int64_t turn_of(const Flow& flow) const { return std::max(flow.tag, virtual_now_); }
  /// Where flows start that have not been served lately. It moves on as that of Turns does.
  std::int64_t virtual_now() const { return virtual_now_; }
  /// The turn of jobs of lower lanes that compete in this one, since they have waited for boost_after: all of
  /// them take turns as one flow, which weighs as much as all of the lane's own.
  std::int64_t turn_of_boosted() const { return std::max(boosted_tag_, virtual_now_); }
  /// Charges the flow for a job that is about to be handed over; `cost` in tokens, none where they are not
  /// counted.
  void charge(Flow& flow, std::optional<std::int64_t> cost);
  /// Charges jobs of lower lanes, likewise, where one of them is handed over that competed in this lane.
  void charge_boosted(std::optional<std::int64_t> cost);

  /// One for each service that had jobs in this lane.
  const std::vector<std::unique_ptr<FlowGroup>>& groups() const { return groups_; }

  /// Estimates jobs before they become heads; null: jobs are estimated already.
  Terms* terms = nullptr;

  std::size_t queued = 0, delayed = 0, running = 0, bytes = 0;
  std::size_t webhooks = 0;   ///< of queued and delayed: those that tell of ends
  bool paused = false;        ///< by an operator
  bool bodies_held = false;   ///< jobs whose bodies only the store has are not handed over now
  bool disk_stalled = false;  ///< durable jobs are not handed over until the store's disk goes on
  LaneCounters counters;
  void count_refused(ErrorCode why) {
    ++counters.refused;
    ++counters.refused_by[why];
  }
  Times wait, run;
  Times first_piece;  ///< of streamed answers: from the hand-over on
  /// Counts a job that is done, for leaving_per_second.
  void count_leaving(TimePoint now);
  double leaving_per_second = 0;  ///< over the last whole second, for retry_after of a full lane

 private:
  LaneOptions options_;
  LaneIndex index_;
  std::vector<std::unique_ptr<FlowGroup>> groups_;
  std::vector<FlowGroup*> ready_;
  std::int64_t cost_of(std::optional<std::int64_t> tokens);
  std::int64_t ready_weight() const;
  void move_on(std::int64_t tag, std::int64_t cost);

  std::int64_t virtual_now_ = 0, virtual_rest_ = 0;
  std::int64_t boosted_tag_ = 0, boosted_rest_ = 0;  // of turn_of_boosted()
  std::int64_t usual_cost_ = 1;  // recent mean; the cost of a job whose tokens are not counted
  TimePoint second_began_{};
  std::uint64_t left_in_second_ = 0;
};

}  // namespace lanemq::core
