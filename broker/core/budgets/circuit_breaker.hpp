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

/// What the end of a call shows about its upstream.
enum class Verdict : std::uint8_t {
  success,
  failure,      ///< it failed, or has no capacity
  unreachable,  ///< a failure: there was not even a connection
  refusal,      ///< the upstream said no, for a reason that is not its health
  unknown,      ///< the call was not made, or its worker or its job is gone
};

/// Whether the `code` of a worker's failure means that the upstream could not be connected to.
bool says_unreachable(std::string_view code);
/// Whether it means that the worker could not even call: it has no secret for the job's key. That shows
/// nothing about the upstream.
bool says_uncalled(std::string_view code);

/// Whether an upstream is worth calling (Nygard, "Release It!", 2007): opens when calls fail, tries one, then
/// kTrialsMax at once, and closes when all of them were answered. While it is open its jobs wait.
/// Each service has one, and each of its models that fails while others are answered. A client's calls may
/// fail because of what it asks for. So where several clients call, at most kOfClient of the calls in the
/// window are one client's, and the upstream fails only if it fails without any one client's calls, too;
/// likewise for models. A tenant may name as many clients as it likes: where several tenants call, all
/// clients of one count as one; where one alone calls, the upstream fails for that tenant at most.
class CircuitBreaker {
 public:
  /// Counts the changes of state: a call belongs to the period in which it was made.
  using Period = std::uint32_t;
  static constexpr Period kNoPeriod = 0;
  enum class State : std::uint8_t { closed, open, half_open };
  /// What a failed call shows. `all_fail` has opened the breaker. For the other findings the owner decides,
  /// since it knows whether others wait and which models can be paused alone.
  enum class Finding : std::uint8_t { nothing, all_fail, one_client_fails, one_model_fails };

  static constexpr std::size_t kWindowCalls = 20;  ///< the last calls, none older than kWindow
  static constexpr Duration kWindow = std::chrono::seconds(30);
  static constexpr std::size_t kCallsMin = 10;  ///< fewer say nothing; with half of them failed it opens
  static constexpr std::size_t kOfClient = kWindowCalls / 4;  ///< while other clients call, too
  static constexpr std::size_t kOthersMin = 2;                ///< fewer calls of others say nothing
  static constexpr int kUnreachableMax = 5;  ///< failures in a row that open the breaker at once
  static constexpr Duration kOpenMin = std::chrono::seconds(5);  ///< doubles with each failed trial
  static constexpr Duration kOpenMax = std::chrono::seconds(60);
  static constexpr int kTrialsMax = 3;
  /// A trial that is not answered within this time is not waited for any more.
  static constexpr Duration kTrialPatience = std::chrono::seconds(60);

  /// `first`: the number of the first period.
  explicit CircuitBreaker(Period first = 1) : period_(first) {}

  State state() const { return state_; }
  bool closed() const { return state_ == State::closed; }

  /// Whether one more call may be made. `top_lane`: for a job of the highest lane, which is not meant to be
  /// the trial: it waits twice as long for another job to go first.
  bool admits(bool top_lane, TimePoint now) const;
  /// When it admits a call if nothing happens until then; kNever where a call under way decides.
  TimePoint admits_at(bool top_lane) const;
  /// When time alone changes admits(); kNever while it is closed.
  TimePoint next_change() const;
  Period period() const { return period_; }
  /// Notes a call, and returns its period. Requires: admits().
  Period called(TimePoint now);
  /// A call of that period is over; calls of earlier periods are ignored. Requires: told once for each call.
  Finding ended(Verdict verdict, Period called_in, const Caller& caller, TimePoint now,
                std::mt19937_64& random);
  /// The same for a service whose models are upstreams of their own, as receivers of webhooks are, instead of
  /// ended(): it stays closed, and finds `one_model_fails` at most. How many models fail and for whom keeps
  /// nobody from another one.
  Finding call_of_model_ended(Verdict verdict, const Caller& caller, TimePoint now);
  /// Opens it for those whose calls alone are known to fail.
  void open(const Caller& whose, TimePoint now, std::mt19937_64& random);
  /// For `one_client_fails`: the client, or the tenant whose clients fail.
  const Caller& suspect() const { return suspect_; }
  /// The party for which alone it is not closed: none where it failed for several, or is closed.
  const Caller& only() const { return only_; }
  /// The mark of only().
  std::uint64_t only_client() const { return only_.narrowest(); }
  /// Whether all calls in the window named that model.
  bool names_only(std::uint64_t model) const;
  /// The client that alone made the calls for that model.
  Caller only_caller_of(std::uint64_t model) const;
  /// Another client than only_client() wants to call: its job is the next trial, at once, and an earlier
  /// trial does not count any more. Requires: it is not closed.
  void try_now(TimePoint now);
  /// Until when a client whose trial failed leaves the next trial to others. Requires: it is not closed.
  TimePoint others_first_until() const { return top_lane_from_; }
  /// Whether every client had time for its turn to try it, and none tried.
  bool is_idle(TimePoint now) const {
    return state_ == State::half_open && trials_out_ == 0 && now >= top_lane_from_;
  }
  /// Lets trials begin where it has been open long enough.
  void advance(TimePoint now);

 private:
  struct Call {
    TimePoint at{};
    bool failed = false;
    Caller caller{};
  };
  /// How many calls there are, and how many of them failed.
  struct Count {
    std::size_t calls = 0, failed = 0;
    bool half() const { return 2 * failed >= calls; }
    bool all() const { return failed == calls; }
  };

  template <class Counts>
  Count count(Counts counts) const;
  /// By what calls are told apart.
  enum class By : std::uint8_t { party, client, model };
  static std::uint64_t mark(const Caller& caller, By by);
  By sharers_of(const Caller& caller) const;
  void record(bool failed, const Caller& caller, By by, TimePoint now);
  void make_room(const Caller& caller, By by, TimePoint now);
  Finding look_at_connections();
  Finding look(const Caller& caller);
  bool fails_without_any(By by) const;
  bool fails_without_any_model() const;
  bool model_fails(const Caller& caller, By by) const;
  Finding judge_trial(Verdict verdict, const Caller& caller, TimePoint now, std::mt19937_64& random);
  void begin(TimePoint now, std::mt19937_64& random);
  void close();

  State state_ = State::closed;
  Period period_;                         // of state_
  std::array<Call, kWindowCalls> calls_;  // a ring
  std::size_t next_call_ = 0, calls_made_ = 0;
  int unreachable_ = 0;       // in a row
  Caller unreachable_for_{};  // whose calls these are
  std::size_t failed_ = 0;    // of these calls
  Caller suspect_{};
  // While it is not closed: for whom alone it is open, whose trial failed last, and whose trial passed last
  // in this period.
  Caller only_{}, failed_last_{}, passed_last_{};
  int openings_ = 0;  // since it was closed
  TimePoint open_until_{}, top_lane_from_{};
  int trials_out_ = 0, trials_passed_ = 0;
  TimePoint trial_at_{};  // the last one
};

std::string_view name_of(CircuitBreaker::State state);

}  // namespace lanemq::core
