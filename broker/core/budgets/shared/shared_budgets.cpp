// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/shared/shared_budgets.hpp"

#include <algorithm>
#include <utility>

#include "broker/core/base/check.hpp"
#include "broker/core/budgets/budgets.hpp"

namespace lanemq::core {
namespace {

/// An amount's part for one shard.
std::int64_t part_of(std::int64_t amount, const BudgetOptions& options) {
  return static_cast<std::int64_t>(static_cast<Int128>(amount) * options.offline_share / 1000 /
                                   static_cast<std::int64_t>(std::max<std::size_t>(options.shared_by, 1)));
}

}  // namespace

BudgetOptions with_keys_in_place(const Budget& budget, BudgetOptions options) {
  std::vector<KeyOptions> keys;
  for (const Key& key : budget.keys) {
    const std::string& account = budget.accounts[key.account].name;
    const auto configured = std::find_if(options.keys.begin(), options.keys.end(),
                                         [&](const KeyOptions& one) { return one.name == key.name; });
    if (configured != options.keys.end()) {
      keys.push_back(*configured);
      keys.back().quota_group = account == key.name ? std::string() : account;
      continue;
    }
    KeyOptions gone{.name = key.name, .quota_group = account, .draining = true};
    for (const KeyOptions& other : options.keys)
      if (other.account() == account) {
        gone.rates = other.rates;
        gone.concurrency = other.concurrency;
      }
    keys.push_back(std::move(gone));
  }
  for (const KeyOptions& added : options.keys)
    if (std::none_of(keys.begin(), keys.end(), [&](const KeyOptions& one) { return one.name == added.name; }))
      keys.push_back(added);
  options.keys = std::move(keys);
  return options;
}

BudgetOptions offline_part(const BudgetOptions& options) {
  BudgetOptions part = options;
  for (RateOptions& rate : part.rates) {
    rate.capacity =
        std::max<std::int64_t>(part_of(rate.capacity > 0 ? rate.capacity : rate.limit / 10, options), 1);
    rate.limit = part_of(rate.limit, options);
  }
  part.concurrency = part_of(part.concurrency, options);
  return part;
}

wire::UpstreamLimits offline_part(const wire::UpstreamLimits& limits, const BudgetOptions& options) {
  wire::UpstreamLimits part = limits;
  for (auto* limit :
       {&part.limit_requests, &part.limit_tokens, &part.limit_input_tokens, &part.limit_output_tokens})
    if (*limit) *limit = std::max<std::int64_t>(part_of(std::max<std::int64_t>(**limit, 1), options), 1);
  part.remaining_requests = part.remaining_tokens = std::nullopt;
  part.remaining_input_tokens = part.remaining_output_tokens = std::nullopt;
  return part;
}

std::string cannot_set_aside(const BudgetOptions& options) {
  if (options.offline_share == 0) return {};
  if (!options.shared) return "it is for a budget that several shards share by a bank";
  if (!options.keys.empty()) return "a budget with keys has none: the bank chooses the key of each call";
  if (options.offline_share > BudgetOptions::kOfflineShareMax)
    return "at most " + std::to_string(BudgetOptions::kOfflineShareMax / 10) + "%";
  const auto too_small = [&](const std::string& name, std::int64_t limit) {
    return name + " is " + std::to_string(limit) + ", and nothing would be left for each of " +
           std::to_string(options.shared_by) + " shards; set more aside";
  };
  for (const RateOptions& rate : options.rates) {
    if (part_of(rate.limit, options) < 1) return too_small(rate.name, rate.limit);
    const std::int64_t burst = rate.capacity > 0 ? rate.capacity : rate.limit / 10;
    if (options.window == WindowKind::bucket && part_of(burst, options) < 1)
      return too_small("the burst of " + rate.name, burst);
  }
  if (options.concurrency > 0 && part_of(options.concurrency, options) < 1)
    return too_small("concurrency", options.concurrency);
  return {};
}

KeysRefused keys_refused(const Claim& claim) {
  return {.any = claim.key_refused, .key = claim.refused_key};
}

void SharedBudgets::begin(const std::string& shard, std::uint64_t epoch, bool only_owner,
                          std::vector<std::string> shards) {
  shards_ = std::move(shards);
  for (Budget& budget : budgets_) {
    if (!budget.options.shared) continue;
    budget.slices = std::make_unique<Slices>(shard, epoch, budget.options, only_owner);
    if (budget.options.offline_share > 0) {
      const BudgetOptions part = offline_part(budget.options);
      budget.offline = std::make_unique<Quota>(part.rates, part.concurrency, part.window);
    }
    any_ = true;
  }
}

void SharedBudgets::configure(TimePoint now) {
  for (Budget& budget : budgets_) {
    if (budget.slices == nullptr) continue;
    budget.slices->configure(with_keys_in_place(budget, budget.options));
    if (!budget.offline) continue;
    const BudgetOptions part = offline_part(budget.options);
    budget.offline->configure(part.rates, part.concurrency, part.window, now);
  }
}

void SharedBudgets::want(std::size_t budget, const LaneWant& want) {
  budgets_[budget].slices->want(want);
}

std::size_t SharedBudgets::drawing() const {
  return static_cast<std::size_t>(std::count_if(budgets_.begin(), budgets_.end(), [](const Budget& budget) {
    return budget.slices != nullptr && budget.slices->drawing();
  }));
}

TimePoint SharedBudgets::draw_due(TimePoint now) const {
  TimePoint due = kNever;
  if (any_ && drawing() >= kDrawsMax) return due;  // an answer comes first
  for (std::size_t i = 0; any_ && i < budgets_.size(); ++i)
    if (budgets_[i].slices != nullptr) due = std::min(due, budgets_[i].slices->draw_due(now));
  return due;
}

std::vector<DrawWanted> SharedBudgets::begin_draws(TimePoint now) {
  std::vector<DrawWanted> wanted;
  if (!any_) return wanted;
  const std::size_t most = kDrawsMax - std::min(drawing(), kDrawsMax);
  for (std::size_t looked = 0; looked < budgets_.size() && wanted.size() < most; ++looked) {
    const std::size_t i = (draws_from_ + looked) % budgets_.size();
    Budget& budget = budgets_[i];
    if (budget.slices == nullptr || budget.slices->draw_due(now) > now) continue;
    wanted.push_back({.budget = i,
                      .options = with_keys_in_place(budget, budget.options),
                      .draw = budget.slices->begin_draw(now)});
    wanted.back().draw.shards = shards_;
    budget.drawn_for = 0;
  }
  if (!wanted.empty()) draws_from_ = wanted.back().budget + 1;
  return wanted;
}

void SharedBudgets::drawn(std::size_t place, const Drawn* drawn, TimePoint now) {
  Slices& slices = *budgets_[place].slices;
  if (drawn == nullptr) return slices.lost(now);
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
    const auto taken =
        budget.slices->take(claim.lane, claim.amounts, now, i == pool ? keys_refused(claim) : KeysRefused{});
    budget.quota.note_probe(now);
    if (reservation.shared == 0) reservation.shared = ++last_;
    if (!taken) {
      LANEMQ_CHECK(budget.offline);
      uses_[reservation.shared].push_back({.budget = i, .offline = true});
      continue;
    }
    ++budget.drawn_for;
    uses_[reservation.shared].push_back({.budget = i, .use = taken->use});
    if (i != pool || taken->key == Claim::kNoKey) continue;
    Key& key = budget.keys[taken->key];
    ++key.given;
    ++key.running;
    reservation.key = taken->key;
    reservation.tries_key = taken->tries_key;
  }
}

bool SharedBudgets::is_of_offline_share(const Reservation& reservation, std::size_t budget) const {
  const auto uses = uses_.find(reservation.shared);
  if (reservation.shared == 0 || uses == uses_.end()) return false;
  return std::any_of(uses->second.begin(), uses->second.end(),
                     [&](const Use& use) { return use.offline && use.budget == budget; });
}

void SharedBudgets::adopt(const Places& set, Reservation& reservation) {
  for (const std::size_t i : set) {
    if (budgets_[i].slices == nullptr) continue;
    if (reservation.shared == 0) reservation.shared = ++last_;
    uses_[reservation.shared].push_back({.budget = i});
    budgets_[i].slices->adopt(reservation.key);
    // It may have been of this part: nobody has written that down.
    if (budgets_[i].offline) budgets_[i].offline->adopt();
  }
}

void SharedBudgets::settle(const Reservation& reservation, const std::optional<Amounts>& used,
                           TimePoint now) {
  limits_.reset();
  const auto uses = uses_.find(reservation.shared);
  if (reservation.shared == 0 || uses == uses_.end()) return;
  const Amounts expected = reservation.amounts();
  for (const Use& use : uses->second) {
    Budget& budget = budgets_[use.budget];
    Amounts counted = used.value_or(expected);
    if (budget.options.output == OutputCount::bound && counted.requests > 0)
      counted.output_tokens = std::max(counted.output_tokens, expected.output_tokens);
    if (use.use) {
      budget.slices->settle(*use.use, used ? &counted : nullptr);
    } else if (!use.offline) {
      budget.slices->leave(reservation.key);
      constexpr Amounts kNothing{.requests = 0};
      if (budget.offline) budget.offline->settle(kNothing, &kNothing, reservation.taken_at, now);
    }
    budget.quota.end_probe(reservation.taken_at);
    eased_.push_back(use.budget);
  }
  uses_.erase(uses);
}

void SharedBudgets::tell(const Places& set, std::size_t pool, const Reservation& reservation,
                         const UpstreamWord& word, TimePoint now) {
  for (const std::size_t i : set) {
    if (budgets_[i].slices == nullptr) continue;
    UpstreamWord said = word;
    said.limits = limits_;
    if (i == pool) {
      said.key = reservation.key;
      said.tries_key = reservation.tries_key;
    }
    budgets_[i].slices->hear(std::move(said), reservation.taken_at, now);
  }
  limits_.reset();
}

void SharedBudgets::tell_keys_configured(TimePoint now) {
  for (Budget& budget : budgets_)
    if (budget.slices != nullptr && !budget.keys.empty())
      budget.slices->hear({.kind = UpstreamWord::Kind::keys_configured}, now, now);
}

void SharedBudgets::tell_of_key(std::size_t pool, const Reservation& reservation, UpstreamWord word,
                                TimePoint now) {
  word.key = reservation.key;
  word.tries_key = reservation.tries_key;
  budgets_[pool].slices->hear(std::move(word), reservation.taken_at, now);
}

}  // namespace lanemq::core
