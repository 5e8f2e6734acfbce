// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets.hpp"

#include <algorithm>

#include <lanemq/text.hpp>

#include "broker/core/check.hpp"

namespace lanemq::core {
namespace {

/// The limits that a refusal is about: one of a day is not what a short pause comes from.
constexpr Duration kRefusedPeriodMax = std::chrono::minutes(1);

bool matches(const std::string& pattern, std::string_view value) {
  return pattern.empty() || glob_match(pattern, value);
}

}  // namespace

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
