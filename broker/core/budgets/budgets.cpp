// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/budgets.hpp"

#include <algorithm>
#include <utility>

#include <lanemq/text.hpp>

#include "broker/core/base/check.hpp"
#include "broker/core/base/mark.hpp"
#include "broker/core/budgets/shared/bank.hpp"

namespace lanemq::core {
namespace {

bool matches(const std::string& pattern, std::string_view value) {
  return pattern.empty() || glob_match(pattern, value);
}

/// A refusal may be about the calls under way where it asks to retry within kSoonAgain, and kManyAtOnce calls
/// are left; kManyWhereLearnt where a bound on calls at once is known.
constexpr Duration kSoonAgain = std::chrono::milliseconds(2100);
constexpr std::int64_t kManyAtOnce = 4, kManyWhereLearnt = 2;

/// Whether the calls under way may be why: the refusal says nothing, or only when to come again, which is
/// soon, and of the rates that are counted it does not say that they are used up. Few calls under way tell
/// nothing: a pace of a call or two is as well counted in calls.
bool may_be_places(const Quota& quota, const Budgets::Limited& limited, TimePoint now) {
  if (limited.is_bare()) return true;
  if (limited.by ? limited.by != LimitedBy::slope : limited.told && limited.shared) return false;
  const ConcurrencyLimit& places = quota.concurrency();
  return limited.until - now <= kSoonAgain &&
         (!quota.has_rates() || places.running() >= (places.is_learnt() ? kManyWhereLearnt : kManyAtOnce));
}

/// Whether the upstream refused the claim's job with this key.
bool is_refused(const Budget& pool, const Key& key, const Claim& claim) {
  return claim.refused_key != Claim::kNoKey && &pool.keys[claim.refused_key] == &key;
}

bool is_earmarked(const Account& account, const Claim& claim) {
  return claim.number != 0 && account.earmarked_from == claim.number;
}

/// Whether jobs may get keys of another account, too. Accounts of keys that are gone stay in their places.
bool shares(const Budget& pool, std::size_t account) {
  return std::any_of(pool.keys.begin(), pool.keys.end(), [&](const Key& key) {
    return key.state != Key::State::draining && key.account != account;
  });
}

/// A limit that is smaller than the amounts, so that it can never grant them; null: none is.
const RateLimit* too_small(const Quota& quota, const Amounts& amounts) {
  for (const RateLimit& rate : quota.rates())
    if (amounts.of(rate.resource()) > rate.limit()) return &rate;
  return nullptr;
}

/// The limit that keeps the claim from the budget itself. `refused`: the refusals of the budget's keys.
bool blocks(Budget& budget, const Claim& claim, const KeysRefused& refused, TimePoint now,
            Obstacle& obstacle) {
  if (budget.slices == nullptr) return budget.quota.blocks(claim, now, obstacle);
  obstacle.paused = budget.quota.is_paused(now);
  if (!obstacle.paused && budget.slices->affordable(claim.lane, claim.amounts, now, refused)) return false;
  if (Obstacle own; !obstacle.paused && budget.offline && !budget.slices->is_contested(now) &&
                    !budget.offline->blocks(claim, now, own))
    return false;
  obstacle.bank = budget.slices->answer(claim.lane);
  return true;
}

}  // namespace

std::string_view name_of(Key::State state) {
  switch (state) {
    case Key::State::active:
      return "active";
    case Key::State::draining:
      return "draining";
    case Key::State::spent:
      break;
  }
  return "spent";
}

Duration Key::rest() const {
  Duration rest = kRestMin;
  for (int i = 1; i < refusals && rest < kRestMax; ++i)
    rest *= 2;
  return std::min(rest, kRestMax);
}

Budget::Budget(const BudgetOptions& budget_options)
    : options(budget_options), quota(options.rates, options.concurrency, options.window) {
  for (const KeyOptions& key : options.keys)
    add_key(key);
}

Budget::Budget(LearntFor whose) : Budget(LearntBudgets::options_for(whose)) {
  quota.reserve(rate_kinds().size());
  learnt = std::make_unique<LearntFor>(std::move(whose));
}

void Budget::add_limit(const RateOptions& rate) {
  options.rates.push_back(rate);
  quota.add(rate, options.window);
}

void Budget::add_key(const KeyOptions& key) {
  auto account = std::find_if(accounts.begin(), accounts.end(),
                              [&](const Account& known) { return known.name == key.account(); });
  if (account == accounts.end())
    account = accounts.insert(account, {key.account(), Quota(key.rates, key.concurrency, options.window)});
  keys.push_back({.name = key.name,
                  .weight = key.weight,
                  .account = static_cast<std::size_t>(account - accounts.begin()),
                  .state = key.draining ? Key::State::draining : Key::State::active});
}

namespace {

/// Why the bank of a shared budget grants a lane nothing now.
std::string name_at_bank(const std::string& budget, const LaneAnswer& answer) {
  switch (answer.refusal) {
    case DrawRefusal::room:
      return (answer.limit.empty() ? budget : answer.limit) + " at the bank";
    case DrawRefusal::lanes_above:
      return budget + " at the bank, behind lanes above";
    case DrawRefusal::others_turn:
      return budget + " at the bank, behind other shards";
    case DrawRefusal::paused:
      return budget + " paused by its upstream";
    case DrawRefusal::no_key:
      return budget + " keys";
    case DrawRefusal::places:
      return budget + " concurrency at the bank";
    case DrawRefusal::lost_draws:
      return budget + " at the bank, which has lost draws";
    case DrawRefusal::superseded:
      return budget + " at the bank, where another broker draws";
    case DrawRefusal::none:
    case DrawRefusal::too_many:
      break;
  }
  return budget + " at the bank";
}

}  // namespace

std::string Obstacle::name() const {
  std::string name = limit_name();
  if (rate == nullptr && (budget == nullptr || paused || no_key || bank != nullptr)) return name;
  const Quota& quota = account != nullptr ? account->quota : budget->quota;
  const std::int64_t places = quota.concurrency().is_learnt() ? quota.concurrency().limit() : 0;
  const std::int64_t learnt = rate != nullptr ? rate->learnt() : places;
  return learnt > 0 ? name + " learnt=" + std::to_string(learnt) : name;
}

std::string Obstacle::limit_name() const {
  if (budget == nullptr) return {};
  std::string name = budget->options.name;
  if (no_key) return name + " keys";
  if (paused && !model.empty()) return name + " paused by model=" + std::string(model);
  if (bank != nullptr) return name_at_bank(name, *bank);
  if (account != nullptr) name += " key " + account->name;
  if (paused) return name + " paused by its upstream";
  return name + " " + (rate != nullptr ? rate->name() : "concurrency");
}

std::string Obstacle::too_large(const Amounts& amounts) const {
  return "the job costs about " + std::to_string(amounts.of(rate->resource())) + ", and budget " +
         limit_name() + " is " + std::to_string(rate->limit()) +
         " in all; send less, or raise the limit if the upstream allows it";
}

Budgets::Budgets(const std::vector<BudgetOptions>& options, bool learns)
    : configured_(options.size()), lines_(options.size() + (learns ? LearntBudgets::kMax : 0)) {
  budgets_.reserve(lines_);
  for (const BudgetOptions& budget : options)
    budgets_.emplace_back(budget);
  sets_.emplace_back();
  interned_.emplace(std::pair(std::vector<std::size_t>{}, kNoModel), 0);
}

BudgetSet Budgets::match(std::string_view service, std::string_view model, std::string_view client,
                         std::string_view lane, std::string_view tenant) {
  if (budgets_.empty()) return 0;
  Set set;
  for (std::size_t i = 0; i < configured_; ++i) {
    const BudgetOptions& budget = budgets_[i].options;
    if (!matches(budget.service, service) || !matches(budget.model, model) ||
        !matches(budget.client, client) || !matches(budget.lane, lane) ||
        !(budget.tenant.empty() || (!tenant.empty() && matches(budget.tenant, tenant))))
      continue;
    set.budgets.push_back(i);
  }
  if (set.budgets.empty())
    if (const std::size_t place = find_learnt(service, model); place != LearntBudgets::kNone)
      set.budgets.push_back(place);
  if (const auto apart = apart_by_name_.find(model); apart != apart_by_name_.end()) set.model = apart->second;
  return intern(std::move(set));
}

bool Budgets::counts_all(std::string_view service, std::string_view model) const {
  return std::any_of(budgets_.begin(), budgets_.begin() + static_cast<std::ptrdiff_t>(configured_),
                     [&](const Budget& budget) {
                       const BudgetOptions& of = budget.options;
                       return matches(of.service, service) && matches(of.model, model) && of.client.empty() &&
                              of.lane.empty() && of.tenant.empty();
                     });
}

BudgetSet Budgets::intern(Set set) {
  const auto [place, fresh] =
      interned_.try_emplace({set.budgets, set.model}, static_cast<BudgetSet>(sets_.size()));
  if (fresh) {
    describe(set);
    sets_.push_back(std::move(set));
  }
  return place->second;
}

BudgetSet Budgets::home(BudgetSet set, std::string_view service, std::string_view model) {
  return apart(any_learnt() ? learnt(set, service, model) : set, model);
}

std::size_t Budgets::find_learnt(std::string_view service, std::string_view model) const {
  for (std::size_t place = configured_; place < budgets_.size(); ++place)
    if (const LearntFor& of = *budgets_[place].learnt; of.service == service && of.model == model)
      return place;
  return LearntBudgets::kNone;
}

BudgetSet Budgets::learnt(BudgetSet set, std::string_view service, std::string_view model) {
  const std::vector<std::size_t>& budgets = sets_[set].budgets;
  if (!budgets.empty() && !is_learnt(set)) return set;
  const std::size_t place = find_learnt(service, model);
  if (budgets.empty() ? place == LearntBudgets::kNone : budgets.front() == place) return set;
  Set other = sets_[set];
  other.budgets.clear();
  if (place != LearntBudgets::kNone) other.budgets.push_back(place);
  return intern(std::move(other));
}

BudgetSet Budgets::begin_to_learn(BudgetSet set, LearntFor whose, const wire::UpstreamLimits* limits,
                                  std::int64_t sent, const std::function<bool(std::size_t)>& in_use) {
  if (find_learnt(whose.service, whose.model) != LearntBudgets::kNone)
    return learnt(set, whose.service, whose.model);
  const std::size_t place = place_to_learn(whose, in_use);
  if (place == LearntBudgets::kNone) return set;
  Budget fresh(std::move(whose));
  if (place < budgets_.size()) {
    std::erase_if(unsaved_, [&](const Part& part) { return part.budget == place; });
    budgets_[place] = std::move(fresh);
  } else {
    budgets_.push_back(std::move(fresh));
  }
  Budget& budget = budgets_[place];
  add_limits(budget, limits, sent);
  note_change(place, kOwnLimits);
  return learnt(set, budget.learnt->service, budget.learnt->model);
}

/// A place that is free, or of the budget that was heard of longest ago, if that is long. None where the
/// client has made as many as one may.
std::size_t Budgets::place_to_learn(const LearntFor& whose,
                                    const std::function<bool(std::size_t)>& in_use) const {
  std::size_t of_client = 0, oldest = LearntBudgets::kNone;
  for (std::size_t place = configured_; place < budgets_.size(); ++place) {
    const LearntFor& known = *budgets_[place].learnt;
    const bool idle = whose.heard_at - known.heard_at >= LearntBudgets::kIdle;
    if (!idle && known.client == whose.client) ++of_client;
    const bool paused = budgets_[place].paused;  // an operator's word is kept
    if (!idle || paused || budgets_[place].quota.concurrency().running() > 0 || in_use(place)) continue;
    if (oldest == LearntBudgets::kNone || known.heard_at < budgets_[oldest].learnt->heard_at) oldest = place;
  }
  const std::size_t left = lines_ - budgets_.size();
  if (of_client >= LearntBudgets::kOfClient && left <= LearntBudgets::kForOthers) return LearntBudgets::kNone;
  return budgets_.size() < lines_ ? budgets_.size() : oldest;
}

/// Adds the limits that are stated and not there yet.
void Budgets::add_limits(Budget& budget, const wire::UpstreamLimits* limits, std::int64_t sent) {
  const std::vector<RateOptions> missing = LearntBudgets::missing(budget.quota.rates(), limits, sent);
  if (missing.empty()) return;
  for (const RateOptions& rate : missing)
    budget.add_limit(rate);
  for (Set& set : sets_)
    describe(set);
  relearnt_ = true;
}

void Budgets::move(Reservation& reservation, BudgetSet to, TimePoint now) {
  LANEMQ_CHECK(reservation.held && reservation.key == Reservation::kNoKey &&
               sets_[reservation.set].budgets.empty());
  reservation.set = to;
  for_quotas(reservation, [](Quota& quota, std::size_t) { quota.adopt(); });
  count(reservation, now);
}

void Budgets::count(const Reservation& reservation, TimePoint now) {
  for_quotas(reservation, [&](Quota& quota, std::size_t) {
    for (RateLimit& rate : quota.rates())
      rate.take_late(reservation.amounts().of(rate.resource()), reservation.taken_at, now);
  });
}

BudgetSet Budgets::apart(BudgetSet set, std::string_view model) {
  if (apart_.empty()) return set;
  const auto apart = apart_by_name_.find(model);
  const std::size_t place = apart == apart_by_name_.end() ? kNoModel : apart->second;
  if (sets_[set].model == place) return set;
  Set other = sets_[set];
  other.model = place;
  return intern(std::move(other));
}

TimePoint Budgets::account_opens_at(BudgetSet set, std::size_t account, TimePoint now) const {
  const Set& of = sets_[set];
  if (of.model == kNoModel) return now;
  const ModelApart::Pause* const pause = apart_[of.model].pause_of(of.pool, account);
  return pause == nullptr ? now : std::max(pause->opens_at(now), now);
}

Budgets::UpstreamPause Budgets::model_pause(BudgetSet set, TimePoint now) const {
  const Set& of = sets_[set];
  if (of.model == kNoModel) return {};
  const ModelApart& model = apart_[of.model];
  UpstreamPause longest;
  const auto look_at = [&](std::size_t budget, TimePoint until, bool tried) {
    if (until > now && until > longest.until)
      longest = {.budget = &budgets_[budget], .until = until, .model = model.name, .tried = tried};
  };
  for (const ModelApart::Pause& pause : model.pauses)
    if (pause.account == kOwnLimits &&
        std::find(of.budgets.begin(), of.budgets.end(), pause.budget) != of.budgets.end())
      look_at(pause.budget, pause.opens_at(now), pause.is_tried(now));
  // A pool holds the job back only if all its keys are paused for the model.
  const Budget* const pool = pool_of(set);
  if (pool == nullptr) return longest;
  TimePoint soonest = kNever;
  bool tried = false;
  for (const Key& key : pool->keys) {
    if (key.open_from() == kNever) continue;
    const ModelApart::Pause* const pause = model.pause_of(of.pool, key.account);
    soonest = std::min(soonest, pause == nullptr ? now : pause->opens_at(now));
    tried = tried || (pause != nullptr && pause->is_tried(now));
  }
  if (soonest != kNever) look_at(of.pool, soonest, tried);
  return longest;
}

std::vector<std::pair<std::string_view, TimePoint>> Budgets::paused_models(std::size_t budget,
                                                                           TimePoint now) const {
  std::vector<std::pair<std::string_view, TimePoint>> all;
  for (const ModelApart& model : apart_) {
    TimePoint until = now;
    for (const ModelApart::Pause& pause : model.pauses)
      if (pause.budget == budget) until = std::max(until, pause.until);
    if (until > now) all.emplace_back(model.name, until);
  }
  return all;
}

/// Fills in what follows from the set's budgets. A set keeps its pool for ever: running jobs refer to it.
void Budgets::describe(Set& set) const {
  set.counts_tokens = set.counts_bound = false;
  const auto look_at = [&](const Quota& quota) {
    for (const RateLimit& rate : quota.rates())
      if (rate.resource() != Resource::requests) set.counts_tokens = true;
  };
  for (const std::size_t i : set.budgets) {
    const Budget& budget = budgets_[i];
    look_at(budget.quota);
    set.counts_bound = set.counts_bound || budget.options.output == OutputCount::bound;
    if (set.pool == kNoPool && !budget.keys.empty()) set.pool = i;
  }
  if (set.pool == kNoPool) return;
  for (const Account& account : budgets_[set.pool].accounts)
    look_at(account.quota);
}

Obstacle Budgets::unsatisfiable(BudgetSet set, const Amounts& amounts) const {
  for (const std::size_t i : sets_[set].budgets)
    if (const RateLimit* rate = too_small(budgets_[i].quota, amounts))
      return {.budget = &budgets_[i], .rate = rate};
  const Budget* const pool = pool_of(set);
  if (pool == nullptr) return {};
  Obstacle obstacle;
  for (const Key& key : pool->keys) {
    // Draining keys are given to no job, so what only their account could grant is lost.
    if (key.state == Key::State::draining) continue;
    const Account& account = pool->accounts[key.account];
    const RateLimit* const rate = too_small(account.quota, amounts);
    if (rate == nullptr) return {};
    obstacle = {.budget = pool, .account = &account, .rate = rate};
  }
  return obstacle;
}

void Budgets::cut_output(BudgetSet set, Amounts& amounts) const {
  for (const std::size_t i : sets_[set].budgets) {
    for (const RateLimit& rate : budgets_[i].quota.rates()) {
      if (rate.resource() != Resource::tokens && rate.resource() != Resource::output_tokens) continue;
      const std::int64_t rest =
          rate.capacity() - (rate.resource() == Resource::tokens ? amounts.input_tokens : 0);
      amounts.output_tokens = std::clamp<std::int64_t>(rest, 0, amounts.output_tokens);
    }
  }
}

Obstacle Budgets::obstacle(BudgetSet set, const Claim& claim, TimePoint now) {
  if (const UpstreamPause pause = model_pause(set, now); pause.budget != nullptr)
    return {.budget = pause.budget, .paused = true, .model = pause.model};
  Obstacle obstacle;
  for (const std::size_t i : sets_[set].budgets) {
    if (!blocks(budgets_[i], claim, refused_of(set, i, claim), now, obstacle)) continue;
    obstacle.budget = &budgets_[i];
    return obstacle;
  }
  const Budget* const pool = pool_of(set);
  return pool == nullptr || pool->slices != nullptr ? Obstacle{} : key_obstacle(set, claim, now);
}

/// The reason why no key of the pool can serve the claim; the budget's own limits are left out.
Obstacle Budgets::key_obstacle(BudgetSet set, const Claim& claim, TimePoint now) {
  if (best_key(set, claim, now) != nullptr) return {};
  const Budget& pool = *pool_of(set);
  Account* const first = first_account(set, claim, now);
  if (first == nullptr) {
    TimePoint soonest = kNever, apart = kNever;
    for (const Key& key : pool.keys) {
      if (is_refused(pool, key, claim)) continue;
      soonest = std::min(soonest, key.open_from());
      const TimePoint opens_at = account_opens_at(set, key.account, now);
      if (opens_at > now && too_small(pool.accounts[key.account].quota, claim.amounts) == nullptr)
        apart = std::min(apart, std::max(key.open_from(), opens_at));
    }
    if (apart != kNever)
      return {.budget = &pool, .paused = true, .model = apart_[sets_[set].model].name, .until = apart};
    // An open key is earmarked for others, or its limits are too small: only a settle changes that.
    return {.budget = &pool, .no_key = true, .until = soonest > now ? soonest : kNever};
  }
  Obstacle obstacle{.budget = &pool, .account = first};
  first->quota.blocks(claim, now, obstacle);
  obstacle.until = first->quota.when_affordable(claim, now);
  return obstacle;
}

Obstacle Budgets::obstacle_of(BudgetSet set, std::size_t place, const Claim& claim, TimePoint now) {
  Budget& budget = budgets_[place];
  Obstacle obstacle;
  if (blocks(budget, claim, refused_of(set, place, claim), now, obstacle)) {
    obstacle.budget = &budget;
    obstacle.until = budget.slices == nullptr ? budget.quota.when_affordable(claim, now)
                     : obstacle.paused        ? budget.quota.open_from()
                     : budget.offline && too_small(*budget.offline, claim.amounts) == nullptr
                         ? budget.offline->when_affordable(claim, now)
                         : kNever;
    return obstacle;
  }
  return pool_of(set) == &budget && budget.slices == nullptr ? key_obstacle(set, claim, now) : Obstacle{};
}

bool Budgets::leaves_hold(BudgetSet set, const Claim& claim) const {
  for (const std::size_t i : sets_[set].budgets)
    if (budgets_[i].slices == nullptr && !budgets_[i].quota.leaves_hold(claim)) return false;
  const Budget* const pool = pool_of(set);
  if (pool != nullptr && pool->slices != nullptr) return true;
  // Draining keys are given to no job, so room on their accounts alone does not count.
  return pool == nullptr || std::any_of(pool->keys.begin(), pool->keys.end(), [&](const Key& key) {
           return key.state != Key::State::draining && pool->accounts[key.account].quota.leaves_hold(claim);
         });
}

void Budgets::ease(std::size_t budget) {
  if (budgets_[budget].eased) return;
  budgets_[budget].eased = true;
  eased_.push_back(budget);
}

std::vector<std::size_t> Budgets::take_eased() {
  if (shared.any()) {
    for (const std::size_t budget : shared.take_eased())
      ease(budget);
    for (const SharedBudgets::ModelPaused& pause : shared.take_models_paused())
      take_model_paused(pause);
  }
  for (const std::size_t line : eased_)
    if (line < budgets_.size()) budgets_[line].eased = false;
  return std::exchange(eased_, {});
}

/// The bank says with each draw which models are paused, and words take their time: what is no news does not
/// put off the next probe.
void Budgets::take_model_paused(const SharedBudgets::ModelPaused& told) {
  const TimePoint now = told.until - told.length;
  const std::size_t model = go_apart(told.model, {}, now, [](std::size_t) { return true; });
  if (model == kNoModel) return;
  const ModelApart::Pause* const known = apart_[model].pause_of(told.budget, kOwnLimits);
  if (known == nullptr || known->until + kOthersFirst < told.until)
    pause_model(model, {.budget = told.budget}, told.until, now);
}

/// The account that can grant the claim first. Null when all keys rest, are tried, drain, are earmarked for
/// others, or have too small limits.
Account* Budgets::first_account(BudgetSet set, const Claim& claim, TimePoint now) {
  Budget& pool = *pool_of(set);
  Account* first = nullptr;
  TimePoint soonest{};
  for (const Key& key : pool.keys) {
    if (key.open_from() > now || is_refused(pool, key, claim)) continue;
    Account& account = pool.accounts[key.account];
    if (is_earmarked(account, claim) || too_small(account.quota, claim.amounts) != nullptr) continue;
    if (account_opens_at(set, key.account, now) > now) continue;
    const TimePoint when = account.quota.when_affordable(claim, now);
    if (first != nullptr && when >= soonest) continue;
    first = &account;
    soonest = when;
  }
  return first;
}

/// The key whose account has the most room; of equals the one that got least for its weight. A key that has
/// rested goes first, so that it is tried; but last for a job that a key was refused for already. Null when
/// none can be given now.
Key* Budgets::best_key(BudgetSet set, const Claim& claim, TimePoint now) {
  Budget& pool = *pool_of(set);
  Key* best = nullptr;
  std::int64_t most = 0;
  Obstacle ignored;
  for (Key& key : pool.keys) {
    if (key.open_from() > now || is_refused(pool, key, claim)) continue;
    Quota& quota = pool.accounts[key.account].quota;
    if (is_earmarked(pool.accounts[key.account], claim) || quota.blocks(claim, now, ignored)) continue;
    if (account_opens_at(set, key.account, now) > now) continue;
    const std::int64_t room = quota.room_after(claim, now);
    const bool spent = key.state == Key::State::spent;
    if (best != nullptr && spent != (best->state == Key::State::spent)) {
      if (spent == claim.key_refused) continue;
      best = nullptr;
    }
    const bool better = best == nullptr || room > most ||
                        (room == most && (key.given + 1) * best->weight < (best->given + 1) * key.weight);
    if (!better) continue;
    best = &key;
    most = room;
  }
  return best;
}

/// Requires: the reservation has a key.
const Key& Budgets::key_at(const Reservation& reservation) const {
  return budgets_[sets_[reservation.set].pool].keys[reservation.key];
}

Key& Budgets::key_at(const Reservation& reservation) {
  return budgets_[sets_[reservation.set].pool].keys[reservation.key];
}

Quota& Budgets::account_of(const Reservation& reservation) {
  return budgets_[sets_[reservation.set].pool].accounts[key_at(reservation).account].quota;
}

Reservation Budgets::reserve(BudgetSet set, const Claim& claim, TimePoint now) {
  Reservation reservation{.set = set,
                          .held = true,
                          .taken_at = now,
                          .input_tokens = static_cast<std::uint32_t>(claim.amounts.input_tokens),
                          .output_tokens = static_cast<std::uint32_t>(claim.amounts.output_tokens)};
  if (shared.any()) shared.take(of(set), sets_[set].pool, claim, reservation, now);
  if (Budget* const pool = pool_of(set); pool != nullptr && pool->slices == nullptr) {
    Key* const key = best_key(set, claim, now);
    LANEMQ_CHECK(key != nullptr);
    ++key->given;
    ++key->running;
    reservation.tries_key = key->tried = key->state == Key::State::spent;
    reservation.key = static_cast<std::uint16_t>(key - pool->keys.data());
  }
  for_parts(reservation, [&](Quota& quota, const Part& part) {
    note_change(part.budget, part.account);
    quota.take(claim, now);
    if (any_apart() && now < quota.paused_until())
      refused_ones_probe_last(part, quota.open_from() + kOthersFirst, now);
  });
  if (any_apart()) take_from_pauses(reservation, now);
  return reservation;
}

/// A job of an apart model goes: it finds out whether a pause holds, or holds back the next job.
void Budgets::take_from_pauses(const Reservation& reservation, TimePoint now) {
  for_pauses(reservation, [&](ModelApart::Pause& pause) {
    if (now < pause.until)
      refused_ones_probe_last({.budget = pause.budget, .account = pause.account}, now + kPauseProbedAfter,
                              now);
    pause.take(now);
  });
}

std::string_view Budgets::key_of(const Reservation& reservation) const {
  if (reservation.key == Reservation::kNoKey) return {};
  return key_at(reservation).name;
}

void Budgets::settle(Reservation& reservation, const std::optional<Amounts>& used, TimePoint now) {
  LANEMQ_CHECK(reservation.held);
  reservation.held = false;
  const Amounts expected = reservation.amounts();
  for_parts(reservation, [&](Quota& quota, const Part& part) {
    Amounts counted = used.value_or(expected);
    // An upstream that counts max_tokens gives back nothing of a request it got; a released job was not sent.
    if (budgets_[part.budget].options.output == OutputCount::bound && counted.requests > 0)
      counted.output_tokens = std::max(counted.output_tokens, expected.output_tokens);
    if (counted != expected) note_change(part.budget, part.account);
    const bool tried = quota.is_tried(now);
    if (quota.settle(expected, used ? &counted : nullptr, reservation.taken_at, now)) ease(part.budget);
    tried_ = tried_ || (tried && !quota.is_tried(now));
  });
  if (any_apart())
    for_pauses(reservation, [&](ModelApart::Pause& pause) {
      const bool tried = pause.probe.tried_since != kNever;
      pause.probe.end(reservation.taken_at);
      tried_ = tried_ || (tried && pause.probe.tried_since == kNever);
    });
  if (shared.any()) shared.settle(reservation, used, now);
  if (reservation.key == Reservation::kNoKey) return;
  Key& key = key_at(reservation);
  --key.running;
  if (!reservation.tries_key) return;
  key.tried = false;
  ease(sets_[reservation.set].pool);
}

void Budgets::release(Reservation& reservation, TimePoint now) {
  settle(reservation, Amounts{.requests = 0}, now);
}

TimePoint Budgets::foreseen(BudgetSet set, const Claim& claim, TimePoint now) const {
  TimePoint latest = std::max(now, model_pause(set, now).until);
  for (const std::size_t i : sets_[set].budgets)
    latest =
        std::max(latest, budgets_[i].slices != nullptr ? kNever : budgets_[i].quota.foreseen(claim, now));
  const Budget* const pool = pool_of(set);
  if (pool == nullptr || pool->slices != nullptr || latest == kNever) return latest;
  if (pool->keys.size() > kForeseenKeys) return kNever;
  TimePoint soonest = kNever;
  for (const Key& key : pool->keys)
    if (key.open_from() != kNever)
      soonest = std::min(soonest,
                         std::max(key.open_from(), pool->accounts[key.account].quota.foreseen(claim, now)));
  return std::max(latest, soonest);
}

void Budgets::learn(const Reservation& reservation, const wire::UpstreamLimits& limits, TimePoint now,
                    std::string_view refused) {
  shared.hear_limits(limits);
  const auto learn = [&](Quota& quota, std::size_t budget, std::size_t account = kOwnLimits) {
    if (!refused.empty() && is_told_apart({.budget = budget, .account = account}, refused, now)) return;
    if (budgets_[budget].slices != nullptr) {
      if (budgets_[budget].offline)
        budgets_[budget].offline->learn(offline_part(limits, budgets_[budget].options), reservation.taken_at,
                                        now);
      return;
    }
    note_change(budget, account);
    if (Budget& known = budgets_[budget]; known.learnt != nullptr) {
      known.learnt->heard_at = now;
      add_limits(known, &limits);
    }
    if (quota.learn(limits, reservation.taken_at, now)) ease(budget);
  };
  const Set& set = sets_[reservation.set];
  if (reservation.key == Reservation::kNoKey) {
    for (const std::size_t i : set.budgets)
      learn(budgets_[i].quota, i);
    return;
  }
  // The upstream's word about a key holds for its account; for the budget only if no other account is in use.
  Budget& pool = budgets_[set.pool];
  Quota& account = account_of(reservation);
  if (account.has_rates())
    learn(account, set.pool, key_at(reservation).account);
  else if (!shares(pool, key_at(reservation).account))
    learn(pool.quota, set.pool);
}

void Budgets::cut(const Reservation& reservation, TimePoint now) {
  if (reservation.key != Reservation::kNoKey && account_of(reservation).has_rates()) {
    if (budgets_[sets_[reservation.set].pool].slices != nullptr) return;
    note_change(sets_[reservation.set].pool, key_at(reservation).account);
    return account_of(reservation).cut(now);
  }
  for (const std::size_t i : sets_[reservation.set].budgets) {
    if (budgets_[i].slices != nullptr) continue;
    note_change(i, kOwnLimits);
    budgets_[i].quota.cut(now);
  }
}

void Budgets::succeeded(const Reservation& reservation, std::uint64_t model, TimePoint now,
                        std::int64_t calls) {
  if (shared.any()) {
    const std::size_t pool = sets_[reservation.set].pool;
    shared.tell(of(reservation.set), pool, reservation,
                {.kind = UpstreamWord::Kind::answered, .model_mark = model, .calls = calls}, now);
    // The pauses that this shard has seen.
    const auto note = [&](Quota& quota, std::size_t budget) {
      if (budgets_[budget].slices != nullptr && quota.answered(model, reservation.taken_at, now))
        ease(budget);
    };
    for (const std::size_t i : sets_[reservation.set].budgets)
      note(budgets_[i].quota, i);
    if (reservation.key != Reservation::kNoKey) note(account_of(reservation), pool);
  }
  for_parts(reservation, [&](Quota& quota, const Part& part) {
    quota.succeeded(reservation.taken_at, now, calls);
    if (!quota.answered(model, reservation.taken_at, now)) return;
    note_change(part.budget, part.account);
    ease(part.budget);
  });
  if (!any_apart()) return;
  bool opens = false;
  for_pauses(reservation, [&](ModelApart::Pause& pause) {
    if (!pause.answered(reservation.taken_at, now)) return;
    note_change(pause.budget, kOwnLimits);
    opens = true;
  });
  if (opens) eased_.push_back(line_of(sets_[reservation.set].model));
}

void Budgets::model_answered(std::uint64_t model, TimePoint taken_at, TimePoint now) {
  for (ModelApart& apart : apart_)
    if (mark_of(apart.name) == model)
      for (ModelApart::Pause& pause : apart.pauses)
        pause.answered(taken_at, now);
}

void Budgets::overloaded(const Reservation& reservation, TimePoint now) {
  shared.tell(of(reservation.set), sets_[reservation.set].pool, reservation,
              {.kind = UpstreamWord::Kind::overloaded}, now);
  for_parts(reservation, [&](Quota& quota, const Part&) { quota.overloaded(reservation.taken_at, now); });
}

Budgets::HeldBack Budgets::pause(const Reservation& reservation, const Limited& limited, TimePoint now,
                                 const std::function<bool(std::size_t)>& in_use) {
  // By value: go_apart() may add sets meanwhile.
  const Set set = sets_[reservation.set];
  shared.tell(of(reservation.set), sets_[reservation.set].pool, reservation,
              {.kind = UpstreamWord::Kind::limited,
               .model = std::string(limited.model),
               .client = std::string(limited.client),
               .pause = limited.until - now,
               .shared = limited.shared},
              now);
  // As soon as a call of ours is over its place is free: a pause of all would leave it to others, and
  // refusals come no less often after one. So the job alone waits for the time that the upstream states,
  // except where none of ours is under way.
  const auto await_a_place = [&](const Part& part) {
    if (!limited.waits) return HeldBack::all;
    if (quota_of(part).concurrency().running() > 0) return HeldBack::nobody;
    return pause_part(part, limited, now, in_use);
  };
  const auto limit = [&](const Part& part, auto cut_pace) {
    const bool its_own = quota_of(part).is_its_own(limited.job, limited.is_bare(), reservation.taken_at, now);
    if (its_own) {
      note_change(part.budget, part.account);
      ease(part.budget);
      return HeldBack::nobody;
    }
    if (limited.is_bare() && quota_of(part).has_asked(reservation.taken_at)) return HeldBack::nobody;
    if (limited.by == LimitedBy::slope && budgets_[part.budget].slices == nullptr) {
      note_change(part.budget, part.account);
      quota_of(part).rises_too_fast(reservation.taken_at, now);
      return limited.until - now <= kSoonAgain ? HeldBack::nobody : pause_part(part, limited, now, in_use);
    }
    if (shows_places(part, reservation.taken_at, limited, now)) return await_a_place(part);
    const HeldBack paused = pause_part(part, limited, now, in_use);
    if (!limited.told && is_short(part, limited, now)) cut_pace();
    return paused;
  };
  if (reservation.key != Reservation::kNoKey)
    return limit({.budget = set.pool, .account = key_at(reservation).account},
                 [&] { cut(reservation, now); });
  HeldBack most = HeldBack::nobody;
  bool paced = false;
  for (const std::size_t i : set.budgets) {
    if (!budgets_[i].quota.has_rates()) continue;
    paced = true;
    const HeldBack held = limit({.budget = i}, [&] {
      Quota* const counted = budgets_[i].counted();
      if (counted == nullptr) return;
      note_change(i, kOwnLimits);
      counted->cut(now);
    });
    most = std::max(most, held);
  }
  if (paced) return most;
  for (const std::size_t i : set.budgets)
    if (shows_places({.budget = i}, reservation.taken_at, limited, now))
      most = std::max(most, await_a_place({.budget = i}));
  return most;
}

/// Whether a refusal shows that fewer calls may be under way; else it is about the pace. Where others hold
/// all places, so that none of ours is under way, it is no place that becomes free which we wait for.
bool Budgets::shows_places(const Part& part, TimePoint taken_at, const Limited& limited, TimePoint now) {
  const bool said = limited.by == LimitedBy::concurrency;
  if (budgets_[part.budget].slices != nullptr) return false;  // the bank counts
  Quota& quota = quota_of(part);
  if (!said && (!may_be_places(quota, limited, now) || !is_short(part, limited, now))) return false;
  const bool sure = said || !quota.has_rates();
  if (quota.refused_at_once(taken_at, now, sure) == ConcurrencyLimit::Shown::pace) return false;
  note_change(part.budget, part.account);
  return limited.waits || quota.concurrency().running() > 0;
}

/// Whether a refusal is about all models: the upstream says so, the job or the budget names no other model,
/// or another model was refused as well and none was answered of late.
bool Budgets::pauses_all(const Part& part, const Limited& limited, TimePoint now) const {
  return limited.model.empty() || budgets_[part.budget].options.model == limited.model ||
         (limited.shared && !is_told_apart(part, limited.model, now)) ||
         (quota_of(part).refuses_others(mark_of(limited.model), kOthersWithin, now) &&
          !quota_of(part).answers_others(mark_of(limited.model), kAnsweredLately, now));
}

/// Whether others were answered since the model was last refused, so that what its refusals call the rest of
/// the limit is the rest of a limit of its own.
bool Budgets::is_told_apart(const Part& part, std::string_view model, TimePoint now) const {
  const auto known = apart_by_name_.find(model);
  if (known == apart_by_name_.end()) return false;
  const ModelApart::Pause* const last = apart_[known->second].pause_of(part.budget, part.account);
  return last != nullptr && now - last->until < kOthersWithin &&
         quota_of(part).answers_others_since(mark_of(model), last->began);
}

/// Whether a refusal shows that the part's limits are too high: it is about all models, or no other model was
/// answered of late that could have used up the limit.
bool Budgets::is_short(const Part& part, const Limited& limited, TimePoint now) const {
  return pauses_all(part, limited, now) ||
         !quota_of(part).answers_others(mark_of(limited.model), kOthersWithin, now);
}

/// Pauses all jobs of the part, or those of the model.
Budgets::HeldBack Budgets::pause_part(const Part& part, const Limited& limited, TimePoint now,
                                      const std::function<bool(std::size_t)>& in_use) {
  Budget& budget = budgets_[part.budget];
  Quota& quota = quota_of(part);
  quota.refused(mark_of(limited.model), now);
  if (budget.learnt != nullptr) budget.learnt->heard_at = now;
  const bool all = pauses_all(part, limited, now);
  const bool apart = !limited.model.empty() && budget.options.model != limited.model;
  const std::size_t model = apart ? go_apart(limited.model, limited.client, now, in_use) : kNoModel;
  const TimePoint asked = limited.waits || limited.told ? limited.until : now + quota.bare_pause(now);
  const TimePoint until = all ? asked + kOthersFirst : asked;
  if (all) refused_ones_last(part, until, now);
  if (model != kNoModel) pause_model(model, part, until, now);
  if (all) {
    note_change(part.budget, part.account);
    if (quota.pause(asked, limited.waits, now)) ease(part.budget);
  }
  return all ? HeldBack::all : model != kNoModel ? HeldBack::model : HeldBack::nobody;
}

/// After a pause of all models one that was not refused is tried first: its answer tells them apart.
void Budgets::refused_ones_last(const Part& part, TimePoint until, TimePoint now) {
  for (ModelApart& model : apart_) {
    ModelApart::Pause* const pause = model.pause_of(part.budget, part.account);
    if (pause != nullptr && now - pause->until < kOthersWithin && pause->until < until)
      pause->lengthen(until, now);
  }
}

/// The next probe is for those models first that were not refused, however long the others have waited; and
/// of those that were refused one goes at a time, since what a probe takes all others lack.
void Budgets::refused_ones_probe_last(const Part& part, TimePoint from, TimePoint now) {
  for (ModelApart& model : apart_)
    if (ModelApart::Pause* const pause = model.pause_of(part.budget, part.account);
        pause != nullptr && now < pause->until)
      pause->probe.at = std::max(pause->probe.at, from);
}

std::size_t Budgets::go_apart(std::string_view name, std::string_view client, TimePoint now,
                              const std::function<bool(std::size_t)>& in_use) {
  if (const auto known = apart_by_name_.find(name); known != apart_by_name_.end()) return known->second;
  const auto of_client = std::count_if(apart_.begin(), apart_.end(), [&](const ModelApart& model) {
    return model.client == client && !model.is_over(now);
  });
  if (static_cast<std::size_t>(of_client) >= kModelsApartOfClient) return kNoModel;
  std::size_t place = apart_.size();
  if (place < kModelsApartMax) {
    apart_.emplace_back();
  } else {
    for (place = 0; place < apart_.size() && !(apart_[place].is_over(now) && !in_use(place)); ++place) {
    }
    if (place == apart_.size()) return kNoModel;
    apart_by_name_.erase(apart_[place].name);
  }
  apart_[place] = {.name = std::string(name), .client = std::string(client), .pauses = {}};
  apart_by_name_.emplace(name, place);
  return place;
}

void Budgets::pause_model(std::size_t model, const Part& part, TimePoint until, TimePoint now) {
  ModelApart::Pause* pause = apart_[model].pause_of(part.budget, part.account);
  if (pause == nullptr)
    pause =
        &apart_[model].pauses.emplace_back(ModelApart::Pause{.budget = part.budget, .account = part.account});
  if (pause->until < until) pause->lengthen(until, now);
  note_change(part.budget, kOwnLimits);
}

Budgets::UpstreamPause Budgets::upstream_pause(BudgetSet set, TimePoint now) const {
  UpstreamPause longest;
  const auto look_at = [&](const UpstreamPause& pause) {
    if (pause.until <= now) return;
    const bool other = longest.budget != nullptr && pause.tried != longest.tried;
    if (other ? !pause.tried : pause.until > longest.until) longest = pause;
  };
  for (const std::size_t i : sets_[set].budgets) {
    const Quota& quota = budgets_[i].quota;
    look_at({.budget = &budgets_[i], .until = quota.open_from(), .tried = quota.is_tried(now)});
  }
  if (const Budget* const pool = pool_of(set)) {
    UpstreamPause of_keys{.budget = pool, .until = kNever};
    for (const Key& key : pool->keys) {
      if (key.open_from() == kNever) continue;
      const Quota& account = pool->accounts[key.account].quota;
      of_keys.until = std::min(of_keys.until, std::max(key.open_from(), account.open_from()));
      of_keys.tried = of_keys.tried || account.is_tried(now);
    }
    if (of_keys.until != kNever && keys_rest(set, now).budget == nullptr) look_at(of_keys);
  }
  look_at(model_pause(set, now));
  return longest;
}

Budgets::UpstreamPause Budgets::keys_rest(BudgetSet set, TimePoint now) const {
  const Budget* const pool = pool_of(set);
  if (pool == nullptr || pool->slices != nullptr) return {};
  UpstreamPause rest{.budget = pool, .until = kNever, .no_key = true};
  for (const Key& key : pool->keys) {
    if (key.state == Key::State::active) return {};
    rest.tried = rest.tried || key.tried;
    rest.until = std::min(rest.until, key.open_from());
  }
  if (rest.until == kNever && rest.tried) rest.until = now;
  return rest.until == kNever ? UpstreamPause{} : rest;
}

Budgets::Spending Budgets::spend_key(const Reservation& reservation, bool may_spend, TimePoint now,
                                     std::uint64_t client) {
  const std::vector<Key>& keys = budgets_[sets_[reservation.set].pool].keys;
  Key& key = key_at(reservation);
  Spending spending;
  if (budgets_[sets_[reservation.set].pool].slices != nullptr) {
    shared.tell(of(reservation.set), sets_[reservation.set].pool, reservation,
                {.kind = UpstreamWord::Kind::key_refused, .client_mark = client, .may_spend = may_spend},
                now);
    spending.key_left = std::any_of(keys.begin(), keys.end(), [&](const Key& other) {
      return &other != &key && other.state != Key::State::draining;
    });
    return spending;
  }
  const bool known = key.state == Key::State::spent;
  const bool alone = client != kNoMark && !key.refused.others_within(client, kAnsweredLately, now) &&
                     !(known && key.spent_by != client);
  const bool may_be_why = alone && key.answered.others_within(client, kAnsweredLately, now);
  if (client != kNoMark) key.refused.note(client, now);
  if (known && !alone && reservation.taken_at >= key.since) key.spent_by = kNoMark;
  // One that drains gets no job again, whatever its upstream says.
  const bool spends = key.state != Key::State::draining && reservation.taken_at >= key.since &&
                      (known ? reservation.tries_key : may_spend && !may_be_why);
  if (spends) {
    key.state = Key::State::spent;
    ++key.refusals;
    key.spent_by = alone ? client : kNoMark;
    spending.rest = key.rest();
    key.rests_until = now + spending.rest;
    note_change(sets_[reservation.set].pool, kOwnLimits);
    spending.news = true;
    ease(sets_[reservation.set].pool);  // jobs that wait for this key's account may have another one
  }
  spending.key_left = std::any_of(keys.begin(), keys.end(), [&](const Key& other) {
    return &other != &key && other.state == Key::State::active;
  });
  return spending;
}

void Budgets::try_keys_for(BudgetSet set, std::uint64_t client, TimePoint now) {
  if (keys_rest(set, now).budget == nullptr) return;
  Budget* const pool = pool_of(set);
  for (Key& key : pool->keys) {
    if (key.state != Key::State::spent || key.tried || key.rests_until <= now) continue;
    if (key.spent_by == kNoMark || key.spent_by == client) continue;
    key.rests_until = now;
    ease(sets_[set].pool);
  }
}

bool Budgets::take_key(const Reservation& reservation, bool answered, TimePoint now, std::uint64_t client) {
  if (reservation.key == Reservation::kNoKey) return false;
  if (const std::size_t pool = sets_[reservation.set].pool; budgets_[pool].slices != nullptr) {
    if (answered || reservation.tries_key)
      shared.tell_of_key(pool, reservation,
                         {.kind = UpstreamWord::Kind::key_taken, .client_mark = client, .answered = answered},
                         now);
    return false;
  }
  Key& key = key_at(reservation);
  if (answered && client != kNoMark) key.answered.note(client, now);
  if (key.refusals == 0 || reservation.taken_at < key.since) return false;
  const bool back = key.state == Key::State::spent && reservation.tries_key;
  if (back) key.state = Key::State::active;
  // A key that its account's upstream refuses now and then rests longer each time, until a call is answered.
  if (answered && key.state == Key::State::active) key.refusals = 0;
  note_change(sets_[reservation.set].pool, kOwnLimits);
  if (back) ease(sets_[reservation.set].pool);
  return back;
}

void Budgets::change_limits(const BudgetOptions& options, TimePoint now) {
  for (Budget& budget : budgets_) {
    if (budget.options.name != options.name) continue;
    budget.options = options;
    budget.quota.configure(options.rates, options.concurrency, options.window, now);
    for (const KeyOptions& wanted : options.keys)
      for (const Key& key : budget.keys)
        if (key.name == wanted.name)
          budget.accounts[key.account].quota.configure(wanted.rates, wanted.concurrency, options.window, now);
  }
  shared.configure(now);
  for (Set& set : sets_)
    describe(set);
  save_all();
}

bool Budgets::lift(std::size_t place, TimePoint now) {
  bool any = false;
  const auto lift = [&](Quota& quota, std::size_t account) {
    if (!quota.lift(now)) return;
    note_change(place, account);
    any = true;
  };
  Budget& budget = budgets_[place];
  lift(budget.quota, kOwnLimits);
  for (std::size_t model = 0; model < apart_.size(); ++model)
    for (ModelApart::Pause& pause : apart_[model].pauses) {
      if (pause.budget != place || std::max(pause.until, pause.held_until) <= now) continue;
      any = pause.lift(now) || any;
      note_change(place, kOwnLimits);
      eased_.push_back(line_of(model));
    }
  for (std::size_t account = 0; account < budget.accounts.size(); ++account)
    lift(budget.accounts[account].quota, account);
  if (budget.offline) lift(*budget.offline, kOwnLimits);
  if (budget.slices != nullptr) {
    // What other shards have heard is known to the bank alone.
    budget.slices->hear({.kind = UpstreamWord::Kind::forgotten}, now, now);
    any = true;
  }
  if (any) ease(place);
  return any;
}

bool Budgets::can_lift(std::size_t place, TimePoint now) {
  Budget& budget = budgets_[place];
  return budget.slices != nullptr || budget.quota.can_lift(now) || !paused_models(place, now).empty() ||
         std::any_of(budget.accounts.begin(), budget.accounts.end(),
                     [&](Account& account) { return account.quota.can_lift(now); });
}

void Budgets::configure(const std::vector<BudgetOptions>& options, TimePoint now) {
  for (Budget& budget : budgets_) {
    const auto place = std::find_if(options.begin(), options.end(), [&](const BudgetOptions& other) {
      return other.name == budget.options.name;
    });
    if (place == options.end()) continue;
    budget.quota.configure(place->rates, place->concurrency, budget.options.window, now);
    budget.options.rates = place->rates;
    budget.options.concurrency = place->concurrency;
    budget.options.keys = place->keys;
    for (Key& key : budget.keys)
      key.state = Key::State::draining;
    for (const KeyOptions& wanted : place->keys) {
      const auto known = std::find_if(budget.keys.begin(), budget.keys.end(),
                                      [&](const Key& key) { return key.name == wanted.name; });
      if (known == budget.keys.end()) {
        budget.add_key(wanted);
        continue;
      }
      known->weight = wanted.weight;
      known->begin(wanted.draining, now);
      budget.accounts[known->account].quota.configure(wanted.rates, wanted.concurrency, budget.options.window,
                                                      now);
    }
  }
  shared.configure(now);
  shared.tell_keys_configured(now);
  for (Set& set : sets_)
    describe(set);
  save_all();
}

std::string cannot_configure(const Budgets& budgets, const std::vector<BudgetOptions>& options) {
  for (const Budget& budget : budgets.all()) {
    const auto wanted = std::find_if(options.begin(), options.end(), [&](const BudgetOptions& other) {
      return other.name == budget.options.name;
    });
    if (wanted == options.end()) continue;
    const BudgetOptions in_place = with_keys_in_place(budget, *wanted);
    std::string why;
    if (budget.slices != nullptr)
      why = Bank::cannot_share(in_place);
    else if (in_place.keys.size() > Budgets::kKeysSinceStartMax)
      why = "budget \"" + wanted->name + "\" has " + std::to_string(in_place.keys.size()) +
            " keys; there may be " + std::to_string(Budgets::kKeysSinceStartMax);
    if (!why.empty())
      return why +
             ". Keys that were taken out since the broker's start count until it is restarted: restart it";
  }
  return {};
}

}  // namespace lanemq::core
