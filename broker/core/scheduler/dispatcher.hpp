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

/// What is to be done next with a job that waits.
struct Pick {
  enum class What : std::uint8_t {
    none,           ///< nothing can be done in this turn
    start,          ///< it is handed over: there is a place, and its budgets have room for the claim
    overdue,        ///< its time is over, and its timer is still to come
    shut_out,       ///< its upstream takes nobody before its time is over
    unsatisfiable,  ///< its claim is more than a limit ever has, which was lowered since it came
  };
  What what = What::none;
  Job* job = nullptr;
  Claim claim{};

  explicit operator bool() const { return what != What::none; }
};

/// Who runs next. It is asked, and does not act: whoever asks does with each pick what it says, and asks
/// again. It moves jobs among flows and flows among lines, and ends none.
class Dispatcher {
 public:
  Dispatcher(State& state, Terms& terms, Parking& parking, Upstreams& upstreams);
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  /// A turn begins. `behind`: more has come due than this turn has done, so that jobs may be queued whose
  /// time is over.
  void begin(TimePoint now, bool behind);
  /// The next thing to be done; asked until there is none. Requires: begin(), and what the last pick said is
  /// done.
  Pick next(TimePoint now);
  TimePoint begun_at() const;
  /// When begin() wants to be called; kNever: when something has changed.
  TimePoint next_wakeup() const;

  /// The job is about to be handed over: it leaves its queue, and what it costs moves the turns of its flow
  /// and lane, and what others are owed. Returns what it counts for.
  std::int64_t take(Job& job);
  /// A job was handed over to try an upstream that failed.
  void trial_made() { trial_made_ = true; }
  /// Others have their turn now than when begin() was called: what keeps jobs back has begun or ended.
  void turns_changed() { turns_changed_ = true; }
  /// Other lanes and budgets count: nobody stands in line any more, and whoever did is asked anew.
  void options_changed();
  /// Nobody stands in line any more.
  void limits_changed();

  /// What a queued job waits for. `until`: when it may go if until then nothing comes and nothing ends but
  /// time; none where that is not known, as of a job that has others before it.
  struct Wait {
    std::string what;
    std::optional<TimePoint> until;
  };
  Wait wait_of(const Job& job, TimePoint now);

 private:
  enum class As : std::uint8_t { usual, owed };

  Pick pick_from(LaneIndex level, TimePoint now);
  void settle_level(const Job& handed_over, TimePoint now);
  void settle_turns();
  Flow* next_in(LaneIndex level, TimePoint now);
  Pick ask(Flow& flow, As as, TimePoint now);
  Pick ask_as_owed(const Flow& flow, TimePoint now);
  Pick owed_lower(const Flow& next, TimePoint now);
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

  State& state_;
  Terms& terms_;
  Parking& parking_;
  Upstreams& upstreams_;
  std::vector<Stall> stalls_;  // of the head that is asked
  std::uint64_t claims_ = 0;
  std::size_t level_ = 0;             // the lane that is asked
  const Job* handed_over_ = nullptr;  // what the last pick started
  std::size_t overdue_left_ = 0;      // jobs past their deadline that it may still pick in this turn
  std::size_t moves_left_ = 1;        // jobs that it may still bring to where those of their model stand
  bool behind_ = false, turns_changed_ = false, trial_made_ = false;
};

}  // namespace lanemq::core
