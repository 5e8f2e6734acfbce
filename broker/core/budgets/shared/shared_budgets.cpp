// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/shared/shared_budgets.hpp"

#include <algorithm>

#include "broker/core/base/check.hpp"
#include "broker/core/budgets/budgets.hpp"

namespace lanemq::core {
namespace {

/// The budget's options as its bank is told them: with the keys in their places here, by which both name
/// them. One that is not configured any more is given to nobody.
BudgetOptions with_keys_in_place(const Budget& budget) {
  BudgetOptions options = budget.options;
  std::vector<KeyOptions> keys;
  for (const Key& key : budget.keys) {
    const auto configured = std::find_if(options.keys.begin(), options.keys.end(),
                                         [&](const KeyOptions& one) { return one.name == key.name; });
    if (configured != options.keys.end()) {
      keys.push_back(*configured);
      continue;
    }
    const std::string& account = budget.accounts[key.account].name;
    KeyOptions gone{.name = key.name, .quota_group = account, .draining = true};
    for (const KeyOptions& other : options.keys)
      if (other.quota_group == account || other.name == account) {
        gone.rates = other.rates;
        gone.concurrency = other.concurrency;
      }
    keys.push_back(std::move(gone));
  }
  options.keys = std::move(keys);
  return options;
}

}  // namespace

void SharedBudgets::begin(const std::string& shard, std::uint64_t epoch) {
  for (Budget& budget : budgets_) {
    if (!budget.options.shared) continue;
    budget.slices = std::make_unique<Slices>(shard, epoch, budget.options);
    any_ = true;
  }
}

void SharedBudgets::configure() {
  for (Budget& budget : budgets_)
    if (budget.slices != nullptr) budget.slices->configure(with_keys_in_place(budget));
}

void SharedBudgets::want(std::size_t budget, const LaneWant& want) {
  budgets_[budget].slices->want(want);
}

TimePoint SharedBudgets::draw_due(TimePoint now) const {
  TimePoint due = kNever;
  for (std::size_t i = 0; any_ && i < budgets_.size(); ++i)
    if (budgets_[i].slices != nullptr) due = std::min(due, budgets_[i].slices->draw_due(now));
  return due;
}

std::vector<DrawWanted> SharedBudgets::begin_draws(TimePoint now) {
  std::vector<DrawWanted> wanted;
  for (std::size_t i = 0; any_ && i < budgets_.size(); ++i) {
    Budget& budget = budgets_[i];
    if (budget.slices == nullptr || budget.slices->draw_due(now) > now) continue;
    wanted.push_back(
        {.budget = i, .options = with_keys_in_place(budget), .draw = budget.slices->begin_draw(now)});
    budget.drawn_for = 0;
  }
  return wanted;
}

void SharedBudgets::drawn(std::size_t place, const Drawn* drawn, TimePoint now) {
  Slices& slices = *budgets_[place].slices;
  if (drawn == nullptr) return slices.lost();
  slices.drawn(*drawn, now);
  for (const auto& [model, time] : drawn->models_paused)
    models_paused_.push_back({.budget = place, .model = model, .until = now + time, .length = time});
  eased_.push_back(place);
}

bool SharedBudgets::leaves(const Reservation& reservation, TimePoint now) {
  const auto uses = uses_.find(reservation.shared);
  if (reservation.shared == 0 || uses == uses_.end()) return true;
  return std::all_of(uses->second.begin(), uses->second.end(), [&](const Use& use) {
    return !use.use || budgets_[use.budget].slices->send(*use.use, now);
  });
}

void SharedBudgets::take(const Places& set, std::size_t pool, const Claim& claim, Reservation& reservation,
                         TimePoint now) {
  for (const std::size_t i : set) {
    Budget& budget = budgets_[i];
    if (budget.slices == nullptr) continue;
    const auto taken = budget.slices->take(claim.lane, claim.amounts, now);
    LANEMQ_CHECK(taken);
    budget.quota.note_probe(now);
    ++budget.drawn_for;
    if (reservation.shared == 0) reservation.shared = ++last_;
    uses_[reservation.shared].push_back({.budget = i, .use = taken->use});
    if (i != pool || taken->key == Claim::kNoKey) continue;
    Key& key = budget.keys[taken->key];
    ++key.given;
    ++key.running;
    reservation.key = taken->key;
    reservation.tries_key = taken->tries_key;
  }
}

void SharedBudgets::adopt(const Places& set, Reservation& reservation) {
  for (const std::size_t i : set) {
    if (budgets_[i].slices == nullptr) continue;
    if (reservation.shared == 0) reservation.shared = ++last_;
    uses_[reservation.shared].push_back({.budget = i});
    budgets_[i].slices->adopt(reservation.key);
  }
}

void SharedBudgets::settle(const Reservation& reservation, const std::optional<Amounts>& used) {
  limits_.reset();
  const auto uses = uses_.find(reservation.shared);
  if (reservation.shared == 0 || uses == uses_.end()) return;
  const Amounts expected = reservation.amounts();
  for (const Use& use : uses->second) {
    Budget& budget = budgets_[use.budget];
    Amounts counted = used.value_or(expected);
    if (budget.options.output == OutputCount::bound && counted.requests > 0)
      counted.output_tokens = std::max(counted.output_tokens, expected.output_tokens);
    if (use.use)
      budget.slices->settle(*use.use, used ? &counted : nullptr);
    else
      budget.slices->leave(reservation.key);
    budget.quota.end_probe(reservation.taken_at);
    eased_.push_back(use.budget);
  }
  uses_.erase(uses);
}

void SharedBudgets::tell(const Places& set, std::size_t pool, const Reservation& reservation,
                         const UpstreamWord& word) {
  for (const std::size_t i : set) {
    if (budgets_[i].slices == nullptr) continue;
    UpstreamWord said = word;
    said.limits = limits_;
    if (i == pool) {
      said.key = reservation.key;
      said.tries_key = reservation.tries_key;
    }
    budgets_[i].slices->hear(std::move(said), reservation.taken_at);
  }
  limits_.reset();
}

}  // namespace lanemq::core
