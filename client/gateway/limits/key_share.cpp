// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/limits/key_share.hpp"

#include <algorithm>
#include <utility>

#include <lanemq/limits.hpp>

namespace lanemq::gateway {
void KeyShare::set_limits(const Limits& limits) {
  limits_ = {.requests_per_minute = std::min(limits.requests_per_minute, limits::share_max),
             .tokens_per_minute = std::min(limits.tokens_per_minute, limits::share_max),
             .concurrency = std::min(limits.concurrency, limits::share_max)};
}

KeyShare::Lack KeyShare::lack(std::int64_t spare) const {
  if (limits_.concurrency > 0 && running_ - spare >= places_.granted) return Lack::places;
  if (limits_.requests_per_minute > 0 && requests_.held() < 1) return Lack::requests;
  return has_tokens() ? Lack::nothing : Lack::tokens;
}

std::optional<KeyShare::TimePoint> KeyShare::refused_until(Lack lack, TimePoint now) const {
  const Part& part = lack == Lack::places ? places_ : lack == Lack::requests ? requests_ : tokens_;
  return stands(part, now) ? std::optional(part.refused_until) : std::nullopt;
}

void KeyShare::take(TimePoint now) {
  ++requests_.used;
  ++running_;
  used_at_ = now;
}

void KeyShare::spend_tokens(std::int64_t tokens, TimePoint now) {
  // What an upstream says may be any number.
  tokens = std::clamp(tokens, -limits::share_max, limits::share_max);
  const std::int64_t before = tokens_.used;
  tokens_.used = std::clamp<std::int64_t>(before + tokens, 0, limits::share_max);
  used_at_ = now;
  if (tokens_.used >= before) return;
  // What was counted and not used may pay what the key owes: it is the broker's to give again.
  tokens_.granted -= before - tokens_.used;
  overcounted_ += before - tokens_.used;
  tokens_.refused_until = {};
}

void KeyShare::want_tokens(TimePoint now) {
  wants_tokens_ = true;
  used_at_ = now;
}

/// How much of it is taken ahead now.
std::int64_t KeyShare::slice(const Part& part, std::int64_t limit, TimePoint now) const {
  return is_active(now) && part.scarce_until <= now ? limit / kSlices : 0;
}

bool KeyShare::is_due(std::int64_t waiting, TimePoint now) const {
  const bool active = is_active(now);
  const auto may = [&](const Part& part) { return !stands(part, now); };
  const bool requests_limited = limits_.requests_per_minute > 0,
             tokens_limited = limits_.tokens_per_minute > 0, places_limited = limits_.concurrency > 0;
  // Used beyond what was given: others have to hear of it.
  if ((requests_limited && requests_.held() < 0) || (tokens_limited && tokens_.held() < 0) ||
      (places_limited && running_ > places_.granted))
    return true;
  // What this gateway does not need is wanted by others.
  if (tokens_limited && overcounted_ > (active ? slice(tokens_, limits_.tokens_per_minute, now) / 2 : 0))
    return true;
  const std::int64_t spare_places = 2 * slice(places_, limits_.concurrency, now);
  if (places_limited && places_.granted > running_ + waiting + spare_places) return true;
  if (!active && waiting == 0 &&
      ((requests_limited && requests_.held() > 0) || (tokens_limited && tokens_.held() > 0)))
    return true;
  if (places_limited && running_ > 0 && told_at_ && now - *told_at_ >= kRenewEvery) return true;
  if (places_limited && may(places_) && places_.granted < running_ + waiting) return true;
  // Before half of a slice is left the next one is asked for, so that no call waits for it.
  const auto low = [&](const Part& part, std::int64_t limit, std::int64_t least) {
    return limit > 0 && may(part) && part.held() < std::max(slice(part, limit, now) / 2, least);
  };
  return low(requests_, limits_.requests_per_minute, waiting) ||
         low(tokens_, limits_.tokens_per_minute, waiting > 0 || wants_tokens_ ? 1 : 0) ||
         (places_limited && may(places_) &&
          places_.granted - running_ < slice(places_, limits_.concurrency, now) / 2);
}

std::optional<SpendRequest> KeyShare::ask(std::size_t waiting, TimePoint now) {
  const auto calls = static_cast<std::int64_t>(waiting);
  if (asked_at_ && now - *asked_at_ < kAskAgain) return std::nullopt;
  if (!limits_.any() || !is_due(calls, now)) return std::nullopt;
  if (calls > 0) used_at_ = now;
  SpendRequest request;
  request.requests_per_minute = limits_.requests_per_minute;
  request.tokens_per_minute = limits_.tokens_per_minute;
  request.concurrency = limits_.concurrency;
  request.requests = requests_.used;
  request.tokens = tokens_.used;
  request.places = running_;
  if (limits_.requests_per_minute > 0)
    request.requests_ahead = calls + slice(requests_, limits_.requests_per_minute, now);
  const bool for_tokens = calls > 0 || std::exchange(wants_tokens_, false);
  if (limits_.tokens_per_minute > 0)
    request.tokens_ahead =
        std::max<std::int64_t>(slice(tokens_, limits_.tokens_per_minute, now), for_tokens ? 1 : 0);
  if (limits_.concurrency > 0) request.places_ahead = calls + slice(places_, limits_.concurrency, now);
  // What is not wanted any more is not used any more: the broker may have given it to others before its
  // answer comes.
  const auto want = [](Part& part, std::int64_t amount) {
    part.wanted = amount;
    part.granted = std::min(part.granted, amount);
  };
  want(requests_, request.requests + request.requests_ahead);
  want(tokens_, request.tokens + request.tokens_ahead);
  want(places_, request.places + request.places_ahead);
  overcounted_ = 0;
  asked_at_ = now;
  return request;
}

void KeyShare::told(const BrokerSpent& spent, TimePoint now) {
  asked_at_.reset();
  told_at_ = now;
  const auto take_in = [&](Part& part, std::int64_t granted, milliseconds wait) {
    part.granted = granted;
    part.refused_until = {};
    // Less than was asked for: there is none now.
    if (granted >= part.wanted) return;
    part.refused_until = now + std::max(wait, milliseconds(1));
    part.scarce_until = now + kIdle;
  };
  take_in(requests_, spent.requests, spent.requests_wait);
  take_in(tokens_, spent.tokens, spent.tokens_wait);
  take_in(places_, spent.places, kPlacePause);
  tokens_.granted -= overcounted_;  // since the ask
  if (overcounted_ > 0) tokens_.refused_until = {};
}

}  // namespace lanemq::gateway
