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

class Groups;
class Results;
struct State;
class Terms;
class Upstreams;

/// Decides whether a submit is taken: is it valid, may its client use the lane, is there room, can its
/// budgets ever pay. All bounds are looked at before room is made, so that a refusal changes nothing: only
/// for a job that a full disk alone keeps out do results make way in the store.
class Admission {
 public:
  Admission(State& state, Terms& terms, Upstreams& upstreams, Results& results, Groups& groups)
      : state_(state), terms_(terms), upstreams_(upstreams), results_(results), groups_(groups) {}
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  /// Refuses a submit that is wrong in itself.
  std::optional<Refusal> invalid(const Submitted& event) const;
  /// How the client wants to be answered. Requires: invalid() found nothing.
  static ReplyMode reply_mode_of(const wire::Submit& fields);
  /// Refuses what the sender's key does not allow.
  static std::optional<Refusal> beyond_key(const Submitted& event, const Lane& lane);
  /// Whether another shard takes such jobs of the client.
  std::optional<Refusal> of_another_shard(const wire::Submit& fields, const Client& client) const;
  /// Refuses a valid, unknown job for which its client or lane has no room. Else fills in the rest of `to`.
  std::optional<Refusal> admit(const Submitted& event, Admitted& to, TimePoint now);
  /// Refuses a job that can never run, since its estimate exceeds a limit of its budgets.
  std::optional<Refusal> too_large_for(BudgetSet budgets, const Estimate& estimate) const;
  /// Refuses one more job of `bytes` where the lane is full.
  std::optional<Refusal> lane_full(const Lane& lane, std::size_t bytes) const;
  /// Makes room for `count` new services by evicting unused ones, those longest without jobs and workers
  /// first: an eighth of the table at once, since each pass looks through all recently idle ones.
  void make_room_for_services(std::size_t count);

 private:
  std::optional<Refusal> wrong_notify(const wire::Submit& fields) const;
  static std::optional<Refusal> unreadable_as_offer(const Submitted& event);
  std::optional<Refusal> not_allowed(const Client& client, const Lane& lane) const;
  std::optional<Refusal> webhooks_full(const Client& client, const Lane& lane) const;
  std::optional<Refusal> over_share(const Client& client, const Lane& lane, std::size_t bytes) const;
  std::optional<Refusal> over_share_of(const Client& party, const Lane& lane, std::size_t bytes,
                                       bool inside) const;
  std::optional<Refusal> services_full(const wire::Submit& fields, const Client& client,
                                       const Lane& lane) const;
  std::optional<Refusal> shut(bool needs_disk) const;
  static Refusal disk_full();
  Refusal no_room(const Lane& lane) const;
  std::optional<Refusal> shut_out(const wire::Submit& fields, const Admitted& to, TimePoint now);
  Refusal full(const Lane& lane, ErrorCode code, std::string limiter, const std::string& holds) const;

  State& state_;
  Terms& terms_;
  Upstreams& upstreams_;
  Results& results_;
  Groups& groups_;
};

}  // namespace lanemq::core
