// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "broker/core/base/time.hpp"
#include "broker/core/budgets/budgets.hpp"
#include "broker/core/scheduler/flow.hpp"

namespace lanemq::core {

class FlowGroup;
struct Job;
class Parking;
class Service;
struct State;
class Terms;
class Upstreams;
struct Worker;

/// The caller's next step with a waiting job.
struct Pick {
  enum class What : std::uint8_t {
    none,           ///< nothing can be done in this turn
    start,          ///< hand it over: a place is free, and its budgets have room for the claim
    overdue,        ///< its deadline is over, and its timer has not fired yet
    shut_out,       ///< its upstream is paused beyond its deadline
    unsatisfiable,  ///< its claim exceeds a limit that was lowered after it came
  };
  What what = What::none;
  Job* job = nullptr;
  Claim claim{};
  Worker* alone = nullptr;  ///< start: the worker that it goes to; null: one with a free place

  explicit operator bool() const { return what != What::none; }
};

/// Decides which job runs next. Starts and ends no job: the caller does what a pick says, and asks again.
/// Moves jobs among flows, and flows among lines.
class Dispatcher {
 public:
  Dispatcher(State& state, Terms& terms, Parking& parking, Upstreams& upstreams);
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  /// Begins a turn. `behind`: the backlog of timers is left for later turns, so that queued jobs may be past
  /// their deadline.
  void begin(TimePoint now, bool behind);
  /// The next pick; to be called until there is none. Requires: begin(), and the last pick was carried out.
  Pick next(TimePoint now);
  TimePoint begun_at() const;
  /// At the end of a turn: says what lanes want of budgets that are shared.
  void say_wants(TimePoint now);
  /// When begin() wants to be called; kNever: only after a change.
  TimePoint next_wakeup() const;

  /// Takes a job that is about to be handed over out of its queue. Its cost moves the turns of its flow and
  /// lane, and what lanes are owed. Returns the cost.
  std::int64_t take(Job& job);
  /// A job was handed over to try a failed upstream.
  void trial_made() { trial_made_ = true; }
  /// Something that keeps jobs back has begun or ended since begin(), so that other jobs may be next.
  void turns_changed() { turns_changed_ = true; }
  /// Options of lanes and budgets have changed: empties all lines, so that all flows are asked anew.
  void options_changed();
  /// Limits have changed: empties all lines.
  void limits_changed();

  /// The reason why a queued job waits. `until`: when the job starts if only time passes until then; none
  /// where that is not known, as for a job behind others.
  struct Wait {
    std::string what;
    std::optional<TimePoint> until;
  };
  Wait wait_of(const Job& job, TimePoint now);

 private:
  enum class As : std::uint8_t { usual, owed };

  Pick pick_alone(TimePoint now);
  std::optional<Claim> claim_alone(const Job& job, TimePoint now);
  Pick pick_for(Flow& next, LaneIndex level, TimePoint now);
  Pick pick_from(LaneIndex level, TimePoint now);
  void settle_level(const Job& handed_over, TimePoint now);
  bool is_any_owed(const Service& service) const;
  void settle_turns();
  Flow* next_in(LaneIndex level, TimePoint now);
  Pick ask(Flow& flow, As as, TimePoint now);
  Pick ask_as_owed(const Flow& flow, TimePoint now);
  Pick owed_others(const Flow& next, TimePoint now);
  Pick owed_elsewhere(const Flow& next, TimePoint now);
  bool is_at_home(const Job& job);
  void go_home(Job& job, TimePoint now);
  Pick wait_for_model(Flow& flow, TimePoint until, TimePoint now);
  Rank rank_of(const Job& job, TimePoint now) const;
  bool is_owed(const Flow& flow) const;
  bool top_is_ahead(std::size_t budget, const Claim& claim);
  static Duration saving_time(const std::vector<Stall>& stalls);
  void rest_from_saving(FlowGroup& group, TimePoint now);
  void share_out(const Job& job);
  bool waits_alone(const Job& job) const;
  bool may_be_passed(const Job& job, TimePoint by, TimePoint now);
  std::string paused_by(const Job& job) const;
  std::string no_worker(const Service& service, LaneIndex lane) const;

  State& state_;
  Terms& terms_;
  Parking& parking_;
  Upstreams& upstreams_;
  std::vector<Stall> stalls_;  // of the head that is being asked
  std::uint64_t claims_ = 0;
  std::size_t level_ = 0;             // the level that is being asked
  const Job* handed_over_ = nullptr;  // what the last pick started
  TimePoint alone_at_ = kNever;       // when a job that goes out alone may have room
  std::size_t overdue_left_ = 0;      // overdue jobs that may still be picked in this turn
  std::size_t moves_left_ = 1;        // moves to a model's flow that are left in this turn
  bool behind_ = false, turns_changed_ = false, trial_made_ = false;
};

}  // namespace lanemq::core
