// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets.hpp"

#include <algorithm>

#include <lanemq/text.hpp>

#include "broker/core/check.hpp"

namespace lanemq::core {
namespace {

std::int64_t capacity_of(const RateOptions& options, WindowKind window) {
  std::int64_t capacity =
      options.capacity > 0 ? options.capacity : std::max<std::int64_t>(options.limit / 10, 1);
  if (window == WindowKind::sliding)
    capacity = std::min(capacity, std::max<std::int64_t>(options.limit / 2, 1));
  return capacity;
}

/// How finely a bucket is counted whose pace changes: a small limit in thousandths, since the pace is a whole
/// number and of a few per period nothing may be lost.
std::int64_t scale_of(std::int64_t limit) {
  return std::clamp<std::int64_t>(100000 / limit, 1, 1000);
}

/// How long after a cut a limit begins to rise again, and how often it is cut.
constexpr Duration kRecoverAfter = std::chrono::seconds(10), kCutPause = std::chrono::seconds(2);
/// Thousandths of a limit that refusals leave in any case.
constexpr int kShareMin = 10;

/// Of the thousandths of the pace after a pause: where it begins, and how long it stays before it doubles.
constexpr int kRampFirst = 100, kRampFull = 1000;
constexpr Duration kRampStep = std::chrono::seconds(1);
/// What may pile up during a pause, so that somebody goes at its end.
constexpr std::int64_t kPausedLevelMax = 1;

/// The limits that a refusal is about: one of a day is not what a short pause comes from.
constexpr Duration kRefusedPeriodMax = std::chrono::minutes(1);

/// Of a limit: as much as may be missing upstream before it is said that others took it. Calls cross on their
/// way, and upstreams count in steps of their own.
constexpr std::int64_t kForeignTolerance = 20;

/// The part of a strict window that a reserve keeps free at most.
constexpr std::int64_t kHeldInWindow = 100;

std::int64_t floor_divide(std::int64_t value, std::int64_t by) {
  return value >= 0 ? value / by : -((-value + by - 1) / by);
}

bool matches(const std::string& pattern, std::string_view value) {
  return pattern.empty() || glob_match(pattern, value);
}

}  // namespace

RateLimit::RateLimit(const RateOptions& options, WindowKind window)
    : name_(options.name),
      resource_(options.resource),
      limit_(options.limit),
      period_(options.period),
      ceiling_(options.limit),
      scale_(window == WindowKind::sliding ? scale_of(options.limit) : 1),
      bucket_(options.limit * scale_, options.period, capacity_of(options, window) * scale_),
      ramp_(kRampFull),
      history_(options.period) {
  if (window == WindowKind::sliding) window_.emplace(options.limit, options.period, scale_);
}

void RateLimit::recover(TimePoint now) {
  if (share_ == 1000 || now - changed_at_ < kRecoverAfter) return;
  // The first second of recovery is the one after the wait.
  const auto seconds = (now - changed_at_ - kRecoverAfter) / std::chrono::seconds(1) + 1;
  const int before = share_;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(seconds, 1000) && share_ < 1000; ++i)
    share_ = std::min(share_ + std::max(share_ / 100, 1), 1000);
  changed_at_ = now - kRecoverAfter + std::chrono::seconds(1);
  if (share_ != before) apply_limit();
}

std::int64_t RateLimit::effective() const {
  return std::max<std::int64_t>(ceiling_ * share_ / 1000, 1);
}

void RateLimit::apply_limit() {
  if (window_) window_->set_limit(effective());
  apply_pace();
}

void RateLimit::apply_pace() {
  const std::int64_t pace = window_ ? window_->pace() : effective() * scale_;
  // In a pause a debt is still paid back.
  const int share = ramp_ == 0 ? kRampFull : ramp_;
  bucket_.set_rate(std::max<std::int64_t>(pace * share / kRampFull, 1));
}

void RateLimit::learn_limit(std::int64_t limit, TimePoint now) {
  const std::int64_t ceiling = std::clamp<std::int64_t>(limit, 1, limit_);
  if (ceiling == ceiling_) return;
  advance(now);
  ceiling_ = ceiling;
  share_ = 1000;  // what was guessed is known now
  apply_limit();
}

void RateLimit::cut(TimePoint now) {
  advance(now);
  if (share_ < 1000 && now - cut_at_ < kCutPause) return;
  share_ = std::max(share_ * 4 / 5, kShareMin);
  cut_at_ = changed_at_ = now;
  apply_limit();
}

std::int64_t RateLimit::effective_limit(TimePoint now) {
  advance(now);
  return effective();
}

void RateLimit::pause(TimePoint until, TimePoint now) {
  if (until <= now) return;
  advance(now);
  bucket_.lower_to(0);
  ramp_ = 0;
  ramp_next_ = until;
  apply_pace();
}

std::int64_t RateLimit::headroom() const {
  return window_ ? window_->headroom() : floor_divide(bucket_.level(), scale_);
}

void RateLimit::learn_remaining(std::int64_t remaining, std::optional<Duration> reset, TimePoint sent_at,
                                TimePoint now) {
  // What was sent earlier and is answered later says what is known already.
  if (sent_at < remaining_sent_at_) return;
  advance(now);
  const std::optional<std::int64_t> then = history_.at(sent_at);
  if (!then) return;
  remaining_sent_at_ = sent_at;
  // Some upstreams say what remained when they took the request in, some what remains when they answer it.
  const std::int64_t foreign = std::min(*then, headroom()) - std::max<std::int64_t>(remaining, 0);
  if (foreign <= std::max<std::int64_t>(effective() / kForeignTolerance, 1)) return;
  history_.lower(foreign);
  if (!window_) return bucket_.take(foreign * scale_);
  const TimePoint leaves_with_reset =
      now - (period_ - std::clamp(reset.value_or(period_), Duration(0), period_));
  window_->record_late(foreign, std::max(leaves_with_reset, TimePoint{}));
  advance(now);
}

void RateLimit::advance(TimePoint now) {
  recover(now);
  for (; ramp_ < kRampFull && ramp_next_ <= now; ramp_next_ += kRampStep) {
    bucket_.refill(ramp_next_);
    if (ramp_ == 0) bucket_.lower_to(kPausedLevelMax * scale_);
    ramp_ = std::min(std::max(2 * ramp_, kRampFirst), kRampFull);
    apply_pace();
  }
  bucket_.refill(now);
  if (ramp_ == 0) bucket_.lower_to(kPausedLevelMax * scale_);
  if (!window_) return;
  window_->advance(now);
  apply_pace();
  // What the window cannot take must not pile up as a later burst.
  bucket_.lower_to((window_->headroom() + 1) * scale_);
}

std::int64_t RateLimit::available(TimePoint now) {
  advance(now);
  if (!window_) return bucket_.level();
  return std::min(floor_divide(bucket_.level(), scale_), window_->headroom());
}

std::int64_t RateLimit::held(int hold) const {
  const std::int64_t held = capacity() * hold / 1000;
  // A strict window has room for a burst only if that was left free all the time, at the cost of the rate.
  return window_ ? std::min(held, std::max<std::int64_t>(limit_ / kHeldInWindow, 1)) : held;
}

std::int64_t RateLimit::level_for(std::int64_t amount, int hold) const {
  return std::min(amount + held(hold), capacity());
}

std::int64_t RateLimit::headroom_for(std::int64_t amount, int hold) const {
  return std::min(amount + held(hold), std::max(amount, limit_));
}

bool RateLimit::affordable(std::int64_t amount, int hold, TimePoint now) {
  advance(now);
  if (amount <= 0) return true;
  if (window_ && window_->headroom() < headroom_for(amount, hold)) return false;
  return floor_divide(bucket_.level(), scale_) >= level_for(amount, hold);
}

void RateLimit::take(std::int64_t amount, TimePoint now) {
  advance(now);
  bucket_.take(amount * scale_);
  if (window_) window_->record(amount, now);
  history_.note(headroom(), now);
}

void RateLimit::take_late(std::int64_t amount, TimePoint taken_at, TimePoint now) {
  advance(now);
  bucket_.take(amount * scale_);
  if (window_) window_->record_late(amount, taken_at);
}

void RateLimit::give(std::int64_t amount, TimePoint taken_at, TimePoint now) {
  advance(now);
  bucket_.give(amount * scale_);
  if (window_) window_->unrecord(amount, taken_at);
}

TimePoint RateLimit::when_affordable(std::int64_t amount, int hold, TimePoint now) {
  advance(now);
  TimePoint refilled = bucket_.when_level(level_for(amount, hold) * scale_, now);
  if (ramp_ < kRampFull) refilled = std::min(refilled, ramp_next_);
  if (!window_) return refilled;
  if (window_->headroom() < headroom_for(amount, hold)) return window_->next_change();
  return std::min(refilled, std::max(window_->next_change(), now));
}

Budget::Budget(const BudgetOptions& budget_options)
    : options(budget_options), concurrency(budget_options.concurrency) {
  for (const RateOptions& rate : options.rates)
    rates.emplace_back(rate, options.window);
}

std::string Obstacle::name() const {
  if (budget == nullptr) return {};
  std::string name = "budget " + budget->options.name;
  if (paused) return name + " paused by its upstream";
  return name + " " + (rate != nullptr ? rate->name() : "concurrency");
}

Budgets::Budgets(const std::vector<BudgetOptions>& options) {
  for (const BudgetOptions& budget : options)
    budgets_.emplace_back(budget);
  sets_.emplace_back();
  interned_.emplace(std::vector<std::size_t>{}, 0);
}

BudgetSet Budgets::match(std::string_view service, std::string_view model, std::string_view client,
                         std::string_view lane) {
  if (budgets_.empty()) return 0;
  Set set;
  for (std::size_t i = 0; i < budgets_.size(); ++i) {
    const BudgetOptions& budget = budgets_[i].options;
    if (!matches(budget.service, service) || !matches(budget.model, model) ||
        !matches(budget.client, client) || !matches(budget.lane, lane))
      continue;
    set.budgets.push_back(i);
    for (const RateLimit& rate : budgets_[i].rates)
      if (rate.resource() != Resource::requests) set.counts_tokens = true;
    set.counts_bound = set.counts_bound || budget.output == OutputCount::bound;
  }
  const auto [place, fresh] = interned_.try_emplace(set.budgets, static_cast<BudgetSet>(sets_.size()));
  if (fresh) sets_.push_back(std::move(set));
  return place->second;
}

Obstacle Budgets::unsatisfiable(BudgetSet set, const Amounts& amounts) const {
  for (const std::size_t i : sets_[set].budgets)
    for (const RateLimit& rate : budgets_[i].rates)
      if (amounts.of(rate.resource()) > rate.limit()) return {.budget = &budgets_[i], .rate = &rate};
  return {};
}

void Budgets::cut_output(BudgetSet set, Amounts& amounts) const {
  for (const std::size_t i : sets_[set].budgets) {
    for (const RateLimit& rate : budgets_[i].rates) {
      if (rate.resource() != Resource::tokens && rate.resource() != Resource::output_tokens) continue;
      const std::int64_t rest =
          rate.limit() - (rate.resource() == Resource::tokens ? amounts.input_tokens : 0);
      amounts.output_tokens = std::clamp<std::int64_t>(rest, 0, amounts.output_tokens);
    }
  }
}

Obstacle Budgets::obstacle(BudgetSet set, const Claim& claim, TimePoint now) {
  for (const std::size_t i : sets_[set].budgets) {
    Budget& budget = budgets_[i];
    if (now < budget.paused_until) return {.budget = &budget, .paused = true};
    if (budget.concurrency.full()) return {.budget = &budget};
    for (RateLimit& rate : budget.rates)
      if ((claim.turn != 0 && rate.saved_in_turn == claim.turn) ||
          !rate.affordable(claim.amounts.of(rate.resource()), claim.hold, now))
        return {.budget = &budget, .rate = &rate};
  }
  return {};
}

void Budgets::save(BudgetSet set, const Claim& claim, TimePoint now) {
  for (const std::size_t i : sets_[set].budgets)
    for (RateLimit& rate : budgets_[i].rates)
      if (!rate.affordable(claim.amounts.of(rate.resource()), claim.hold, now))
        rate.saved_in_turn = claim.turn;
}

Reservation Budgets::reserve(BudgetSet set, const Amounts& amounts, TimePoint now) {
  for (const std::size_t i : sets_[set].budgets) {
    budgets_[i].concurrency.take();
    for (RateLimit& rate : budgets_[i].rates)
      rate.take(amounts.of(rate.resource()), now);
  }
  return {.set = set,
          .held = true,
          .taken_at = now,
          .input_tokens = static_cast<std::uint32_t>(amounts.input_tokens),
          .output_tokens = static_cast<std::uint32_t>(amounts.output_tokens)};
}

void Budgets::settle(Reservation& reservation, const std::optional<Amounts>& used, TimePoint now) {
  LANEMQ_CHECK(reservation.held);
  reservation.held = false;
  const Amounts expected = reservation.amounts();
  for (const std::size_t i : sets_[reservation.set].budgets) {
    budgets_[i].concurrency.free();
    if (!used) continue;
    Amounts counted = *used;
    // Such an upstream gives nothing back of what it was sent; a released job was not sent.
    if (budgets_[i].options.output == OutputCount::bound && counted.requests > 0)
      counted.output_tokens = std::max(counted.output_tokens, expected.output_tokens);
    for (RateLimit& rate : budgets_[i].rates) {
      const std::int64_t more = counted.of(rate.resource()) - expected.of(rate.resource());
      if (more > 0) rate.take_late(more, reservation.taken_at, now);
      if (more < 0) rate.give(-more, reservation.taken_at, now);
    }
  }
}

void Budgets::release(Reservation& reservation, TimePoint now) {
  settle(reservation, Amounts{.requests = 0}, now);
}

TimePoint Budgets::when_affordable(BudgetSet set, const Claim& claim, TimePoint now) {
  TimePoint latest = now;
  for (const std::size_t i : sets_[set].budgets) {
    Budget& budget = budgets_[i];
    if (budget.concurrency.full()) return kNever;
    latest = std::max(latest, budget.paused_until);
    for (RateLimit& rate : budget.rates) {
      const std::int64_t amount = claim.amounts.of(rate.resource());
      if (!rate.affordable(amount, claim.hold, now))
        latest = std::max(latest, rate.when_affordable(amount, claim.hold, now));
    }
  }
  return latest;
}

void Budgets::learn(const Reservation& reservation, const wire::UpstreamLimits& limits, TimePoint now) {
  struct Said {
    std::optional<std::int64_t> limit, remaining, reset_ms;
  };
  const auto said_of = [&](Resource resource) -> Said {
    switch (resource) {
      case Resource::requests:
        break;
      case Resource::tokens:
        return {limits.limit_tokens, limits.remaining_tokens, limits.reset_tokens_ms};
      case Resource::input_tokens:
        return {limits.limit_input_tokens, limits.remaining_input_tokens, limits.reset_input_tokens_ms};
      case Resource::output_tokens:
        return {limits.limit_output_tokens, limits.remaining_output_tokens, limits.reset_output_tokens_ms};
    }
    return {limits.limit_requests, limits.remaining_requests, limits.reset_requests_ms};
  };
  for (const std::size_t i : sets_[reservation.set].budgets) {
    for (RateLimit& rate : budgets_[i].rates) {
      if (rate.period() != std::chrono::minutes(1)) continue;
      const Said said = said_of(rate.resource());
      if (said.limit) rate.learn_limit(*said.limit, now);
      if (!said.remaining) continue;
      std::optional<Duration> reset;
      if (said.reset_ms) reset = std::chrono::milliseconds(std::min<std::int64_t>(*said.reset_ms, 60'000));
      rate.learn_remaining(*said.remaining, reset, reservation.taken_at, now);
    }
  }
}

void Budgets::cut(BudgetSet set, TimePoint now) {
  for (const std::size_t i : sets_[set].budgets)
    for (RateLimit& rate : budgets_[i].rates)
      if (rate.period() <= kRefusedPeriodMax) rate.cut(now);
}

void Budgets::succeeded(const Reservation& reservation) {
  for (const std::size_t i : sets_[reservation.set].budgets)
    budgets_[i].concurrency.succeeded(reservation.taken_at);
}

void Budgets::overloaded(const Reservation& reservation, TimePoint now) {
  for (const std::size_t i : sets_[reservation.set].budgets)
    budgets_[i].concurrency.overloaded(reservation.taken_at, now);
}

bool Budgets::pause(BudgetSet set, TimePoint until, TimePoint now) {
  bool any = false;
  for (const std::size_t i : sets_[set].budgets) {
    Budget& budget = budgets_[i];
    if (budget.rates.empty()) continue;
    any = true;
    if (until <= budget.paused_until) continue;
    budget.paused_until = until;
    for (RateLimit& rate : budget.rates)
      if (rate.period() <= kRefusedPeriodMax) rate.pause(until, now);
  }
  return any;
}

}  // namespace lanemq::core
