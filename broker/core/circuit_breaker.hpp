// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string_view>

#include "broker/core/time.hpp"

namespace lanemq::core {

/// What the end of a call says of its upstream.
enum class Verdict : std::uint8_t {
  success,
  failure,      ///< it failed, or has no capacity
  unreachable,  ///< a failure: there was not even a connection
  refusal,      ///< it said no, for a reason that is not its health
  unknown,      ///< nobody knows: the call was not made, or its worker or its job is gone
};

/// Whether the `code` of a worker's failure says that its upstream could not be connected to.
bool says_unreachable(std::string_view code);

/// Whether an upstream is worth calling (Nygard, "Release It!", 2007): opens when calls fail, tries one, then
/// kTrialsMax at once, and closes when all of them were answered. While it is open its jobs wait.
///
/// One for each service. Not for each model: what a client writes into `model` is without bound, and jobs of
/// several models wait in one queue.
class CircuitBreaker {
 public:
  enum class State : std::uint8_t { closed, open, half_open };

  static constexpr std::size_t kWindowCalls = 20;  ///< the last calls, of which none is older than kWindow
  static constexpr Duration kWindow = std::chrono::seconds(30);
  static constexpr std::size_t kCallsMin = 10;  ///< fewer say nothing; half of them failed opens it
  static constexpr int kUnreachableMax = 5;     ///< so many in a row open it at once
  static constexpr Duration kOpenMin = std::chrono::seconds(5);  ///< doubles with each trial that fails
  static constexpr Duration kOpenMax = std::chrono::seconds(60);
  static constexpr int kTrialsMax = 3;
  /// A trial that says nothing for so long is not waited for any more.
  static constexpr Duration kTrialPatience = std::chrono::seconds(60);

  State state() const { return state_; }
  bool closed() const { return state_ == State::closed; }

  /// Whether one more call may be made. `top_lane`: it is of the most urgent lane. That one is not what an
  /// upstream is tried with: it waits twice as long for somebody else to be the first.
  bool admits(bool top_lane, TimePoint now) const;
  /// When it admits a call if nothing happens until then; kNever where that is for a call under way to say.
  TimePoint admits_at(bool top_lane) const;
  /// When time alone changes what it admits; kNever while it is closed.
  TimePoint next_change() const;
  /// Counts the changes of state: a call belongs to the period in which it was made.
  using Period = std::uint32_t;
  static constexpr Period kNoPeriod = 0;
  Period period() const { return period_; }
  /// A call is made. Requires: it is admitted. Returns the period that it belongs to.
  Period called(TimePoint now);
  /// A call of that period is over. One of an earlier period says nothing. Requires: it is told once for each
  /// call.
  void ended(Verdict verdict, Period called_in, TimePoint now, std::mt19937_64& random);
  /// Lets trials begin where it has been open for long enough.
  void advance(TimePoint now);

 private:
  struct Call {
    TimePoint at{};
    bool failed = false;
  };

  bool too_many_failed(TimePoint now) const;
  void open(TimePoint now, std::mt19937_64& random);
  void judge_trial(Verdict verdict, TimePoint now, std::mt19937_64& random);
  void close();

  State state_ = State::closed;
  Period period_ = 1;                     // of state_
  std::array<Call, kWindowCalls> calls_;  // a ring
  std::size_t next_call_ = 0, calls_made_ = 0;
  int unreachable_ = 0;  // in a row
  int openings_ = 0;     // since it was closed
  TimePoint open_until_{}, top_lane_from_{};
  int trials_out_ = 0, trials_passed_ = 0;
  TimePoint trial_at_{};  // the last one
};

std::string_view name_of(CircuitBreaker::State state);

}  // namespace lanemq::core
