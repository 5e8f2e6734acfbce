// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "client/gateway/access.hpp"
#include "client/gateway/http_words.hpp"
#include "common/http/server/loop.hpp"

namespace lanemq::gateway {

/// The limits of keys, apart from those that the broker shares out.
///
/// Requests and tokens each have a bucket with a minute's worth, which refills evenly. A request's tokens are
/// known when it is over: the bucket may then be in debt, and nothing is let in until it is paid. Use is
/// counted by the key's name, so that it survives changed limits. Thread-safe, since batches spend their
/// keys' tokens.
class CallerLimits {
 public:
  using TimePoint = Loop::TimePoint;

  /// Why a request would be refused now; counts nothing. Places of calls without a waiting caller count as
  /// free: the request may be that caller's next try.
  std::optional<ApiError> why_not(const Caller& caller, TimePoint now);
  /// Counts a request in, or returns why not. Each counted request must be given back once. `resumes`: it
  /// joins a call without a waiting caller, whose place it uses.
  std::optional<ApiError> take(const Caller& caller, TimePoint now, bool resumes = false);
  void give_back(const Caller& caller);
  /// Takes a place for a call that goes on without a waiting caller; to be released.
  void hold(const Caller& caller);
  void release(const Caller& caller);

  /// Spends the tokens that a request has used.
  void spend_tokens(const Caller& caller, std::int64_t tokens, TimePoint now);
  void spend_tokens(const KeySettings& key, std::int64_t tokens, TimePoint now);
  /// The estimated tokens of so many bytes: a quarter, at most a minute's worth.
  static std::int64_t estimate(const KeySettings& key, std::size_t bytes);
  /// Spends the estimate and returns it.
  std::int64_t spend_estimate(const Caller& caller, std::size_t bytes, TimePoint now);
  /// The time until the key has tokens again; zero: it has some, or no such limit.
  std::chrono::milliseconds until_tokens(const KeySettings& key, TimePoint now);
  /// Forgets keys that are no longer configured, once they have nothing running.
  void keep_only(const std::vector<KeySettings>& keys);
  /// Adds the caller's `x-ratelimit-*`, or `anthropic-ratelimit-*`; nothing where it has no limits.
  void describe(const Caller& caller, TimePoint now, Headers& headers) const;

 private:
  struct Bucket {
    double level = 0;
    TimePoint at{};
    std::int64_t limit = 0;  ///< as of the last refill
  };
  struct State {
    Bucket requests, tokens;
    std::int64_t running = 0;
    std::int64_t unwatched = 0;  ///< places of calls without a waiting caller
  };
  std::optional<ApiError> why_not(const Caller& caller, std::int64_t spare, TimePoint now);
  State& state_of(const KeySettings& key, TimePoint now);
  static void refill(Bucket& bucket, std::int64_t limit, TimePoint now);

  mutable std::mutex mutex_;
  std::unordered_map<std::string, State> states_;  // by the key's name; bounded by the number of keys
};

/// The bytes for CallerLimits::estimate() of an API's request: its own, and those of the longest answer where
/// it states a bound.
std::size_t bytes_of_request(std::string_view body);

}  // namespace lanemq::gateway
