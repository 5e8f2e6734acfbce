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

/// Follows jobs that keys with limits have left here until they are over. Until then each takes a place of
/// its key's concurrency; at its end its estimated tokens are corrected. Belongs to the loop's thread. Does
/// not know jobs of an earlier life of the gateway.
class LeftWatch {
 public:
  /// Jobs of all keys together.
  static constexpr std::size_t kFollowedMax = 10'000;

  LeftWatch(Gateway& gateway, CallerLimits& limits) : gateway_(gateway), limits_(limits) {}

  bool full() const { return jobs_.size() >= kFollowedMax; }
  /// `id`: at the broker. `taken`: of the key's tokens. Requires: limits.take() let the caller in; this gives
  /// it back.
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
