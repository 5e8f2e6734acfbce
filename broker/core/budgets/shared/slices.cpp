// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/shared/slices.hpp"

#include <algorithm>

#include "broker/core/base/check.hpp"

namespace lanemq::core {
namespace {

/// A report that the bank took later than this after a slice was asked for may have come too late for it.
constexpr Duration kSurelyTaken = std::chrono::seconds(59);
constexpr std::size_t kCorrectionsKept = 16 * kCorrectionsMax;

/// No less than what passed, by a clock that may be slow.
Duration at_most(Duration passed) {
  return Duration((passed.count() * kClockParts + kClockParts - 2) / (kClockParts - 1));
}
/// No more than what passed, by a clock that may be fast.
Duration at_least(Duration passed) {
  return passed - Duration((passed.count() + kClockParts - 1) / kClockParts);
}

}  // namespace

Duration counted_for(const BudgetOptions& budget) {
  Duration longest{};
  const auto add = [&](const std::vector<RateOptions>& rates) {
    for (const RateOptions& rate : rates)
      longest = std::max(longest, rate.period + rate.period / 100);
  };
  add(budget.rates);
  for (const KeyOptions& key : budget.keys)
    add(key.rates);
  return longest + kSliceTime;
}

bool has_places(const BudgetOptions& budget) {
  return budget.concurrency > 0 || std::any_of(budget.keys.begin(), budget.keys.end(),
                                               [](const KeyOptions& key) { return key.concurrency > 0; });
}

Slices::Slices(std::string shard, std::uint64_t epoch, const BudgetOptions& budget, bool only_owner)
    : owner_{.shard = std::move(shard), .epoch = epoch, .only = only_owner} {
  configure(budget);
}

void Slices::configure(const BudgetOptions& budget) {
  configured_ = {};
  configured_.known_for = std::max(counted_for(budget), has_places(budget) ? kPlacesUnknown : Duration(0));
  rooms_.forget();  // they may be of other limits
  for (auto& [account, places] : places_)
    places.limit = 0;
  const auto count = [&](const std::vector<RateOptions>& rates) {
    for (const RateOptions& rate : rates)
      configured_.counts[static_cast<std::size_t>(rate.resource)] = true;
  };
  count(budget.rates);
  if (budget.concurrency > 0) places_[kOfBudget].limit = budget.concurrency;
  // Accounts stand in the order of their first keys, as in Budget.
  std::vector<std::string> names;
  for (const KeyOptions& key : budget.keys) {
    count(key.rates);
    const auto known = std::find(names.begin(), names.end(), key.account());
    configured_.accounts.push_back(static_cast<std::uint16_t>(known - names.begin()));
    if (known != names.end()) continue;
    names.push_back(key.account());
    if (key.concurrency > 0) places_[configured_.accounts.back()].limit = key.concurrency;
  }
  for (auto& [account, places] : places_)
    if (places.limit == 0) places.places = places.allowed = 0;
}

void Slices::want(const LaneWant& want) {
  Want& known = wants_[want.lane];
  if (known.want.jobs == 0) {
    known.retry_at = {};
    known.pause = {};
  }
  known.want = want;
  known.answer.lane = want.lane;
}

Counts Slices::left(TimePoint now) const {
  Counts left;
  for (const auto& [number, held] : held_)
    if (held.usable(now)) left += held.left;
  return left;
}

Slices::PlacesShown Slices::places() const {
  const auto of_budget = places_.find(kOfBudget);
  if (of_budget == places_.end()) return {};
  const Places& places = of_budget->second;
  return {.limit = places.limit, .here = places.places, .running = places.running};
}

const LaneAnswer* Slices::answer(std::size_t lane) const {
  const auto known = wants_.find(lane);
  return known == wants_.end() ? nullptr : &known->second.answer;
}

std::uint16_t Slices::account_of(std::uint16_t key) const {
  return key < configured_.accounts.size() ? configured_.accounts[key] : kOfBudget;
}

void Slices::change_running(std::uint16_t key, std::int64_t by) {
  const auto change = [&](Places& places) {
    places.running += by;
    places.went += std::max<std::int64_t>(by, 0);
  };
  change(places_[kOfBudget]);
  const std::uint16_t account = account_of(key);
  if (account != kOfBudget) change(places_[account]);
}

/// Whether the slices of the key have so much left, and there is a place.
bool Slices::fits(std::uint16_t key, std::size_t lane, const Counts& wanted, TimePoint now) const {
  for (const std::uint16_t account : {kOfBudget, account_of(key)})
    if (const auto places = places_.find(account); places != places_.end() && !places->second.free())
      return false;
  Counts left;
  for (const auto& [number, held] : held_)
    if (held.slice.key == key && held.serves(lane, now)) left += held.left;
  for (std::size_t i = 0; i < Counts::kResources; ++i)
    if (configured_.counts[i] && wanted[i] > std::max<std::int64_t>(left[i], 0)) return false;
  return true;
}

/// A slice of the first key that the job may have and that has enough; null: none has. A job that a key was
/// refused for tries one that has rested only where there is no other.
const Slices::Held* Slices::first_that_fits(std::size_t lane, const Counts& wanted,
                                            const KeysRefused& refused, TimePoint now) const {
  std::vector<std::uint16_t> looked_at;
  const Held* trial = nullptr;
  for (const auto& [number, held] : held_) {
    const std::uint16_t key = held.slice.key;
    if (!held.serves(lane, now) || refused.forbid(key)) continue;
    if (std::find(looked_at.begin(), looked_at.end(), key) != looked_at.end()) continue;
    looked_at.push_back(key);
    if (!fits(key, lane, wanted, now)) continue;
    if (!refused.any || !held.slice.tries_key) return &held;
    if (trial == nullptr) trial = &held;
  }
  return trial;
}

bool Slices::affordable(std::size_t lane, const Amounts& amounts, TimePoint now,
                        const KeysRefused& refused) const {
  return first_that_fits(lane, Counts(amounts), refused, now) != nullptr;
}

std::optional<Slices::Taken> Slices::take(std::size_t lane, const Amounts& amounts, TimePoint now,
                                          const KeysRefused& refused) {
  Counts wanted(amounts);
  const Held* const first = first_that_fits(lane, wanted, refused, now);
  if (first == nullptr) return std::nullopt;
  Use use{.key = first->slice.key, .expected = wanted};
  const bool tries_key = first->slice.tries_key;
  for (auto& [number, held] : held_) {
    if (held.slice.key != use.key || !held.serves(lane, now)) continue;
    Part part{.slice = number};
    for (std::size_t i = 0; i < Counts::kResources; ++i) {
      if (!configured_.counts[i]) continue;
      part.used[i] = std::clamp<std::int64_t>(held.left[i], 0, wanted[i]);
    }
    // A job that takes nothing that counts is bound to the slice's time all the same.
    if (part.used.none() && !use.parts.empty()) continue;
    held.left -= part.used;
    wanted -= part.used;
    ++held.unsent;
    use.parts.push_back(part);
  }
  change_running(use.key, 1);
  const Taken taken{.use = next_use_++, .key = use.key, .tries_key = tries_key};
  uses_.emplace(taken.use, std::move(use));
  return taken;
}

/// Gives back what a use took of slices that are not reported.
void Slices::drop_unsent(UseId id, Use& use) {
  for (const Part& part : use.parts) {
    Held& held = held_.at(part.slice);  // what is not sent keeps its slice
    held.left += part.used;
    --held.unsent;
  }
  change_running(use.key, -1);
  uses_.erase(id);
}

bool Slices::send(UseId id, TimePoint now) {
  Use& use = uses_.at(id);
  LANEMQ_CHECK(!use.sent);
  const bool in_time = std::all_of(use.parts.begin(), use.parts.end(),
                                   [&](const Part& part) { return held_.at(part.slice).usable(now); });
  if (!in_time) {
    drop_unsent(id, use);
    return false;
  }
  use.sent = true;
  for (Part& part : use.parts) {
    Held& held = held_.at(part.slice);
    const Duration age = at_most(now - held.asked_at);
    part.age = std::min((age + kUseStep - Duration(1)) / kUseStep * kUseStep, kSliceTime);
    held.uses.emplace(id, SliceUse{.age = part.age, .used = part.used});
    --held.unsent;
  }
  return true;
}

void Slices::add_correction(std::uint16_t key, TimePoint at, const Counts& more) {
  if (more.none()) return;
  if (said_.corrections.size() < kCorrectionsKept || said_.corrections.contains({key, at})) {
    said_.corrections[{key, at}] += more;
    return;
  }
  // No room for one more: what was more still counts, what was less is not given back.
  Counts& last = said_.corrections.rbegin()->second;
  for (std::size_t i = 0; i < Counts::kResources; ++i)
    last[i] += std::max<std::int64_t>(more[i], 0);
}

/// Books that the use was more or less than expected.
void Slices::correct(const Use& use, Counts more) {
  for (auto part = use.parts.rbegin(); part != use.parts.rend(); ++part) {
    Counts of_part;
    for (std::size_t i = 0; i < Counts::kResources; ++i)
      of_part[i] = more[i] > 0 ? more[i] : std::max(more[i], -part->used[i]);
    more -= of_part;
    add_correction(use.key, part->at, of_part);
  }
}

void Slices::settle(UseId id, const Amounts* used) {
  const auto at = uses_.find(id);
  if (at == uses_.end()) return;
  Use& use = at->second;
  if (!use.sent) return drop_unsent(id, use);
  change_running(use.key, -1);
  if (used == nullptr || use.keeps) {
    uses_.erase(at);
    return;
  }
  Counts more(*used);
  more -= use.expected;
  for (std::size_t i = 0; i < Counts::kResources; ++i)
    if (!configured_.counts[i]) more[i] = 0;
  bool under_way = false;
  for (auto part = use.parts.rbegin(); part != use.parts.rend(); ++part) {
    under_way = under_way || said_.slices.contains(part->slice);
    const auto held = held_.find(part->slice);
    if (held == held_.end()) continue;
    // Not reported yet: the report says it as it was.
    for (std::size_t i = 0; i < Counts::kResources; ++i) {
      const std::int64_t of_part = more[i] > 0 ? more[i] : std::max(more[i], -part->used[i]);
      part->used[i] += of_part;
      held->second.uses.at(id).used[i] += of_part;
      held->second.left[i] -= of_part;
      more[i] -= of_part;
    }
  }
  if (more.none()) {
    uses_.erase(at);
  } else if (under_way) {
    // When it is known at which time the bank counts it.
    use.settled = true;
    use.expected = more;
  } else {
    std::erase_if(use.parts, [](const Part& part) { return part.slice != 0; });
    correct(use, more);
    uses_.erase(at);
  }
}

void Slices::hear(UpstreamWord word, TimePoint called_at, TimePoint now) {
  if (word.kind == UpstreamWord::Kind::key_refused && word.may_spend && word.key != Claim::kNoKey)
    for (auto& [number, held] : held_)
      held.key_refused = held.key_refused || held.slice.key == word.key;
  said_.words.hear(std::move(word), called_at, now);
}

/// Whether nothing more comes of the slice, so that its use can be told.
bool Slices::is_over(const Held& held, TimePoint now) const {
  if (held.unsent > 0) return false;
  if (!held.usable(now)) return true;
  for (std::size_t i = 0; i < Counts::kResources; ++i)
    if (configured_.counts[i] && held.left[i] <= 0) return true;
  // A lane that it serves wants more than is left.
  return std::any_of(wants_.begin(), wants_.end(), [&](const auto& want) {
    return want.first <= held.slice.lane && unmet(want.second, now);
  });
}

TimePoint Slices::draw_due(TimePoint now) const {
  if (flight_.drawing || owner_.superseded) return kNever;
  const TimePoint usual = flight_.any ? flight_.asked_at + kSliceTime : now;
  TimePoint due = kNever;
  for (const auto& [lane, want] : wants_) {
    if (unmet(want, now))
      due = std::min(
          due, lane == 0 && flight_.any ? std::max(want.retry_at, flight_.asked_at + kTopPauseMin) : usual);
    else if (want.told && want.want.jobs == 0)
      due = std::min(due, usual);
  }
  due = std::min(due, said_.words.due(usual, now));
  if (said_.report.number != 0 || !said_.corrections.empty() || !said_.disclaimed.empty())
    due = std::min(due, usual);
  for (const auto& [number, held] : held_)
    if (held.unsent == 0) due = std::min(due, std::max(usual, held.asked_at + kUsable));
  // A new owner says what runs; what does not run any more is for other shards.
  for (const auto& [account, places] : places_) {
    if (places.limit == 0) continue;
    if (!flight_.any || places.places > places.running) due = std::min(due, usual);
    if (places.running > 0) due = std::min(due, flight_.asked_at + kPlacesSaidEvery);
  }
  return due == kNever ? kNever : std::max(due, now);
}

TimePoint Slices::saw(TimePoint now) const {
  return reference_->bank + at_least(now - reference_->here);
}

/// Puts all that is over into the report.
void Slices::freeze_report(TimePoint now) {
  Report& report = said_.report;
  for (auto at = held_.begin(); at != held_.end();) {
    Held& held = at->second;
    if (!is_over(held, now)) {
      ++at;
      continue;
    }
    std::map<Duration, Counts> by_age;
    for (const auto& [id, use] : held.uses)
      by_age[use.age] += use.used;
    SliceReport slice{.slice = at->first, .uses = {}};
    for (const auto& [age, used] : by_age)
      slice.uses.push_back({.age = age, .used = used});
    report.slices.push_back(std::move(slice));
    said_.slices.emplace(at->first, Frozen{.granted_at = held.granted_at, .asked_at = held.asked_at});
    at = held_.erase(at);
  }
  while (!said_.corrections.empty() && report.corrections.size() < kCorrectionsMax) {
    const auto first = said_.corrections.begin();
    report.corrections.push_back(
        {.key = first->first.first, .at = first->first.second, .more = first->second});
    said_.corrections.erase(first);
  }
  for (WordsHeard::Heard& heard : said_.words.take()) {
    UpstreamWord& word = heard.word;
    word.age = now - heard.called_at;
    word.waited = now - heard.heard_at;
    if (word.limits) word.rooms = rooms_.after(heard.called_at, account_of(word.key));
    report.words.push_back(std::move(word));
  }
  report.disclaimed = std::exchange(said_.disclaimed, {});
  if (!report.slices.empty() || !report.corrections.empty() || !report.words.empty() ||
      !report.disclaimed.empty())
    report.number = flight_.number;
}

/// The bank has the report: from now on each use stands at its time.
void Slices::report_taken(TimePoint reported_at, TimePoint now) {
  for (auto at = uses_.begin(); at != uses_.end();) {
    Use& use = at->second;
    for (Part& part : use.parts) {
      const auto frozen = said_.slices.find(part.slice);
      if (part.slice == 0 || frozen == said_.slices.end()) continue;
      part.slice = 0;
      part.at = std::min(frozen->second.granted_at + part.age, reported_at);
      // The bank may have taken it as used in whole.
      if (now - frozen->second.asked_at > kSurelyTaken) use.keeps = true;
    }
    const bool over = use.settled && std::none_of(use.parts.begin(), use.parts.end(), [&](const Part& part) {
                        return held_.contains(part.slice);
                      });
    if (over && !use.keeps) correct(use, use.expected);
    at = over ? uses_.erase(at) : std::next(at);
  }
  said_.slices.clear();
  said_.report = {};
}

void Slices::add_places(Draw& draw) {
  std::int64_t waiting = 0;
  std::uint32_t clients = 0;
  for (const auto& [lane, want] : wants_) {
    waiting += want.want.jobs;
    clients += want.want.jobs > 0 ? want.want.clients : 0;
  }
  for (auto& [account, places] : places_) {
    const std::int64_t went = std::exchange(places.went, 0);
    if (places.limit == 0) continue;
    const std::int64_t kept = std::min({places.places, places.allowed, places.running + waiting});
    // Places given back with this draw are not used again, whether the draw succeeds or not.
    places.places = std::max(places.running, kept);
    draw.places.push_back({.account = account,
                           .held = places.places,
                           .running = places.running,
                           .went = went,
                           .wanted = std::max<std::int64_t>(places.running + waiting - places.places, 0),
                           .clients = std::max<std::uint32_t>(clients, 1)});
  }
}

Draw Slices::begin_draw(TimePoint now) {
  LANEMQ_CHECK(!flight_.drawing);
  flight_ = {.drawing = true, .any = true, .number = flight_.number + 1, .asked_at = now};
  Draw draw{.shard = owner_.shard, .epoch = owner_.epoch, .number = flight_.number};
  if (reference_) {
    draw.saw = saw(now);
    draw.clock_changes = reference_->clock_changes;
    if (now - reference_->here <= at_most(configured_.known_for)) draw.draws_known = reference_->draws;
  }
  for (auto& [lane, want] : wants_) {
    if (want.want.jobs == 0 && !want.told) continue;
    LaneWant said = want.want;
    // A lane that has what it needs wants nothing of the bank.
    if (!unmet(want, now)) said.jobs = 0;
    draw.wants.push_back(said);
    want.told = said.jobs > 0;
  }
  if (said_.report.number == 0) freeze_report(now);
  draw.report = said_.report;
  add_places(draw);
  return draw;
}

/// The lane got less than it wants.
void Slices::back_off(Want& want, TimePoint now, Duration retry_after) {
  want.pause = std::clamp(2 * want.pause, kTopPauseMin, kTopPauseMax);
  want.retry_at = now + std::clamp(retry_after, want.pause, kSliceTime);
}

void Slices::drawn(const Drawn& drawn, TimePoint now) {
  if (!flight_.drawing || drawn.number != flight_.number) return;
  flight_.drawing = false;
  if (drawn.outcome == Drawn::Outcome::superseded) {
    owner_.superseded = !owner_.only;
    owner_.epoch = std::max(owner_.epoch, drawn.epoch + 1);
    owner_.contested_until = now + kContestedFor;
    for (auto& [lane, want] : wants_)
      want.answer = {.lane = lane, .refusal = DrawRefusal::superseded};
  }
  // The last draw, though an earlier one may allow more: the bank's lag may have grown since, and must not
  // shrink.
  reference_ =
      Reference{.bank = drawn.at, .here = now, .clock_changes = drawn.clock_changes, .draws = drawn.draws};
  if (drawn.outcome != Drawn::Outcome::taken) return;
  if (said_.report.number != 0) report_taken(drawn.reported_at, now);
  for (const Slice& slice : drawn.slices)
    held_.emplace(slice.number, Held{.slice = slice,
                                     .left = slice.amounts,
                                     .asked_at = flight_.asked_at,
                                     .granted_at = drawn.at,
                                     .key_refused = said_.words.spend(slice.key)});
  for (auto& [lane, want] : wants_)
    want.answer = {.lane = lane};
  for (const LaneAnswer& answer : drawn.lanes) {
    const auto want = wants_.find(answer.lane);
    if (want == wants_.end()) continue;
    want->second.answer = answer;
    if (answer.refusal == DrawRefusal::none) continue;
    back_off(want->second, now, answer.retry_after);
  }
  limits_ = drawn.limits;
  rooms_.note(flight_.asked_at, now, drawn.rooms);
  for (const PlacesGranted& granted : drawn.places)
    if (const auto places = places_.find(granted.account); places != places_.end()) {
      places->second.places = granted.places;
      places->second.allowed = granted.allowed;
    }
}

void Slices::lost(TimePoint now) {
  if (!flight_.drawing) return;
  flight_.drawing = false;
  if (said_.disclaimed.size() < kDisclaimedMax) said_.disclaimed.push_back(flight_.number);
  // It may have been done without that what it says of wants is known.
  for (auto& [lane, want] : wants_) {
    want.told = true;
    want.answer = {.lane = lane};  // what it said before holds no more
    back_off(want, now, Duration(0));
  }
}

}  // namespace lanemq::core
