// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "client/gateway/door/gateway.hpp"
#include "client/gateway/limits/caller_limits.hpp"
#include "client/gateway/limits/fair_bound.hpp"

namespace lanemq::gateway {

/// Whether the caller's key has a limit that lasts as long as a job that it leaves.
bool is_followed(const Caller& caller);

/// Whether an error is a job's end, and not a failure to learn its state.
bool is_end_of_job(const ClientError& error);

/// Follows jobs that keys with limits have left here until they are over. Until then each takes a place of
/// its key's concurrency; at its end its estimated tokens are corrected. Belongs to the loop's thread. Does
/// not know jobs of an earlier life of the gateway.
class LeftWatch {
 public:
  /// Jobs of all keys together; one key has four fifths of it at most (may_take_one_of).
  static constexpr std::size_t kFollowedMax = 10'000, kTimesFree = 4;

  LeftWatch(Gateway& gateway, CallerLimits& limits) : gateway_(gateway), limits_(limits) {}

  /// Whether a job of that caller cannot be followed. Who has no limits is not followed.
  bool full(const Caller& caller) const;
  /// `id`: at the broker. `taken`: of the key's tokens. Requires: limits.take() let the caller in; this gives
  /// it back.
  void follow(const Caller& caller, std::string id, std::int64_t taken);
  /// Cancels the jobs of a caller that are followed; returns how many.
  std::size_t cancel_all_of(std::string_view caller);

 private:
  struct Job;

  void ask(Job& job);
  void told(const std::shared_ptr<Job>& job, const FetchAnswer& answer);

  Gateway& gateway_;
  CallerLimits& limits_;
  std::set<std::shared_ptr<Job>> jobs_;
  PlacesByOwner places_{kFollowedMax, kTimesFree};  // of jobs_
};

}  // namespace lanemq::gateway
