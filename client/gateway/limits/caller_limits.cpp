// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/limits/caller_limits.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <string>

#include "common/json/members.hpp"

namespace lanemq::gateway {
namespace {

using std::chrono::milliseconds;

constexpr double kPeriodMs = 60'000;
constexpr std::size_t kBytesPerToken = 4;  ///< of text, roughly
/// An estimate counts no more tokens of an answer, whatever bound a request states.
constexpr std::size_t kAnswerTokensMax = 1'000'000;
/// After this a batch looks whether the broker has given tokens.
constexpr milliseconds kAskWait{50};
constexpr milliseconds kPlaceWait{1'000};  ///< suggested where nobody knows when a place becomes free

double level_at(double level, Loop::TimePoint at, std::int64_t limit, Loop::TimePoint now) {
  const double passed = std::chrono::duration<double, std::milli>(now - at).count();
  return std::min(static_cast<double>(limit), level + passed * static_cast<double>(limit) / kPeriodMs);
}

/// The time until a bucket has `wanted`.
milliseconds wait_for(double level, double wanted, std::int64_t limit) {
  if (level >= wanted) return milliseconds(0);
  return milliseconds(
      static_cast<std::int64_t>(std::ceil((wanted - level) * kPeriodMs / static_cast<double>(limit))));
}

ApiError over(const Caller& caller, const std::string& what, std::string code, milliseconds wait) {
  return {.name = std::string(kCallerLimit),
          .message = "key \"" + caller.name + "\" is over its own limit: " + what + "; try again in " +
                     std::to_string(wait.count()) + " ms",
          .code = std::move(code),
          .retry_after = wait};
}

void describe_one(const Api& api, const char* what, double level, std::int64_t limit, Headers& headers) {
  if (limit == 0) return;
  api.add_limit({.what = what,
                 .limit = limit,
                 .remaining = std::to_string(static_cast<std::int64_t>(std::max(level, 0.0))),
                 .until_full = wait_for(level, static_cast<double>(limit), limit)},
                headers);
}

}  // namespace

std::size_t bytes_of_request(std::string_view body) {
  std::size_t bytes = body.size();
  for (const std::string_view key : {"max_tokens", "max_completion_tokens", "max_output_tokens"}) {
    const std::string_view value = member_bytes(body, key);
    std::size_t tokens = 0;
    std::from_chars(value.data(), value.data() + value.size(), tokens);
    bytes += std::min(tokens, kAnswerTokensMax) * kBytesPerToken;
  }
  return bytes;
}

CallerLimits::State& CallerLimits::state_of(const KeySettings& key, TimePoint now) {
  State& state = states_[key.name];
  refill(state.requests, key.requests_per_minute, now);
  refill(state.tokens, key.tokens_per_minute, now);
  state.share.set_limits({.requests_per_minute = key.requests_per_minute,
                          .tokens_per_minute = key.tokens_per_minute,
                          .concurrency = key.concurrency});
  return state;
}

/// Refills a bucket. A changed limit keeps what was used; a new one begins full.
void CallerLimits::refill(Bucket& bucket, std::int64_t limit, TimePoint now) {
  if (bucket.limit == 0)
    bucket = {.level = static_cast<double>(limit), .at = now, .limit = limit};
  else
    bucket.level += static_cast<double>(limit - std::exchange(bucket.limit, limit));
  bucket.level = level_at(bucket.level, bucket.at, limit, now);
  bucket.at = now;
}

std::optional<ApiError> CallerLimits::over_limit(const Caller& caller, KeyShare::Lack lack,
                                                 milliseconds wait) const {
  const KeySettings& key = *caller.key;
  switch (lack) {
    case KeyShare::Lack::places:
      return over(caller, std::to_string(key.concurrency) + " requests at once (concurrency)",
                  "tenant_concurrency", kPlaceWait);
    case KeyShare::Lack::requests:
      return over(caller,
                  std::to_string(key.requests_per_minute) + " requests a minute (requests_per_minute)",
                  "tenant_rpm", wait);
    case KeyShare::Lack::tokens:
      return over(caller, std::to_string(key.tokens_per_minute) + " tokens a minute (tokens_per_minute)",
                  "tenant_tpm", wait);
    case KeyShare::Lack::nothing:
      break;
  }
  return std::nullopt;
}

std::optional<ApiError> CallerLimits::why_not(const Caller& caller, std::int64_t spare, TimePoint now) {
  using Lack = KeyShare::Lack;
  const KeySettings& key = *caller.key;
  const State& state = state_of(key, now);
  if (key.concurrency > 0 && state.share.running() - spare >= key.concurrency)
    return over_limit(caller, Lack::places, kPlaceWait);
  if (shares(state, now)) {
    const tl::expected<bool, ApiError> verdict = shared_verdict(caller, state, spare, now);
    return verdict ? std::nullopt : std::optional(verdict.error());
  }
  if (key.requests_per_minute > 0 && state.requests.level < 1)
    return over_limit(caller, Lack::requests, wait_for(state.requests.level, 1, key.requests_per_minute));
  if (key.tokens_per_minute > 0 && state.tokens.level < 1)
    return over_limit(caller, Lack::tokens, wait_for(state.tokens.level, 1, key.tokens_per_minute));
  return std::nullopt;
}

bool CallerLimits::shares(const State& state, TimePoint now) const {
  return changed_ && state.share.limits().any() && state.alone_until <= now;
}

/// Whether this gateway holds what one more call needs; an error where the broker has said that there is
/// none.
tl::expected<bool, ApiError> CallerLimits::shared_verdict(const Caller& caller, const State& state,
                                                          std::int64_t spare, TimePoint now) const {
  const KeyShare::Lack lack = state.share.lack(spare);
  if (lack == KeyShare::Lack::nothing) return true;
  const std::optional<TimePoint> until = state.share.refused_until(lack, now);
  if (!until) return false;
  return tl::unexpected(*over_limit(caller, lack, std::chrono::ceil<milliseconds>(*until - now)));
}

std::optional<ApiError> CallerLimits::why_not(const Caller& caller, TimePoint now) {
  if (!caller.key) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return why_not(caller, state_of(*caller.key, now).unwatched, now);
}

void CallerLimits::count_in(State& state, TimePoint now) {
  state.requests.level -= 1;
  state.share.take(now);
}

std::optional<ApiError> CallerLimits::take(const Caller& caller, TimePoint now, std::int64_t spare) {
  if (!caller.key) return std::nullopt;
  const std::lock_guard lock(mutex_);
  if (std::optional<ApiError> over = why_not(caller, spare, now)) return over;
  count_in(state_of(*caller.key, now), now);
  return std::nullopt;
}

tl::expected<bool, ApiError> CallerLimits::try_take(const Caller& caller, TimePoint now, std::int64_t spare) {
  if (!caller.key) return true;
  {
    const std::lock_guard lock(mutex_);
    if (std::optional<ApiError> over = why_not(caller, spare, now)) return tl::unexpected(*std::move(over));
    State& state = state_of(*caller.key, now);
    if (shares(state, now) && !*shared_verdict(caller, state, spare, now)) return false;
    count_in(state, now);
  }
  note_change(caller.key->name);
  return true;
}

/// Changes the state of a caller's key, if it is known.
template <class Change>
void CallerLimits::change(const Caller& caller, Change what) {
  if (!caller.key) return;
  {
    const std::lock_guard lock(mutex_);
    const auto at = states_.find(caller.key->name);
    if (at == states_.end()) return;
    what(at->second);
  }
  note_change(caller.key->name);
}

void CallerLimits::give_back(const Caller& caller) {
  change(caller, [](State& state) { state.share.leave_place(); });
}

void CallerLimits::hold(const Caller& caller) {
  change(caller, [](State& state) {
    state.share.take_place();
    ++state.unwatched;
  });
}

void CallerLimits::release(const Caller& caller) {
  change(caller, [](State& state) {
    state.share.leave_place();
    --state.unwatched;
  });
}

void CallerLimits::spend_tokens(const Caller& caller, std::int64_t tokens, TimePoint now) {
  if (caller.key) spend_tokens(*caller.key, tokens, now);
}

void CallerLimits::spend_tokens(const KeySettings& key, std::int64_t tokens, TimePoint now) {
  {
    const std::lock_guard lock(mutex_);
    State& state = state_of(key, now);
    state.tokens.level -= static_cast<double>(tokens);
    state.share.spend_tokens(tokens, now);
  }
  note_change(key.name);
}

std::int64_t CallerLimits::estimate(const KeySettings& key, std::size_t bytes) {
  return std::min(static_cast<std::int64_t>(bytes / kBytesPerToken), key.tokens_per_minute);
}

std::int64_t CallerLimits::spend_estimate(const Caller& caller, std::size_t bytes, TimePoint now) {
  if (!caller.key) return 0;
  const std::int64_t tokens = estimate(*caller.key, bytes);
  spend_tokens(*caller.key, tokens, now);
  return tokens;
}

milliseconds CallerLimits::until_tokens(const KeySettings& key, TimePoint now) {
  if (key.tokens_per_minute == 0) return milliseconds(0);
  milliseconds wait = kAskWait;
  {
    const std::lock_guard lock(mutex_);
    State& state = state_of(key, now);
    if (!shares(state, now)) return wait_for(state.tokens.level, 1, key.tokens_per_minute);
    if (state.share.has_tokens()) return milliseconds(0);
    if (const auto until = state.share.refused_until(KeyShare::Lack::tokens, now))
      wait = std::chrono::ceil<milliseconds>(*until - now);
    state.share.want_tokens(now);
  }
  note_change(key.name);
  return wait;
}

// ---- shared by the broker -----------------------------------------------------------------------------

void CallerLimits::share(std::function<void()> changed) {
  changed_ = std::move(changed);
}

void CallerLimits::note_change(const std::string& name) {
  if (!changed_) return;
  {
    const std::lock_guard lock(mutex_);
    const auto at = states_.find(name);
    if (at == states_.end() || !at->second.share.limits().any() || !touched_.insert(name).second) return;
  }
  changed_();
}

void CallerLimits::begin_waiting(const Caller& caller) {
  change(caller, [](State& state) { ++state.waiting; });
}

void CallerLimits::end_waiting(const Caller& caller) {
  change(caller, [](State& state) { --state.waiting; });
}

std::vector<SpendRequest> CallerLimits::asks(TimePoint now, bool all) {
  std::vector<SpendRequest> asks;
  const std::lock_guard lock(mutex_);
  const auto look = [&](const std::string& name, State& state) {
    if (!shares(state, now)) return;
    if (std::optional<SpendRequest> ask = state.share.ask(state.waiting, now)) {
      ask->key = name;
      asks.push_back(*std::move(ask));
    }
  };
  if (all)
    for (auto& [name, state] : states_)
      look(name, state);
  else
    for (const std::string& name : touched_)
      if (const auto at = states_.find(name); at != states_.end()) look(name, at->second);
  touched_.clear();
  return asks;
}

void CallerLimits::told(const std::string& key, const BrokerSpent& spent, TimePoint now) {
  const std::lock_guard lock(mutex_);
  const auto at = states_.find(key);
  if (at == states_.end()) return;
  State& state = at->second;
  state.share.told(spent, now);
  touched_.insert(key);  // what came meanwhile can be asked for now
  state.alone_until = {};
  // What callers are told remains: what is left for all, and what this gateway has of it already.
  state.requests.level = static_cast<double>(spent.requests_left + state.share.requests_held());
  state.tokens.level = static_cast<double>(spent.tokens_left + state.share.tokens_held());
  state.requests.at = state.tokens.at = now;
}

void CallerLimits::alone(const std::string& key, TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (const auto at = states_.find(key); at != states_.end()) at->second.alone_until = now + kAlone;
}

void CallerLimits::keep_only(const std::vector<KeySettings>& keys) {
  const std::lock_guard lock(mutex_);
  std::set<std::string_view> names;
  for (const KeySettings& key : keys)
    names.insert(key.name);
  std::erase_if(states_, [&](const auto& item) {
    return item.second.share.running() == 0 && item.second.waiting == 0 && !names.contains(item.first);
  });
}

void CallerLimits::describe(const Caller& caller, TimePoint now, Headers& headers) const {
  if (!caller.key) return;
  const KeySettings& key = *caller.key;
  const std::lock_guard lock(mutex_);
  const auto at = states_.find(key.name);
  if (at == states_.end()) return;
  const State& state = at->second;
  describe_one(*caller.api, "requests",
               level_at(state.requests.level, state.requests.at, key.requests_per_minute, now),
               key.requests_per_minute, headers);
  describe_one(*caller.api, "tokens",
               level_at(state.tokens.level, state.tokens.at, key.tokens_per_minute, now),
               key.tokens_per_minute, headers);
}

}  // namespace lanemq::gateway
