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

/// Decides about upstreams that fail: what the end of a call says of service and model, which jobs wait, and
/// which job tries the upstream again. The breakers belong to services (Service::breaker, failed_models,
/// bars).
class Upstreams {
 public:
  Upstreams(State& state, const Terms& terms, Parking& parking)
      : state_(state), terms_(terms), parking_(parking) {}
  Upstreams(const Upstreams&) = delete;
  Upstreams& operator=(const Upstreams&) = delete;

  /// Notes the call of a job that is handed over. True if it tries a failed upstream.
  bool called(Job& job, TimePoint now);
  /// Notes how the call of a job ended.
  void judge(const Job& job, Verdict verdict, TimePoint now);
  /// Notes that a job was queued: it may try an upstream that failed only for others, or only for other
  /// models.
  void comes(const Job& job, TimePoint now);
  /// A timer of a breaker or bar of the service has fired.
  void look_after(Service& service, TimePoint now);
  /// Conditions that a job does not wait for, because its client can go elsewhere.
  struct Elsewhere {
    bool when_limited = false, when_spent = false;
  };
  /// The pause that keeps every job of the set from running before the deadline, or that the job will not
  /// wait for; no budget: none. Where all keys rest, the client may try those that only another client found
  /// spent.
  Budgets::UpstreamPause shut_out(BudgetSet set, const Client& client, TimePoint deadline,
                                  Elsewhere elsewhere, TimePoint now);
  /// The same for a queued job and its own deadline.
  Budgets::UpstreamPause shut_out(const Job& job, TimePoint now);
  /// The breakers that keep jobs from a service's upstream.
  std::vector<ShownBreaker> breakers_of(const Service& service) const;
  /// Whether jobs wait for the apart model at that place, or it fails for some service: the place is in use.
  bool waits_apart(std::size_t model) const;
  /// Whether jobs wait that the learnt budget at that place counts.
  bool waits_for_learnt(std::size_t budget) const;

 private:
  Budgets::UpstreamPause shut_until(BudgetSet set, TimePoint deadline, Elsewhere elsewhere,
                                    TimePoint now) const;
  void judge_receiver(const Job& job, Verdict verdict, TimePoint now);
  static Caller caller_of(const Job& job);
  void judge(const Job& job, CircuitBreaker& breaker, std::size_t model, Verdict verdict, TimePoint now);
  void note_breaker(const Service& service, const CircuitBreaker& breaker, CircuitBreaker::State before,
                    std::string_view model, TimePoint now);
  bool others_wait(const Service& service, const Client& whose, std::size_t model, TimePoint now) const;
  template <class Such>
  bool any_waits(Such such) const;
  bool has_jobs_apart(std::size_t model) const;
  Service::FailedModel* leave_model(const Job& job, std::string_view name, const Caller& fails_for,
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
