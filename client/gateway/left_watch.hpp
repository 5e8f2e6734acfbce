// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "client/gateway/caller_limits.hpp"
#include "client/gateway/gateway.hpp"

namespace lanemq::gateway {

/// Follows the jobs that were left here by keys with limits until they are over. Until then each has a place
/// of its key's concurrency; what was taken for its tokens beforehand is set right by what it used.
///
/// Belongs to the loop's thread. Jobs of an earlier life of the gateway are not known here.
class LeftWatch {
 public:
  /// Of all keys together.
  static constexpr std::size_t kFollowedMax = 10'000;

  LeftWatch(Gateway& gateway, CallerLimits& limits) : gateway_(gateway), limits_(limits) {}

  bool full() const { return jobs_.size() >= kFollowedMax; }
  /// `id`: at the broker; `taken`: of the key's tokens. Requires: limits.take() let the caller in, to be
  /// given back here.
  void follow(const Caller& caller, std::string id, std::int64_t taken);

 private:
  struct Job;

  void ask(Job& job);
  void told(const std::shared_ptr<Job>& job, const FetchAnswer& answer);

  Gateway& gateway_;
  CallerLimits& limits_;
  std::set<std::shared_ptr<Job>> jobs_;
};

}  // namespace lanemq::gateway
