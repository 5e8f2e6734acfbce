// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "broker/core/base/event.hpp"
#include "broker/core/base/refusal.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/budgets/budgets.hpp"
#include "broker/core/budgets/estimates.hpp"
#include "broker/core/life/job_life.hpp"

namespace lanemq::core {

class Results;
struct State;
class Terms;
class Upstreams;

/// Whether a submit is taken: is it valid, may its client use the lane, is there room, can its budgets ever
/// pay for it. What it refuses changes nothing, but that kept results have made way.
class Admission {
 public:
  Admission(State& state, Terms& terms, Upstreams& upstreams, Results& results)
      : state_(state), terms_(terms), upstreams_(upstreams), results_(results) {}
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  /// What is wrong with the submit itself.
  std::optional<Refusal> invalid(const Submitted& event) const;
  /// How its client wants to be answered. Requires: it is not invalid.
  static ReplyMode reply_mode_of(const wire::Submit& fields);
  /// Whether there is room for a valid job that nobody knows yet, of its client in its lane; then finds the
  /// rest of what it leads to.
  std::optional<Refusal> admit(const Submitted& event, Admitted& to, TimePoint now);
  /// That a job of such an estimate can never run, since it is more than one of its budgets ever has.
  std::optional<Refusal> too_large_for(BudgetSet budgets, const Estimate& estimate) const;
  /// That the lane has no room for one more job of so many bytes.
  std::optional<Refusal> lane_full(const Lane& lane, std::size_t bytes) const;
  /// Whether so many new services have room. Names without jobs, results and workers make way, the longest
  /// unused first: an eighth of the table at once, since all that has lately been idle is looked through.
  bool room_for_services(std::size_t count);

 private:
  static std::optional<Refusal> unreadable_as_offer(const Submitted& event);
  std::optional<Refusal> not_allowed(const Client& client, const Lane& lane) const;
  std::optional<Refusal> over_share(const Client& client, const Lane& lane, std::size_t bytes) const;
  std::optional<Refusal> no_room(const Lane& lane, std::size_t bytes, TimePoint now);
  std::optional<Refusal> shut_out(const wire::Submit& fields, const Admitted& to, TimePoint now);
  Refusal full(const Lane& lane, ErrorCode code, std::string limiter, const std::string& holds) const;

  State& state_;
  Terms& terms_;
  Upstreams& upstreams_;
  Results& results_;
};

}  // namespace lanemq::core
