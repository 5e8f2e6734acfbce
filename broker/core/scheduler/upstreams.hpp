// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "broker/core/base/time.hpp"
#include "broker/core/budgets/budgets.hpp"
#include "broker/core/budgets/circuit_breaker.hpp"
#include "broker/core/scheduler/workers.hpp"

namespace lanemq::core {

struct Job;
class Parking;
struct State;
class Terms;

/// Upstreams that fail: what the end of a call says of its service and its model, who waits for them, and who
/// tries them again. Their breakers belong to their services (Service::breaker, failed_models, bars).
class Upstreams {
 public:
  Upstreams(State& state, const Terms& terms, Parking& parking)
      : state_(state), terms_(terms), parking_(parking) {}
  Upstreams(const Upstreams&) = delete;
  Upstreams& operator=(const Upstreams&) = delete;

  /// The job is handed over, and its upstream called. True if that tries one that failed.
  bool called(Job& job, TimePoint now);
  /// The call that the job was handed over for is over.
  void judge(const Job& job, Verdict verdict, TimePoint now);
  /// A job is queued: nobody waits for an upstream that has failed for others alone, or for another model.
  void comes(const Job& job, TimePoint now);
  /// The time has come that one of a service's breakers or bars named.
  void look_after(Service& service, TimePoint now);
  /// What a job does not wait for because its client has somewhere else to go.
  struct Elsewhere {
    bool when_limited = false, when_spent = false;
  };
  /// What keeps all jobs of the set from running before that deadline, whoever stands before them, or is not
  /// waited for; no budget where nothing does. Where all keys rest, those that another client alone found
  /// spent may be tried for this one.
  Budgets::UpstreamPause shut_out(BudgetSet set, const Client& client, TimePoint deadline,
                                  Elsewhere elsewhere, TimePoint now);
  /// Likewise of a queued job, before its own deadline.
  Budgets::UpstreamPause shut_out(const Job& job, TimePoint now);
  /// What keeps jobs from a service's upstream.
  std::vector<ShownBreaker> breakers_of(const Service& service) const;
  /// Whether jobs wait for the model at that place among those that are apart, or it fails somewhere: its
  /// place is not for another one.
  bool waits_apart(std::size_t model) const;

 private:
  Budgets::UpstreamPause shut_until(BudgetSet set, TimePoint deadline, Elsewhere elsewhere,
                                    TimePoint now) const;
  static Caller caller_of(const Job& job);
  void judge(const Job& job, CircuitBreaker& breaker, std::size_t model, Verdict verdict, TimePoint now);
  void note_breaker(const Service& service, const CircuitBreaker& breaker, CircuitBreaker::State before,
                    std::string_view model, TimePoint now);
  bool others_wait(const Job& job, std::size_t model, TimePoint now) const;
  bool has_jobs_apart(std::size_t model) const;
  Service::FailedModel* leave_model(const Job& job, std::string_view name, std::uint64_t client,
                                    TimePoint now);
  void try_now(Service& service, CircuitBreaker& breaker, std::size_t model, const Client& by, TimePoint now);
  void bar(Client& client, Service& service, std::size_t model, TimePoint until);
  void lift_bars(Service& service, TimePoint now);
  void end_bars(Service& service, std::size_t model);
  void forget_failed(Service& service, TimePoint now);
  void set_timer(Service& service, TimePoint now);

  State& state_;
  const Terms& terms_;
  Parking& parking_;
};

}  // namespace lanemq::core
