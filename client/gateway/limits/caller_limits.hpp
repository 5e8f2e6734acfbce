// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <tl/expected.hpp>

#include <lanemq/client.hpp>
#include <lanemq/limits.hpp>

#include "client/gateway/apis/http_words.hpp"
#include "client/gateway/door/access.hpp"
#include "client/gateway/limits/key_share.hpp"
#include "common/http/server/base/loop.hpp"

namespace lanemq::gateway {

/// The limits of keys, apart from those that the broker shares out.
///
/// Requests and tokens each have a bucket with a minute's worth, which refills evenly. A request's tokens are
/// known when it is over: the bucket may then be in debt, and nothing is let in until it is paid. Use is
/// counted by the key's name, so that it survives changed limits. Thread-safe, since batches spend their
/// keys' tokens.
///
/// Once share() was called the buckets stand in the broker, for all gateways, and this has a KeyShare of each
/// key: its own bucket then shows what is left for all, and counts where the broker shares nothing out.
class CallerLimits {
 public:
  using TimePoint = Loop::TimePoint;
  using milliseconds = std::chrono::milliseconds;

  /// Of `spare`: the request needs no place of its own, whatever the caller has.
  static constexpr std::int64_t kAnyPlace = limits::share_max;

  /// Why a request would be refused now; counts nothing. Places of calls without a waiting caller count as
  /// free: the request may be that caller's next try.
  std::optional<ApiError> why_not(const Caller& caller, TimePoint now);
  /// Counts a request in, or returns why not. Each counted request must be given back once. `spare`: so many
  /// places that the caller has it may use: that of a call without a waiting caller which it joins, or any.
  std::optional<ApiError> take(const Caller& caller, TimePoint now, std::int64_t spare = 0);
  /// The same, where limits may be shared. True: the request is counted in. False: the broker has to be asked
  /// first; to be tried again after told(), and until then begin_waiting() counts it.
  tl::expected<bool, ApiError> try_take(const Caller& caller, TimePoint now, std::int64_t spare);
  void give_back(const Caller& caller);
  /// Takes a place for a call that goes on without a waiting caller; to be released.
  void hold(const Caller& caller);
  void release(const Caller& caller);

  /// Spends the tokens that a request has used.
  void spend_tokens(const Caller& caller, std::int64_t tokens, TimePoint now);
  void spend_tokens(const KeySettings& key, std::int64_t tokens, TimePoint now);
  /// The tokens that an answer's usage tells of; none: nobody tells them.
  static std::optional<std::int64_t> told(const std::optional<wire::Usage>& usage) {
    if (!usage || (!usage->input_tokens && !usage->output_tokens)) return std::nullopt;
    return usage->input_tokens.value_or(0) + usage->output_tokens.value_or(0);
  }
  /// The tokens of `taken` that a call has used which came to no answer: all where it was stopped under way.
  static std::int64_t used_of(const ClientError& error, std::int64_t taken) {
    const bool was_stopped = error.code == "cancelled" || error.code == "deadline";
    return was_stopped && error.attempts > 0 ? taken : 0;
  }
  /// The estimated tokens of so many bytes: a quarter, at most a minute's worth.
  static std::int64_t estimate(const KeySettings& key, std::size_t bytes);
  /// Spends the estimate and returns it.
  std::int64_t spend_estimate(const Caller& caller, std::size_t bytes, TimePoint now);
  /// The time until the key has tokens again; zero: it has some, or no such limit.
  std::chrono::milliseconds until_tokens(const KeySettings& key, TimePoint now);
  // ---- shared by the broker
  /// How long a broker is left alone that does not share a key out.
  static constexpr std::chrono::milliseconds kAlone{30'000};
  /// From now on the broker shares out what keys may use. `changed` is called when asks() may have something
  /// more to ask: on any thread, and never inside a lock.
  void share(std::function<void()> changed);
  void begin_waiting(const Caller& caller);
  void end_waiting(const Caller& caller);
  /// What the broker is to be asked now, without the session's name: of all keys, or of those that something
  /// has happened to since the last call.
  std::vector<SpendRequest> asks(TimePoint now, bool all);
  void told(const std::string& key, const BrokerSpent& spent, TimePoint now);
  /// The broker does not share this key out: for kAlone its limits are this gateway's own.
  void alone(const std::string& key, TimePoint now);

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
    KeyShare share;              ///< what runs, and what the broker has given
    std::size_t waiting = 0;     ///< calls that wait for the broker's word
    std::int64_t unwatched = 0;  ///< places of calls without a waiting caller
    TimePoint alone_until{};     ///< the broker does not share the key out
  };
  std::optional<ApiError> why_not(const Caller& caller, std::int64_t spare, TimePoint now);
  std::optional<ApiError> over_limit(const Caller& caller, KeyShare::Lack lack, milliseconds wait) const;
  tl::expected<bool, ApiError> shared_verdict(const Caller& caller, const State& state, std::int64_t spare,
                                              TimePoint now) const;
  bool shares(const State& state, TimePoint now) const;
  void count_in(State& state, TimePoint now);
  template <class Change>
  void change(const Caller& caller, Change what);
  void note_change(const std::string& name);
  State& state_of(const KeySettings& key, TimePoint now);
  static void refill(Bucket& bucket, std::int64_t limit, TimePoint now);

  std::function<void()> changed_{};  ///< none: nothing is shared
  mutable std::mutex mutex_;
  std::set<std::string> touched_;  ///< keys that something has happened to; bounded as states_
  std::unordered_map<std::string, State> states_;  // by the key's name; bounded by the number of keys
};

/// ApiError::name of a call that is over its key's limit.
inline constexpr std::string_view kCallerLimit = "caller_limit";

/// The bytes for CallerLimits::estimate() of an API's request: its own, and those of the longest answer where
/// it states a bound.
std::size_t bytes_of_request(std::string_view body);

}  // namespace lanemq::gateway
