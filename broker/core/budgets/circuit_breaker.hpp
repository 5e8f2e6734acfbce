// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string_view>

#include "broker/core/base/mark.hpp"
#include "broker/core/base/time.hpp"

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

/// Whose call it was, and for which model, by marks that tell them apart.
struct Caller {
  std::uint64_t client = kNoMark, model = kNoMark;
};

/// Whether an upstream is worth calling (Nygard, "Release It!", 2007): opens when calls fail, tries one, then
/// kTrialsMax at once, and closes when all of them were answered. While it is open its jobs wait.
///
/// One for each service, and one for each of its models that fails while others are answered. What one client
/// asks for may be why its calls fail. So where several call, one has no more than kOfClient of the calls
/// that are looked at, and they fail only if they do so without those of any one client, too; of models
/// likewise.
class CircuitBreaker {
 public:
  /// Counts the changes of state: a call belongs to the period in which it was made.
  using Period = std::uint32_t;
  static constexpr Period kNoPeriod = 0;
  enum class State : std::uint8_t { closed, open, half_open };
  /// What the calls say when one more has failed. `all_fail` has opened it; the rest is for the owner to say,
  /// who knows whether others wait, and which models can be left alone.
  enum class Finding : std::uint8_t { nothing, all_fail, one_client_fails, one_model_fails };

  static constexpr std::size_t kWindowCalls = 20;  ///< the last calls, of which none is older than kWindow
  static constexpr Duration kWindow = std::chrono::seconds(30);
  static constexpr std::size_t kCallsMin = 10;  ///< fewer say nothing; half of them failed opens it
  static constexpr std::size_t kOfClient = kWindowCalls / 4;     ///< while others call, too
  static constexpr std::size_t kOthersMin = 2;                   ///< fewer of the others say nothing
  static constexpr int kUnreachableMax = 5;                      ///< so many in a row open it at once
  static constexpr Duration kOpenMin = std::chrono::seconds(5);  ///< doubles with each trial that fails
  static constexpr Duration kOpenMax = std::chrono::seconds(60);
  static constexpr int kTrialsMax = 3;
  /// A trial that says nothing for so long is not waited for any more.
  static constexpr Duration kTrialPatience = std::chrono::seconds(60);

  /// `first`: the period in which it begins.
  explicit CircuitBreaker(Period first = 1) : period_(first) {}

  State state() const { return state_; }
  bool closed() const { return state_ == State::closed; }

  /// Whether one more call may be made. `top_lane`: it is of the most urgent lane. That one is not what an
  /// upstream is tried with: it waits twice as long for somebody else to be the first.
  bool admits(bool top_lane, TimePoint now) const;
  /// When it admits a call if nothing happens until then; kNever where that is for a call under way to say.
  TimePoint admits_at(bool top_lane) const;
  /// When time alone changes what it admits; kNever while it is closed.
  TimePoint next_change() const;
  Period period() const { return period_; }
  /// A call is made. Requires: it is admitted. Returns the period that it belongs to.
  Period called(TimePoint now);
  /// A call of that period is over. One of an earlier period says nothing. Requires: it is told once for each
  /// call.
  Finding ended(Verdict verdict, Period called_in, const Caller& caller, TimePoint now,
                std::mt19937_64& random);
  /// Opens it. `client`: the only one whose calls are known to fail; kNoMark: there are several.
  void open(std::uint64_t client, TimePoint now, std::mt19937_64& random);
  /// The one for whom alone it is not closed; kNoMark: it failed for several, or is closed.
  std::uint64_t only_client() const { return only_client_; }
  /// Whether all calls that it looks at named that model.
  bool names_only(std::uint64_t model) const;
  /// The one whose calls all calls for that model are; kNoMark: they are several's.
  std::uint64_t only_client_of(std::uint64_t model) const;
  /// Somebody else wants to call than the only client: it is tried with his job, now. What an earlier trial
  /// says does not count any more. Requires: it is not closed.
  void try_now(TimePoint now);
  /// Until when a client whose trial failed leaves the next one to others. Requires: it is not closed.
  TimePoint others_first_until() const { return top_lane_from_; }
  /// Whether it has been ready to be tried for so long that anybody had his turn, and nobody tries it.
  bool is_idle(TimePoint now) const {
    return state_ == State::half_open && trials_out_ == 0 && now >= top_lane_from_;
  }
  /// Lets trials begin where it has been open for long enough.
  void advance(TimePoint now);

 private:
  struct Call {
    TimePoint at{};
    bool failed = false;
    Caller caller{};
  };
  /// Of some calls: how many there are, and how many of them failed.
  struct Count {
    std::size_t calls = 0, failed = 0;
    bool half() const { return 2 * failed >= calls; }
    bool all() const { return failed == calls; }
  };

  template <class Counts>
  Count count(Counts counts) const;
  void record(bool failed, const Caller& caller, TimePoint now);
  void make_room(const Caller& caller, TimePoint now);
  bool nobody_reaches_it() const;
  Finding look(const Caller& caller) const;
  bool fails_without_any_client() const;
  bool fails_without_any_model() const;
  bool model_fails(const Caller& caller) const;
  Finding judge_trial(Verdict verdict, const Caller& caller, TimePoint now, std::mt19937_64& random);
  void begin(TimePoint now, std::mt19937_64& random);
  void close();

  State state_ = State::closed;
  Period period_;                         // of state_
  std::array<Call, kWindowCalls> calls_;  // a ring
  std::size_t next_call_ = 0, calls_made_ = 0;
  int unreachable_ = 0;                      // in a row
  std::uint64_t unreachable_for_ = kNoMark;  // of these calls, whose they all are; kNoMark: several clients'
  std::size_t failed_ = 0;                   // of these calls
  // While it is not closed: for whom alone, whose trial failed last, and which one passed last in this
  // period.
  std::uint64_t only_client_ = kNoMark, failed_last_ = kNoMark;
  Caller passed_last_{};
  int openings_ = 0;  // since it was closed
  TimePoint open_until_{}, top_lane_from_{};
  int trials_out_ = 0, trials_passed_ = 0;
  TimePoint trial_at_{};  // the last one
};

std::string_view name_of(CircuitBreaker::State state);

}  // namespace lanemq::core
