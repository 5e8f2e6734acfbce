// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/limiter.hpp"

#include <algorithm>

namespace lanemq::upstream {
namespace {

Verdict judge(Counter* counter, Dimension dimension, std::uint64_t amount, TimePoint now) {
  if (!counter) return {};
  const auto wait = counter->wait(amount, now);
  const std::uint64_t limit = wait ? counter->limit() : counter->ceiling();
  const std::uint64_t remaining = counter->remaining(now);
  return {.accepted = wait == Duration::zero(),
          .dimension = dimension,
          .wait = wait,
          .too_large = !wait,
          .limit = limit,
          .used = limit > remaining ? limit - remaining : 0,
          .requested = amount};
}

bool waits_longer(const Verdict& a, const Verdict& b) {
  return a.wait.value_or(Duration::max()) > b.wait.value_or(Duration::max());
}

/// A moment at which a whole period of the wall clock begins.
TimePoint clock_edge(TimePoint started, Duration started_unix, Duration period) {
  return started - started_unix % period;
}

}  // namespace

Allowance Quota::allow_requests(std::uint64_t limit) const {
  return {.limit = limit,
          .capacity = burst_requests ? burst_requests : std::max<std::uint64_t>(1, limit / 10)};
}

Allowance Quota::allow_tokens(std::uint64_t limit) const {
  return {.limit = limit, .capacity = burst_tokens ? burst_tokens : limit};
}

Limiter::Limiter(const Quota& quota, TimePoint started, Duration started_unix)
    : quota_(quota), started_(started), others_(quota.others, started) {
  const auto counter = [&](const Allowance& allowance) {
    return make_counter({.kind = quota.window,
                         .period = quota.period,
                         .allowance = allowance,
                         .clock_edge = clock_edge(started, started_unix, quota.period)});
  };
  requests_ = counter(quota.allow_requests(quota.requests.first()));
  tokens_ = counter(quota.allow_tokens(quota.tokens.first()));
  if (quota.at_once) places_.emplace(quota.at_once.first());
  if (quota.slope > 0) slope_.emplace(quota.slope, quota.slope_floor);
  plan(quota.requests, Dimension::requests);
  plan(quota.tokens, Dimension::tokens);
  plan(quota.at_once, Dimension::at_once);
  std::stable_sort(changes_.begin(), changes_.end(),
                   [](const Change& a, const Change& b) { return a.at > b.at; });
}

Verdict Limiter::admit(std::uint64_t tokens, TimePoint now) {
  advance(now);
  const Verdict verdict = decide(tokens, now);
  if (!verdict.accepted) return verdict;
  count(tokens, now);
  if (places_) places_->take();
  return verdict;
}

void Limiter::leave() {
  if (places_) places_->give_back();
}

std::optional<Gauge> Limiter::gauge(Dimension dimension, TimePoint now) {
  advance(now);
  Counter* const counter = dimension == Dimension::requests ? requests_.get()
                           : dimension == Dimension::tokens ? tokens_.get()
                                                            : nullptr;
  if (!counter) return std::nullopt;
  return Gauge{.limit = counter->limit(),
               .remaining = counter->remaining(now),
               .reset = counter->reset(now),
               .period = quota_.period};
}

std::optional<std::uint64_t> Limiter::at_once(TimePoint now) {
  advance(now);
  return places_ ? std::optional(places_->most()) : std::nullopt;
}

OthersTally Limiter::others(TimePoint now) {
  advance(now);
  return tally_;
}

void Limiter::plan(const Changing& number, Dimension dimension) {
  for (const Changing::Step& step : number.steps())
    if (step.at > Duration::zero())
      changes_.push_back({.at = started_ + step.at, .dimension = dimension, .value = step.value});
}

/// All that comes before `now`: where a limit changes and others ask at the same time, it has changed.
void Limiter::advance(TimePoint now) {
  for (std::size_t asks = 0;;) {
    const auto ask = others_.next();
    const bool asked = ask && *ask < now;
    if (!changes_.empty() && changes_.back().at <= (asked ? *ask : now)) {
      apply(changes_.back());
      changes_.pop_back();
    } else if (!asked) {
      return;
    } else if (++asks > kAsksPerStepMax) {
      ++tally_.steps_cut;
      others_.skip_to(now);
    } else {
      ask_of_others(*ask);
      others_.pass(pace());
    }
  }
}

void Limiter::apply(const Change& change) {
  if (change.dimension == Dimension::requests) {
    requests_->set(quota_.allow_requests(change.value), change.at);
  } else if (change.dimension == Dimension::tokens) {
    tokens_->set(quota_.allow_tokens(change.value), change.at);
  } else {
    places_->set_most(change.value);
  }
}

Verdict Limiter::decide(std::uint64_t tokens, TimePoint now) {
  const Verdict by_requests = judge(requests_.get(), Dimension::requests, 1, now);
  const Verdict by_tokens = judge(tokens_.get(), Dimension::tokens, tokens, now);
  const Verdict& verdict = waits_longer(by_tokens, by_requests) ? by_tokens : by_requests;
  if (!verdict.accepted) return verdict;
  if (slope_ && !slope_->fits(now))
    return {.accepted = false,
            .dimension = Dimension::slope,
            .wait = std::nullopt,
            .limit = slope_->most(),
            .used = slope_->used(),
            .requested = 1};
  if (places_ && !places_->free(now))
    return {.accepted = false,
            .dimension = Dimension::at_once,
            .wait = std::nullopt,
            .limit = places_->most(),
            .used = places_->used(),
            .requested = 1};
  return verdict;
}

void Limiter::count(std::uint64_t tokens, TimePoint now) {
  if (requests_) requests_->take(1, now);
  if (tokens_) tokens_->take(tokens, now);
  if (slope_) slope_->take(now);
}

void Limiter::ask_of_others(TimePoint at) {
  if (!decide(quota_.others_tokens, at).accepted) {
    ++tally_.refused;
    return;
  }
  ++tally_.granted;
  count(quota_.others_tokens, at);
  if (places_ && quota_.others_hold > Duration::zero()) places_->take_until(at + quota_.others_hold);
}

/// How many of others' calls the limits take a second.
double Limiter::pace() const {
  const double periods = std::chrono::duration<double>(quota_.period).count();
  double calls = kOthersPaceMax * periods;
  if (requests_) calls = std::min(calls, static_cast<double>(requests_->limit()));
  if (tokens_)
    calls =
        std::min(calls, static_cast<double>(tokens_->limit()) / static_cast<double>(quota_.others_tokens));
  return calls / periods;
}

}  // namespace lanemq::upstream
