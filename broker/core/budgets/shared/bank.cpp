// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/shared/bank.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <span>
#include <string_view>

#include "broker/core/base/check.hpp"
#include "broker/core/budgets/shared/place_shares.hpp"

namespace lanemq::core {
namespace {

/// Parts of a cost in which turns are counted, so that weights divide it; the most that one grant moves a
/// turn.
constexpr std::int64_t kTurnParts = 1 << 20, kCostMax = std::int64_t{1} << 40;
/// A shard may be ahead of its turn by what all shards get in so many slices' time: draws do not come evenly.
constexpr std::int64_t kTurnsAhead = 4;
/// A strict window's burst is at least what refills in so many slices' time: draws come in bunches.
constexpr std::int64_t kBurstSlices = 2;
constexpr Duration kRetryMin = std::chrono::milliseconds(1), kRetryMax = kWantKept / 2;
/// Calls for which one word may stand.
constexpr std::int64_t kCallsMax = 10'000;
constexpr std::int64_t kForEver = std::numeric_limits<std::int64_t>::max();

std::int64_t refilled_in_slice(const RateOptions& rate) {
  return static_cast<std::int64_t>(
      (static_cast<Int128>(rate.limit) * kSliceTime.count() + rate.period.count() - 1) / rate.period.count());
}

/// By the tightest of them; kForEver: none counts it.
std::int64_t refilled_in_slice(const std::vector<RateOptions>& rates, Resource resource) {
  std::int64_t least = kForEver;
  for (const RateOptions& rate : rates)
    if (rate.resource == resource) least = std::min(least, refilled_in_slice(rate));
  return least;
}

/// The same for all accounts of the keys together.
std::int64_t refilled_in_slice(const std::vector<KeyOptions>& keys, Resource resource) {
  std::int64_t all = 0;
  std::set<std::string_view> accounts;
  for (const KeyOptions& key : keys) {
    const std::int64_t of_key = refilled_in_slice(key.rates, resource);
    if (of_key == kForEver) return kForEver;
    if (accounts.insert(key.account()).second) all = std::min(all + of_key, kCostMax);
  }
  return keys.empty() ? kForEver : all;
}

std::int64_t burst_of(const RateOptions& rate) {
  return rate.capacity > 0 ? rate.capacity : std::max<std::int64_t>(rate.limit / 10, 1);
}

/// The part of a limit that the bank grants: at least 1, since 0 is none.
std::int64_t granted(std::int64_t limit, int offline_share) {
  return std::max<std::int64_t>(
      static_cast<std::int64_t>(static_cast<Int128>(limit) * (1000 - offline_share) / 1000), 1);
}

void fit_rate(RateOptions& rate, WindowKind window, int offline_share) {
  const std::int64_t burst = granted(burst_of(rate), offline_share);
  if (window == WindowKind::bucket)
    rate.capacity = std::max<std::int64_t>(burst - refilled_in_slice(rate), 1);
  else
    rate.capacity = std::max(burst, kBurstSlices * refilled_in_slice(rate));
  rate.limit = granted(rate.limit, offline_share);
}

/// The budget as the bank counts it: it matches all that is drawn.
BudgetOptions fitted(const BudgetOptions& options, int offline_share) {
  BudgetOptions fit = options;
  fit.service = fit.client = fit.lane = fit.tenant = {};
  if (fit.model.find_first_of("*?[") != std::string::npos) fit.model = {};
  for (RateOptions& rate : fit.rates)
    fit_rate(rate, fit.window, offline_share);
  if (fit.concurrency > 0) fit.concurrency = granted(fit.concurrency, offline_share);
  for (KeyOptions& key : fit.keys)
    for (RateOptions& rate : key.rates)
      fit_rate(rate, fit.window, offline_share);
  return fit;
}

std::int64_t divided_up(std::int64_t value, std::int64_t by) {
  return (value + by - 1) / by;
}

/// The amounts that each waiting job but the first wants.
Amounts usual_job(const LaneWant& want) {
  const std::int64_t others = want.jobs - 1;
  if (others <= 0) return want.head;
  const auto share = [&](std::int64_t all, std::int64_t head) {
    return divided_up(std::max<std::int64_t>(all - head, 0), others);
  };
  return {.requests = std::max<std::int64_t>(share(want.all.requests, want.head.requests), 1),
          .input_tokens = share(want.all.input_tokens, want.head.input_tokens),
          .output_tokens = share(want.all.output_tokens, want.head.output_tokens)};
}

Amounts times(const Amounts& amounts, std::int64_t jobs) {
  return {.requests = amounts.requests * jobs,
          .input_tokens = amounts.input_tokens * jobs,
          .output_tokens = amounts.output_tokens * jobs};
}

/// Bounds what a shard says, so that sums of it stay in 64 bits.
LaneWant bounded(LaneWant want) {
  want.jobs = std::clamp<std::int64_t>(want.jobs, 0, 1'000'000'000);
  for (Amounts* amounts : {&want.head, &want.all})
    for (std::int64_t* amount : {&amounts->requests, &amounts->input_tokens, &amounts->output_tokens})
      *amount = std::clamp<std::int64_t>(*amount, 0, kCostMax);
  want.clients = std::clamp<std::uint32_t>(want.clients, 1, 1 << 16);
  want.hold = std::clamp(want.hold, 0, 1000);
  return want;
}

/// The claim of the lane's next job, whatever places there are.
Claim claim_of(const LaneWant& want) {
  return {.amounts = want.head,
          .hold = want.hold,
          .key_refused = want.refused.any,
          .refused_key = want.refused.key};
}

std::uint16_t account_of(const Budget& budget, const Reservation& reservation) {
  return reservation.key == Claim::kNoKey ? kOfBudget
                                          : static_cast<std::uint16_t>(budget.keys[reservation.key].account);
}

/// Whether one job finds out if the upstream takes calls again.
bool is_trial(const Budget& budget, const Reservation& reservation, TimePoint now) {
  if (reservation.tries_key || now < budget.quota.paused_until()) return true;
  const std::uint16_t account = account_of(budget, reservation);
  return account != kOfBudget && now < budget.accounts[account].quota.paused_until();
}

/// Nobody waits longer for a trial of which nothing was heard.
void end_trials(std::vector<Key>& keys, TimePoint now) {
  for (Key& key : keys)
    key.tried = key.tried && now < key.rests_until;
}

/// So many keys, those of the drawing shard, were configured then, as one broker's are by a reload.
void begin_keys(std::vector<Key>& keys, std::span<const KeyOptions> configured, TimePoint at) {
  for (std::size_t i = 0; i < configured.size(); ++i)
    keys[i].begin(configured[i].draining, at);
}

}  // namespace

std::unique_ptr<Budgets> Bank::budgets_of(const BudgetOptions& options, int offline_share) {
  return std::make_unique<Budgets>(std::vector<BudgetOptions>{fitted(options, offline_share)});
}

Bank::Bank(const BudgetOptions& options, int offline_share)
    : options_(options), budgets_(budgets_of(options, offline_share)), offline_share_(offline_share) {
  LANEMQ_CHECK(offline_share >= 0 && offline_share < 1000 && cannot_share(options).empty());
  set_ = budgets_->match({}, budget().options.model, {}, {});
  const std::vector<KeyOptions>& keys = budget().options.keys;
  const auto find_cost = [this](const std::vector<RateOptions>& rates) {
    for (const RateOptions& rate : rates)
      if (rate.resource != Resource::requests) cost_ = rate.resource;
  };
  find_cost(budget().options.rates);
  for (const KeyOptions& key : keys)
    find_cost(key.rates);
  const std::int64_t least =
      std::min(refilled_in_slice(budget().options.rates, cost_), refilled_in_slice(keys, cost_));
  cost_in_slice_time_ = least == kForEver ? 1 : std::max<std::int64_t>(least, 1);
}

std::string Bank::cannot_share(const BudgetOptions& options) {
  if (options.keys.size() > kKeysMax)
    return "budget \"" + options.name + "\" has " + std::to_string(options.keys.size()) +
           " keys; a budget that shards share has at most " + std::to_string(kKeysMax);
  std::vector<RateOptions> rates = options.rates;
  for (const KeyOptions& key : options.keys)
    rates.insert(rates.end(), key.rates.begin(), key.rates.end());
  if (rates.size() > kLimitsMax)
    return "budget \"" + options.name + "\" has " + std::to_string(rates.size()) +
           " limits with those of its keys; a budget that shards share has at most " +
           std::to_string(kLimitsMax);
  for (const RateOptions& rate : rates)
    if (options.window == WindowKind::bucket && burst_of(rate) <= refilled_in_slice(rate))
      return "budget \"" + options.name + "\": the burst of " + rate.name +
             " is no more than what refills in half a second, so shards cannot share it; use window = "
             "\"sliding\", or a larger capacity";
  return {};
}

/// Calls `change` with each limit that counts what has the key.
template <class Change>
void Bank::for_rates(std::uint16_t key, Change change) {
  Budget& budget = budgets_->all().front();
  for (RateLimit& rate : budget.quota.rates())
    change(rate);
  if (key >= budget.keys.size()) return;
  for (RateLimit& rate : budget.accounts[budget.keys[key].account].quota.rates())
    change(rate);
}

/// Calls `visit` with the name and LaneState of each shard that waits in the lane.
template <class Visit>
void Bank::for_waiting(std::size_t lane, Duration kept, Visit visit) const {
  for (const auto& [name, shard] : shards_) {
    const auto state = shard.lanes.find(lane);
    if (state == shard.lanes.end() || state->second.want.jobs == 0) continue;
    if (time_.at - state->second.at < kept) visit(name, state->second);
  }
}

/// Counts what was counted at `from` at `to`.
void Bank::recount(std::uint16_t key, const Counts& amounts, TimePoint from, TimePoint to) {
  for_rates(key, [&](RateLimit& rate) {
    const std::int64_t amount = amounts.of(rate.resource());
    if (amount <= 0) return;
    // In this order the burst is as it was.
    rate.take_late(amount, to, time_.at);
    rate.give(amount, from, time_.at);
  });
}

void Bank::end_slices() {
  for (auto at = ledger_.begin(); at != ledger_.end();) {
    Entry& entry = at->second;
    if (!entry.over && time_.at >= entry.granted_at + kSliceTime) {
      recount(entry.key, entry.amounts, entry.granted_at, entry.granted_at + kSliceTime);
      entry.over = true;
    }
    at = time_.at >= entry.granted_at + kReportTaken ? ledger_.erase(at) : std::next(at);
  }
}

void Bank::take_slice(const SliceReport& report, const std::string& shard) {
  const auto at = ledger_.find(report.slice);
  if (at == ledger_.end() || at->second.shard != shard) return;
  const Entry& entry = at->second;
  for (const SliceUse& use : report.uses) {
    // Not later than now: the report was said after the use.
    const TimePoint used_at = std::min(
        {entry.granted_at + std::max(use.age, Duration(0)), entry.granted_at + kSliceTime, time_.at});
    for_rates(entry.key, [&](RateLimit& rate) {
      if (const std::int64_t used = use.used.of(rate.resource()); used > 0)
        rate.take_late(used, used_at, time_.at);
    });
  }
  for_rates(entry.key, [&](RateLimit& rate) {
    if (const std::int64_t amount = entry.amounts.of(rate.resource()); amount > 0)
      rate.give(amount, entry.counted_at(), time_.at);
  });
  ledger_.erase(at);
}

/// For what the upstream says that remained when it took the call in.
void Bank::recall_rooms(const UpstreamWord& word, TimePoint called_at) {
  for (const LimitRooms& said : word.rooms) {
    std::vector<RateLimit>* rates = &budgets_->all().front().quota.rates();
    if (said.account != kOfBudget) {
      if (word.key >= budget().keys.size() || budget().keys[word.key].account != said.account) continue;
      rates = &budgets_->all().front().accounts[said.account].quota.rates();
    }
    for (std::size_t i = 0; i < std::min(rates->size(), said.rooms.size()); ++i)
      (*rates)[i].recall_room(said.rooms[i], called_at);
  }
}

std::vector<LimitRooms> Bank::rooms() {
  std::vector<LimitRooms> all;
  const auto add = [&](Quota& quota, std::uint16_t account) {
    if (quota.rates().empty()) return;
    all.push_back({.account = account, .rooms = {}});
    for (RateLimit& rate : quota.rates())
      all.back().rooms.push_back(rate.room(time_.at));
  };
  Budget& budget = budgets_->all().front();
  add(budget.quota, kOfBudget);
  for (std::size_t i = 0; i < budget.accounts.size(); ++i)
    add(budget.accounts[i].quota, static_cast<std::uint16_t>(i));
  return all;
}

/// `on_its_way`: since the shard asked for the draw; none: not known.
void Bank::take_word(const UpstreamWord& word, const std::optional<Duration>& on_its_way) {
  if (word.kind == UpstreamWord::Kind::forgotten) {
    budgets_->lift(0, time_.at);
    issued_.grants_from = {};  // not places_from: what runs at other shards does not end for that
    for (auto& [name, shard] : shards_)
      if (shard.is_silent(time_.at)) shard.places.clear();
    return;
  }
  if (word.kind == UpstreamWord::Kind::keys_configured)
    return begin_keys(budgets_->all().front().keys,
                      std::span(options_.keys).first(options_.keys.size() - known_at_.size()),
                      time_.at - std::clamp(word.waited, Duration(0), kUpstreamPauseMax));
  const std::size_t keys = budget().keys.size();
  if (keys > 0 ? word.key >= keys : word.key != Claim::kNoKey) return;
  const Reservation call{.set = set_,
                         .tries_key = word.tries_key,
                         .key = word.key,
                         .taken_at = time_.at - std::clamp(word.age, Duration(0), kUpstreamPauseMax)};
  if (word.limits) {
    wire::UpstreamLimits limits = *word.limits;
    limits.limit_concurrency.reset();  // the bank sees draws, and not which calls run at once
    if (on_its_way && word.waited + *on_its_way <= kRoomHolds) {
      recall_rooms(word, call.taken_at);
    } else {
      limits.remaining_requests = limits.remaining_tokens = std::nullopt;
      limits.remaining_input_tokens = limits.remaining_output_tokens = std::nullopt;
    }
    for (auto* limit : {&limits.limit_requests, &limits.limit_tokens, &limits.limit_input_tokens,
                        &limits.limit_output_tokens})
      if (*limit) *limit = std::clamp<std::int64_t>(**limit, 1, kCostMax) * (1000 - offline_share_) / 1000;
    budgets_->learn(call, limits, time_.at,
                    word.kind == UpstreamWord::Kind::limited ? word.model : std::string_view{});
  }
  const bool of_key =
      word.kind == UpstreamWord::Kind::key_taken || word.kind == UpstreamWord::Kind::key_refused;
  if (of_key && word.tries_key && word.key != Claim::kNoKey)
    budgets_->all().front().keys[word.key].tried = false;
  switch (word.kind) {
    case UpstreamWord::Kind::answered:
      budgets_->succeeded(call, word.model_mark, time_.at,
                          std::clamp<std::int64_t>(word.calls, 1, kCallsMax));
      budgets_->model_answered(word.model_mark, call.taken_at, time_.at);
      break;
    case UpstreamWord::Kind::key_taken:
      budgets_->take_key(call, word.answered, time_.at, word.client_mark);
      break;
    case UpstreamWord::Kind::limited:
      budgets_->pause(call,
                      {.model = word.model,
                       .client = word.client,
                       .until = time_.at + std::clamp(word.pause, Duration(0), kUpstreamPauseMax),
                       .shared = word.shared,
                       .told = word.limits.has_value(),
                       .by = LimitedBy::rate,
                       .waits = true},
                      time_.at, [](std::size_t) { return false; });
      break;
    case UpstreamWord::Kind::overloaded:
      budgets_->overloaded(call, time_.at);
      break;
    case UpstreamWord::Kind::key_refused:
      if (word.key != Claim::kNoKey) budgets_->spend_key(call, word.may_spend, time_.at, word.client_mark);
      break;
    case UpstreamWord::Kind::keys_configured:
    case UpstreamWord::Kind::forgotten:
      break;
  }
}

void Bank::take_report(const Draw& draw) {
  const Report& report = draw.report;
  const std::string& shard = draw.shard;
  for (const SliceReport& slice : report.slices)
    take_slice(slice, shard);
  for (auto at = ledger_.begin(); at != ledger_.end();) {
    const Entry& entry = at->second;
    const bool unused = entry.shard == shard && std::find(report.disclaimed.begin(), report.disclaimed.end(),
                                                          entry.draw) != report.disclaimed.end();
    if (unused)
      for_rates(entry.key, [&](RateLimit& rate) {
        rate.give(entry.amounts.of(rate.resource()), entry.counted_at(), time_.at);
      });
    at = unused ? ledger_.erase(at) : std::next(at);
  }
  for (const Correction& correction : report.corrections)
    for_rates(correction.key, [&](RateLimit& rate) {
      const std::int64_t more = correction.more.of(rate.resource());
      if (more > 0) rate.take_late(more, std::min(correction.at, time_.at), time_.at);
      if (more < 0) rate.give(-more, std::min(correction.at, time_.at), time_.at);
    });
  std::optional<Duration> on_its_way;
  if (draw.saw && report.number == draw.number)  // else it was said before
    on_its_way = std::max(time_.at - *draw.saw, Duration(0));
  for (const UpstreamWord& word : report.words)
    take_word(word, on_its_way);
}

/// True if there is room for one more shard.
bool Bank::make_room_for_shard() {
  if (shards_.size() < kShardsMax) return true;
  const auto idle = std::find_if(shards_.begin(), shards_.end(), [&](const Shards::value_type& one) {
    const bool holds = std::any_of(one.second.places.begin(), one.second.places.end(),
                                   [](const auto& places) { return places.second.wants.held > 0; }) ||
                       std::any_of(ledger_.begin(), ledger_.end(),
                                   [&](const auto& slice) { return slice.second.shard == one.first; });
    return !holds && one.second.is_silent(time_.at);
  });
  if (idle == shards_.end()) return false;
  shards_.erase(idle);
  return true;
}

/// The shard that draws; null: it may not, and `drawn` says why.
Bank::Shard* Bank::find_shard(const Draw& draw, Drawn& drawn) {
  // Shards that are gone for good are erased, or their holdings would stay unused for ever.
  std::erase_if(shards_, [&](const Shards::value_type& one) {
    return one.second.is_silent(time_.at) && one.first != draw.shard &&
           std::find(draw.shards.begin(), draw.shards.end(), one.first) == draw.shards.end();
  });
  auto at = shards_.find(draw.shard);
  if (at == shards_.end()) {
    LANEMQ_CHECK(draw.shard.size() <= kShardNameMax);
    if (!make_room_for_shard()) {
      drawn.outcome = Drawn::Outcome::full;
      return nullptr;
    }
    at = shards_.emplace(draw.shard, Shard{.epoch = draw.epoch}).first;
  }
  Shard& shard = at->second;
  if (draw.epoch < shard.epoch) {
    drawn.outcome = Drawn::Outcome::superseded;
    drawn.epoch = shard.epoch;
    return nullptr;
  }
  if (draw.epoch > shard.epoch) {
    // The owner before is gone. Its slices count to their end, its places are the shard's.
    shard.epoch = draw.epoch;
    shard.draw = shard.report = 0;
    // Its draws had the numbers that are used again now, and the use of their slices is unknown.
    for (auto& [number, entry] : ledger_)
      if (entry.shard == draw.shard) entry.draw = kOfEarlierOwner;
  }
  if (draw.number <= shard.draw) {
    drawn.outcome = Drawn::Outcome::stale;
    return nullptr;
  }
  return &shard;
}

void Bank::note_wants(Shard& shard, const std::vector<LaneWant>& wants) {
  for (std::size_t i = 0; i < std::min(wants.size(), kWantsMax); ++i) {
    LaneWant want = bounded(wants[i]);
    if (want.refused.key >= budget().keys.size()) want.refused.key = Claim::kNoKey;
    if (want.lane >= kWantsMax) continue;
    LaneState& state = shard.lanes[want.lane];
    const bool waited = state.want.jobs > 0 && time_.at - state.at < kWantKept;
    if (want.jobs > 0 && !waited) {
      // A lane that did not wait has saved up nothing.
      std::int64_t least = kForEver;
      for_waiting(want.lane, kTurnKept,
                  [&](const std::string&, const LaneState& other) { least = std::min(least, other.turn); });
      if (least != kForEver) state.turn = std::max(state.turn, least);
    }
    state.want = want;
    state.at = time_.at;
  }
}

/// Whether some shard waits in a higher lane.
bool Bank::waits_above(std::size_t lane) const {
  bool waits = false;
  for (std::size_t above = 0; above < lane; ++above)
    for_waiting(above, kWantKept, [&](const std::string&, const LaneState&) { waits = true; });
  return waits;
}

/// The cost that the shard may take of the lane before it is the turn of others. The shard served least for
/// its weight may take more than that at once.
std::int64_t Bank::turn_left(const Shard& shard, std::size_t lane) const {
  const LaneState& own = shard.lanes.at(lane);
  std::int64_t weights = 0, least = kForEver;
  for_waiting(lane, kTurnKept, [&](const std::string&, const LaneState& state) {
    weights += state.want.clients;
    if (&state != &own) least = std::min(least, state.turn);
  });
  if (least == kForEver) return kCostMax;
  // Two jobs more, so that few large ones need not wait for the slowest link of all.
  const Int128 left = static_cast<Int128>(least) - own.turn;
  const Int128 parts =
      left * own.want.clients +
      static_cast<Int128>(kTurnsAhead * cost_in_slice_time_) * kTurnParts * own.want.clients / weights +
      static_cast<Int128>(2 * std::min(cost_of(own.want.head), kCostMax)) * kTurnParts;
  const std::int64_t cost = static_cast<std::int64_t>(std::clamp<Int128>(parts / kTurnParts, 0, kCostMax));
  return left >= 0 ? std::max(cost, cost_of(own.want.head)) : cost;
}

/// How many jobs more than the first one the slice is for.
std::int64_t Bank::extra_jobs(const Reservation& reservation, const LaneWant& want, const Bounds& most) {
  if (is_trial(budget(), reservation, time_.at)) return 0;
  const Amounts job = usual_job(want);
  std::int64_t jobs = std::min(want.jobs, most.jobs) - 1;
  if (const std::int64_t cost = cost_of(job); cost > 0)
    jobs = std::min(jobs, std::max<std::int64_t>(most.cost - cost_of(want.head), 0) / cost);
  for_rates(reservation.key, [&](RateLimit& rate) {
    const std::int64_t of_job = job.of(rate.resource());
    const std::int64_t room = rate.available(time_.at) - rate.held(want.hold);
    if (of_job > 0) jobs = std::min(jobs, std::max<std::int64_t>(room, 0) / of_job);
  });
  return jobs;
}

/// Requires: nothing stands in the way of the first job, whose claim it is.
Bank::Granted Bank::grant(const std::string& name, Shard& shard, LaneState& state, const Claim& claim,
                          std::int64_t cost_max, PlacesLeft& places) {
  const LaneWant want = state.want;
  Reservation reservation = budgets_->reserve(set_, claim, time_.at);
  const std::uint16_t account = account_of(budget(), reservation);
  const std::int64_t most = places.most(account, want.jobs);
  const std::int64_t extra = extra_jobs(reservation, want, {.cost = cost_max, .jobs = most});
  const bool bounded = 1 + extra == most && !is_trial(budget(), reservation, time_.at);
  places.take(account, 1 + extra);
  const Amounts more = times(usual_job(want), extra);
  Budget& budget = budgets_->all().front();
  if (extra > 0) {
    const auto take = [&](Quota& quota) {
      quota.take({.amounts = more, .hold = want.hold}, time_.at);
      quota.settle(more, nullptr, time_.at, time_.at);
    };
    take(budget.quota);
    if (reservation.key != Claim::kNoKey) {
      take(budget.accounts[budget.keys[reservation.key].account].quota);
      budget.keys[reservation.key].given += static_cast<std::uint64_t>(extra);
    }
  }
  // Places are counted by shard: give_places().
  budgets_->settle(reservation, std::nullopt, time_.at);
  if (reservation.tries_key) {
    budget.keys[reservation.key].rests_until = time_.at + kTrialTime;
    budget.keys[reservation.key].tried = true;
  }

  Slice slice{.number = issued_.next_slice++,
              .lane = want.lane,
              .key = reservation.key,
              .tries_key = reservation.tries_key,
              .amounts = Counts(want.head)};
  if (extra > 0) slice.amounts += Counts(more);
  ledger_.emplace(slice.number, Entry{.shard = name,
                                      .draw = shard.draw,
                                      .key = slice.key,
                                      .granted_at = time_.at,
                                      .amounts = slice.amounts});
  const std::int64_t cost = std::min(slice.amounts.of(cost_), kCostMax);
  state.turn += static_cast<std::int64_t>(static_cast<Int128>(cost) * kTurnParts / want.clients);
  state.want.jobs -= 1 + extra;
  state.want.all = sum_of(want.all, times(sum_of(want.head, more), -1));
  state.want.head = usual_job(want);
  state.want.refused = {};
  state.want.client_mark = kNoMark;
  return {.slice = slice, .bounded = bounded};
}

/// Says why the job that is next does not go, and when it may.
void Bank::explain(const Claim& claim, LaneAnswer& answer) {
  const Obstacle obstacle = budgets_->obstacle_of(set_, 0, claim, time_.at);
  answer.refusal = obstacle.no_key   ? DrawRefusal::no_key
                   : obstacle.paused ? DrawRefusal::paused
                                     : DrawRefusal::room;
  answer.limit = obstacle.name();
  if (obstacle && obstacle.until != kNever)
    answer.retry_after = std::clamp(obstacle.until - time_.at, kRetryMin, kRetryMax);
}

LaneAnswer Bank::serve(const std::string& name, Shard& shard, std::size_t lane, PlacesLeft& places,
                       Drawn& drawn) {
  LaneState& state = shard.lanes.at(lane);
  LaneAnswer answer{.lane = lane, .retry_after = kSliceTime};
  if (issued_.has_lost(time_.at)) {
    answer.refusal = DrawRefusal::lost_draws;
    return answer;
  }
  if (waits_above(lane)) {
    answer.refusal = DrawRefusal::lanes_above;
    return answer;
  }
  // A job that can never be had keeps nobody waiting.
  if (budgets_->unsatisfiable(set_, state.want.head)) {
    explain(claim_of(state.want), answer);
    state.want.jobs = 0;
    return answer;
  }
  const auto of_shard = std::count_if(ledger_.begin(), ledger_.end(),
                                      [&](const auto& entry) { return entry.second.shard == name; });
  if (ledger_.size() >= kSlicesMax || static_cast<std::size_t>(of_shard) >= kSlicesOfShardMax) {
    answer.refusal = DrawRefusal::too_many;
    state.want.jobs = 0;
    return answer;
  }
  // A job that waits for places of this shard alone keeps no lower lane of another shard back.
  if (!places.any()) {
    answer.refusal = DrawRefusal::places;
    state.want.jobs = 0;
    return answer;
  }
  const std::int64_t cost_max = turn_left(shard, lane);
  if (cost_max < std::min(cost_of(state.want.head), kCostMax)) {
    answer.refusal = DrawRefusal::others_turn;
    answer.retry_after = kSliceTime / 5;
    return answer;
  }
  if (state.want.client_mark != kNoMark) budgets_->try_keys_for(set_, state.want.client_mark, time_.at);
  const Claim claim = places.apart(claim_of(state.want), *budgets_, set_, time_.at);
  if (const Obstacle obstacle = budgets_->obstacle(set_, claim, time_.at)) {
    if (obstacle.no_key && !budgets_->obstacle(set_, claim_of(state.want), time_.at).no_key) {
      answer.refusal = DrawRefusal::places;
      state.want.jobs = 0;
      return answer;
    }
    explain(claim, answer);
    // A job that waits for a key other than all the rest may have keeps no lower lane back.
    Claim any_key = claim;
    any_key.refused_key = Claim::kNoKey;
    if (claim.refused_key != Claim::kNoKey && !budgets_->obstacle(set_, any_key, time_.at))
      state.want.jobs = 0;
    return answer;
  }
  const Granted granted = grant(name, shard, state, claim, cost_max, places);
  drawn.slices.push_back(granted.slice);
  if (state.want.jobs == 0) return answer;
  if (granted.bounded) return serve(name, shard, lane, places, drawn);
  const Claim next = places.apart(claim_of(state.want), *budgets_, set_, time_.at);
  if (budgets_->obstacle(set_, next, time_.at))
    explain(next, answer);
  else
    answer.refusal = DrawRefusal::others_turn;
  return answer;
}

/// Gives the shard its share of the places (share_places()): who holds more than that hands no job over until
/// enough have ended.
PlacesGranted Bank::give_places(Shard& shard, std::uint16_t account) {
  PlacesState& own = shard.places.at(account);
  const Quota* quota = &budget().quota;
  if (account != kOfBudget) quota = &budget().accounts[account].quota;
  const std::int64_t limit = quota->concurrency().configured() > 0 ? quota->concurrency().limit() : kCostMax;
  std::vector<PlaceSharer> sharers;
  std::int64_t held = 0;
  std::size_t place = 0;
  for (const auto& [name, of] : shards_) {
    const auto places = of.places.find(account);
    if (places == of.places.end()) continue;
    const PlacesWanted& wants = places->second.wants;
    const bool waits = time_.at - places->second.at < kWantKept;
    held += wants.held;
    if (&of == &shard) place = sharers.size();
    sharers.push_back({.wants = wants.held + (waits ? wants.wanted : 0),
                       .clients = wants.clients,
                       .held = wants.held,
                       .since = places->second.since});
  }
  share_places(limit, sharers);
  const std::int64_t share = sharers[place].share;
  const bool waits = time_.at < issued_.places_from;
  const std::int64_t free = waits ? 0 : std::max<std::int64_t>(limit - held - sharers[place].before, 0);
  const std::int64_t more =
      std::clamp<std::int64_t>(share - own.wants.held, 0, std::min(own.wants.wanted, free));
  if (more > 0 && own.wants.held == 0) own.since = time_.at;
  own.wants.held += more;
  own.wants.wanted -= more;
  // More are held than there are where a new owner counts calls that the one before it had said were over,
  // and where a limit was lowered: what gets free is nobody's until all fit again.
  const std::int64_t over = std::clamp<std::int64_t>(held + more - limit, 0, own.wants.held);
  return {.account = account, .places = own.wants.held, .allowed = std::min(share, own.wants.held - over)};
}

/// Counts turns from the least one on, so that they stay small.
void Bank::lower_turns(std::size_t lane) {
  std::int64_t least = kForEver;
  for_waiting(lane, kTurnKept,
              [&](const std::string&, const LaneState& state) { least = std::min(least, state.turn); });
  for (auto& [name, shard] : shards_)
    if (const auto state = shard.lanes.find(lane); state != shard.lanes.end())
      state->second.turn = std::max<std::int64_t>(state->second.turn - least, 0);
}

Drawn Bank::draw(const Draw& draw, const BankClock& clock) {
  Drawn drawn{.number = draw.number};
  time_.tell(clock, draw);
  drawn.at = time_.at;
  drawn.clock_changes = time_.clock_changes;
  if (issued_.count(draw, time_.at, options_))
    for (auto& [name, of] : shards_)
      of.heard = false;
  drawn.draws = issued_.draws;
  end_slices();
  end_trials(budgets_->all().front().keys, time_.at);
  Shard* const shard = find_shard(draw, drawn);
  if (shard == nullptr) return drawn;
  shard->draw = draw.number;
  shard->drawn_at = time_.at;
  shard->heard = true;
  const bool all_heard = std::all_of(draw.shards.begin(), draw.shards.end(), [&](const std::string& name) {
    const auto of = shards_.find(name);
    return of != shards_.end() && of->second.heard;
  });
  if (all_heard) issued_.places_from = {};
  if (draw.report.number > shard->report) {
    take_report(draw);
    shard->report = draw.report.number;
    shard->reported_at = time_.at;
  }
  drawn.reported_at = shard->reported_at;

  PlacesLeft places(issued_.draws);
  for (std::size_t i = 0; i < std::min(draw.places.size(), kKeysMax + 1); ++i) {
    PlacesWanted wants = draw.places[i];
    if (wants.account != kOfBudget && wants.account >= budget().accounts.size()) continue;
    wants.held = std::clamp<std::int64_t>(wants.held, 0, kCostMax);
    wants.wanted = std::clamp<std::int64_t>(wants.wanted, 0, kCostMax);
    wants.clients = std::clamp<std::uint32_t>(wants.clients, 1, 1 << 16);
    PlacesState& state = shard->places[wants.account];
    if ((state.wants.held > 0) != (wants.held > 0)) state.since = time_.at;
    state.wants = wants;
    state.at = time_.at;
    drawn.places.push_back(give_places(*shard, wants.account));
    places.add(wants, drawn.places.back().allowed);
  }
  note_wants(*shard, draw.wants);
  // In the order of the map: the top lane first.
  for (auto& [lane, state] : shard->lanes)
    if (state.want.jobs > 0 && state.at == time_.at) {
      places.begin_lane();
      drawn.lanes.push_back(serve(draw.shard, *shard, lane, places, drawn));
    }
  for (const auto& [lane, state] : shard->lanes)
    lower_turns(lane);
  for (const auto& [model, until] : budgets_->paused_models(0, time_.at))
    drawn.models_paused.emplace_back(model, until - time_.at);
  Counts lent;
  for (const auto& [number, entry] : ledger_)
    lent += entry.amounts;
  for (RateLimit& rate : budgets_->all().front().quota.rates())
    drawn.limits.push_back({.level = rate.available(time_.at), .lent = lent.of(rate.resource())});
  drawn.rooms = rooms();
  drawn.waits = issued_.wait(time_.at);
  budgets_->take_unsaved();
  budgets_->take_eased();
  return drawn;
}

}  // namespace lanemq::core
