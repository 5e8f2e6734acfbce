// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "client/gateway/access.hpp"
#include "client/gateway/http/loop.hpp"

namespace lanemq::gateway {

/// The limits that keys have of their own, apart from those that the broker shares out.
///
/// Requests and tokens each have a bucket that holds a minute's worth and refills evenly. What a request
/// costs in tokens is known when it is over: the bucket may then be in debt, and nothing is let in until it
/// is paid. What a key has used is known by its name, and stays so when its limits change. Belongs to the
/// loop's thread.
class CallerLimits {
 public:
  using TimePoint = Loop::TimePoint;

  /// Why a request would not be let in now; counts nothing.
  std::optional<ApiError> why_not(const Caller& caller, TimePoint now);
  /// Counts a request in, or says why not. Each that is let in must be given back once.
  std::optional<ApiError> take(const Caller& caller, TimePoint now);
  void give_back(const Caller& caller);
  /// What a request turned out to cost.
  void spend_tokens(const Caller& caller, std::int64_t tokens, TimePoint now);
  /// Forgets the keys that are no more, once nothing of theirs runs.
  void keep_only(const std::vector<KeySettings>& keys);
  /// The caller's own `x-ratelimit-*`, or `anthropic-ratelimit-*`; nothing where there are no limits.
  void describe(const Caller& caller, TimePoint now, Headers& headers) const;

 private:
  struct Bucket {
    double level = 0;
    TimePoint at{};
    std::int64_t limit = 0;  ///< that `level` is left of
  };
  struct State {
    Bucket requests, tokens;
    std::int64_t running = 0;
  };
  State& state_of(const KeySettings& key, TimePoint now);
  static void refill(Bucket& bucket, std::int64_t limit, TimePoint now);

  std::unordered_map<std::string, State> states_;  // by the key's name; as many as there are keys
};

}  // namespace lanemq::gateway
