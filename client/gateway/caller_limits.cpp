// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/caller_limits.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>
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
  return {.name = "caller_limit",
          .message = "key \"" + caller.name + "\" is over its own limit: " + what + "; try again in " +
                     std::to_string(wait.count()) + " ms",
          .code = std::move(code),
          .retry_after = wait};
}

/// A duration in OpenAI's form: "1s", "6m0s", "20ms".
std::string short_duration(milliseconds time) {
  if (time < milliseconds(1'000)) return std::to_string(time.count()) + "ms";
  const std::int64_t seconds = (time.count() + 999) / 1000;
  return (seconds >= 60 ? std::to_string(seconds / 60) + "m" : std::string()) + std::to_string(seconds % 60) +
         "s";
}

/// A time in Anthropic's form: RFC 3339.
std::string time_stamp(milliseconds from_now) {
  const auto when = std::chrono::system_clock::now() + from_now + milliseconds(999);
  const std::time_t seconds = std::chrono::system_clock::to_time_t(when);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

void describe_one(Api api, const std::string& what, double level, std::int64_t limit, Headers& headers) {
  if (limit == 0) return;
  const std::string remaining = std::to_string(static_cast<std::int64_t>(std::max(level, 0.0)));
  const milliseconds until_full = wait_for(level, static_cast<double>(limit), limit);
  if (api == Api::openai) {
    headers.set("x-ratelimit-limit-" + what, std::to_string(limit));
    headers.set("x-ratelimit-remaining-" + what, remaining);
    headers.set("x-ratelimit-reset-" + what, short_duration(until_full));
    return;
  }
  headers.set("anthropic-ratelimit-" + what + "-limit", std::to_string(limit));
  headers.set("anthropic-ratelimit-" + what + "-remaining", remaining);
  headers.set("anthropic-ratelimit-" + what + "-reset", time_stamp(until_full));
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

std::optional<ApiError> CallerLimits::why_not(const Caller& caller, std::int64_t spare, TimePoint now) {
  const KeySettings& key = *caller.key;
  const State& state = state_of(key, now);
  if (key.concurrency > 0 && state.running - spare >= key.concurrency)
    return over(caller, std::to_string(key.concurrency) + " requests at once (concurrency)",
                "tenant_concurrency", kPlaceWait);
  if (key.requests_per_minute > 0 && state.requests.level < 1)
    return over(caller, std::to_string(key.requests_per_minute) + " requests a minute (requests_per_minute)",
                "tenant_rpm", wait_for(state.requests.level, 1, key.requests_per_minute));
  if (key.tokens_per_minute > 0 && state.tokens.level < 1)
    return over(caller, std::to_string(key.tokens_per_minute) + " tokens a minute (tokens_per_minute)",
                "tenant_tpm", wait_for(state.tokens.level, 1, key.tokens_per_minute));
  return std::nullopt;
}

std::optional<ApiError> CallerLimits::why_not(const Caller& caller, TimePoint now) {
  if (!caller.key) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return why_not(caller, state_of(*caller.key, now).unwatched, now);
}

std::optional<ApiError> CallerLimits::take(const Caller& caller, TimePoint now, bool resumes) {
  if (!caller.key) return std::nullopt;
  const std::lock_guard lock(mutex_);
  if (std::optional<ApiError> over = why_not(caller, resumes ? 1 : 0, now)) return over;
  State& state = state_of(*caller.key, now);
  state.requests.level -= 1;
  ++state.running;
  return std::nullopt;
}

void CallerLimits::give_back(const Caller& caller) {
  if (!caller.key) return;
  const std::lock_guard lock(mutex_);
  const auto at = states_.find(caller.key->name);
  if (at != states_.end()) --at->second.running;
}

void CallerLimits::hold(const Caller& caller) {
  if (!caller.key) return;
  const std::lock_guard lock(mutex_);
  State& state = states_[caller.key->name];
  ++state.running;
  ++state.unwatched;
}

void CallerLimits::release(const Caller& caller) {
  if (!caller.key) return;
  const std::lock_guard lock(mutex_);
  State& state = states_[caller.key->name];
  --state.running;
  --state.unwatched;
}

void CallerLimits::spend_tokens(const Caller& caller, std::int64_t tokens, TimePoint now) {
  if (caller.key) spend_tokens(*caller.key, tokens, now);
}

void CallerLimits::spend_tokens(const KeySettings& key, std::int64_t tokens, TimePoint now) {
  const std::lock_guard lock(mutex_);
  state_of(key, now).tokens.level -= static_cast<double>(tokens);
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
  const std::lock_guard lock(mutex_);
  return wait_for(state_of(key, now).tokens.level, 1, key.tokens_per_minute);
}

void CallerLimits::keep_only(const std::vector<KeySettings>& keys) {
  const std::lock_guard lock(mutex_);
  std::set<std::string_view> names;
  for (const KeySettings& key : keys)
    names.insert(key.name);
  std::erase_if(states_,
                [&](const auto& item) { return item.second.running == 0 && !names.contains(item.first); });
}

void CallerLimits::describe(const Caller& caller, TimePoint now, Headers& headers) const {
  if (!caller.key) return;
  const KeySettings& key = *caller.key;
  const std::lock_guard lock(mutex_);
  const auto at = states_.find(key.name);
  if (at == states_.end()) return;
  const State& state = at->second;
  describe_one(caller.api, "requests",
               level_at(state.requests.level, state.requests.at, key.requests_per_minute, now),
               key.requests_per_minute, headers);
  describe_one(caller.api, "tokens",
               level_at(state.tokens.level, state.tokens.at, key.tokens_per_minute, now),
               key.tokens_per_minute, headers);
}

}  // namespace lanemq::gateway
