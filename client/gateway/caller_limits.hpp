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
#include "client/gateway/http/loop.hpp"

namespace lanemq::gateway {

/// The limits that keys have of their own, apart from those that the broker shares out.
///
/// Requests and tokens each have a bucket that holds a minute's worth and refills evenly. What a request
/// costs in tokens is known when it is over: the bucket may then be in debt, and nothing is let in until it
/// is paid. What a key has used is known by its name, and stays so when its limits change. From any thread,
/// as batches spend tokens on theirs.
class CallerLimits {
 public:
  using TimePoint = Loop::TimePoint;

  /// Why a request would not be let in now; counts nothing. Places of calls that nobody waits for count as
  /// free: the request may be their caller's next try.
  std::optional<ApiError> why_not(const Caller& caller, TimePoint now);
  /// Counts a request in, or says why not. Each that is let in must be given back once. `resumes`: it goes on
  /// with a call that nobody waits for, and needs no other place than that.
  std::optional<ApiError> take(const Caller& caller, TimePoint now, bool resumes = false);
  void give_back(const Caller& caller);
  /// A place for a call that goes on although nobody waits for it, until it is released.
  void hold(const Caller& caller);
  void release(const Caller& caller);

  /// What a request turned out to cost.
  void spend_tokens(const Caller& caller, std::int64_t tokens, TimePoint now);
  void spend_tokens(const KeySettings& key, std::int64_t tokens, TimePoint now);
  /// What so many bytes may be where nobody tells: a quarter of them, and never more than a minute's worth.
  static std::int64_t estimate(const KeySettings& key, std::size_t bytes);
  /// Spends the estimate; returns it.
  std::int64_t spend_estimate(const Caller& caller, std::size_t bytes, TimePoint now);
  /// Until the key has tokens again; zero: it has some, or no such limit.
  std::chrono::milliseconds until_tokens(const KeySettings& key, TimePoint now);
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
    std::int64_t unwatched = 0;  ///< of them, places that are held
  };
  std::optional<ApiError> why_not(const Caller& caller, std::int64_t spare, TimePoint now);
  State& state_of(const KeySettings& key, TimePoint now);
  static void refill(Bucket& bucket, std::int64_t limit, TimePoint now);

  mutable std::mutex mutex_;
  std::unordered_map<std::string, State> states_;  // by the key's name; as many as there are keys
};

/// What a request of an API may cost, as CallerLimits::estimate() takes it: its own bytes, and those of the
/// longest answer where it bounds that.
std::size_t bytes_of_request(std::string_view body);

}  // namespace lanemq::gateway
