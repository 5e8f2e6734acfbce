// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "broker/core/base/stored_entry.hpp"
#include "broker/core/budgets/budgets.hpp"

// What was taken of budgets survives a restart, so that no restart gives a second burst.

namespace lanemq::core {
namespace {

/// Names of entries: a budget's own limits, an account of its keys, its spent keys, who called with a key.
constexpr std::string_view kOwn = "own", kAccount = "account ", kSpent = "spent ", kCallers = "callers ";
/// Names of model pauses: this, the account (none for the budget's own), the model.
constexpr std::string_view kModel = "model ";
/// Name of a learnt budget's entry: this prefix, the service, a line's end, the model.
constexpr std::string_view kLearnt = "learnt ";
/// Separates the owner's name from the limit's.
constexpr char kOf = '\n';
/// The end of the name of what refusals have shown of the calls at once. Begins with its time.
constexpr std::string_view kLearntPlaces = "\nconcurrency";

/// Numbers that say what the upstream has said and shown; the same with what an exact save has besides.
constexpr std::int64_t kLearnedNumbers = 6, kExactNumbersBefore = 10,
                       kExactNumbers = kExactNumbersBefore + OthersUse::kNumbers;
/// Added to the number of a limit's trial where nothing was answered since it was cut.
constexpr std::int64_t kUnanswered = 4;
/// Added to the part of the pace where RateLimit::shows_bucket(). Earlier versions take that for the whole
/// pace.
constexpr std::int64_t kShowsBucket = 2000;
/// Earlier versions saved the part of a limit that refusals have left in thousandths.
constexpr std::int64_t kShareUnit = 1000;
/// Stands for the configured limit, whatever that is when it is restored.
constexpr std::int64_t kNoCeiling = std::int64_t{1} << 60;
/// Refusals of a key are counted up to this when restored.
constexpr std::int64_t kRefusalsMax = 1000;
constexpr std::int64_t kScaleMax = 1000, kAgeMsMax = std::int64_t{1} << 32;
/// More than any limit counts, and small enough that sums of it stay in 64 bits.
constexpr std::int64_t kSentMax = std::int64_t{1} << 50;

const StoredEntry* entry_named(const std::vector<StoredEntry>& entries, std::string_view name) {
  const auto entry =
      std::find_if(entries.begin(), entries.end(), [&](const StoredEntry& one) { return one.name == name; });
  return entry == entries.end() ? nullptr : &*entry;
}

std::int64_t unix_us(TimePoint when, std::int64_t epoch_us) {
  return when == kNever ? 0 : when.time_since_epoch().count() + epoch_us;
}

/// The time that `us` stands for, but not before time zero.
TimePoint time_of(std::int64_t us, std::int64_t epoch_us) {
  return TimePoint(Duration(std::max<std::int64_t>(us - epoch_us, 0)));
}

/// What RateLimit::save() wrote, or an earlier version, with later times.
StoredNumbers shifted_limit(StoredNumbers in, Duration by) {
  StoredNumbers out;
  const auto keep = [&] { out.put(in.next()); };
  const auto shift = [&] {
    const std::int64_t us = in.next();
    out.put(us == 0 ? 0 : us + by.count());
  };
  const bool earlier = !in.at_end() && in.all().front() >= 0;
  std::int64_t learned = kLearnedNumbers;
  keep();   // the scale
  keep();   // the level
  shift();  // when it was refilled
  if (!earlier) {
    keep();
    out.put(learned = in.next());
  }
  if (learned >= kLearnedNumbers) {
    keep();
    keep();
    shift();
    shift();
    keep();
    shift();
  }
  if (learned >= kExactNumbersBefore) {
    shift();
    keep();
    keep();
    shift();
  }
  if (learned == kExactNumbers) {
    keep();
    shift();
    shift();
    shift();
    keep();
    keep();
  }
  while (!in.at_end()) {
    earlier ? shift() : keep();  // an age since the refill stays
    keep();
  }
  return out;
}

}  // namespace

void TokenBucket::set_level(std::int64_t tokens, TimePoint at) {
  set_whole(tokens);
  refilled_at_ = at;
}

std::vector<SlidingWindow::Sent> SlidingWindow::sent(Detail detail) const {
  std::vector<Sent> all;
  const std::int64_t step = detail == Detail::exact ? 1 : kept_ / static_cast<std::int64_t>(kSaved) + 1;
  for (std::int64_t slice = slice_ - kept_ + 1; slice <= slice_; ++slice) {
    if (slice < 0) continue;
    const std::int64_t amount = counts_[static_cast<std::size_t>(slice) % counts_.size()];
    if (amount == 0) continue;
    const TimePoint last = start_of(slice / step * step + step - 1);
    if (all.empty() || all.back().at != last) all.push_back({.at = last});
    all.back().amount += amount;
  }
  return all;
}

void ConcurrencyLimit::save(std::int64_t epoch_us, StoredNumbers& numbers) const {
  numbers.put(configured_ - limit_);
  numbers.put(successes_);
  numbers.put(unix_us(cut_at_, epoch_us));
}

void ConcurrencyLimit::restore(StoredNumbers& numbers, std::int64_t epoch_us, TimePoint now) {
  // Where none is configured, below zero: one that refusals have shown.
  const std::int64_t lowered = numbers.next();
  if (configured_ == 0) {
    if (lowered < 0) lower(std::min(-std::max(lowered, -kSentMax), kSentMax), now);
  } else {
    limit_ = std::max<std::int64_t>(configured_ - std::clamp<std::int64_t>(lowered, 0, configured_), 1);
  }
  successes_ = std::clamp<std::int64_t>(numbers.next(), 0, limit_);
  cut_at_ = std::min(time_of(numbers.next(), epoch_us), now);
}

void ConcurrencyLimit::save_learnt(std::int64_t epoch_us, StoredNumbers& numbers) const {
  numbers.put(unix_us(cut_at_, epoch_us));
  numbers.put(limit_);
  numbers.put(stated_ ? 1 : 0);
}

void ConcurrencyLimit::restore_learnt(StoredNumbers numbers, std::int64_t epoch_us, TimePoint now) {
  const TimePoint shown_at = std::min(time_of(numbers.next(), epoch_us), now);
  const std::int64_t limit = numbers.next();
  if (limit <= 0 || now - shown_at > kLearntFor) return;
  lower(std::min(limit, kSentMax), now);
  stated_ = numbers.next() != 0;
  cut_at_ = shown_at;
}

void LastTwo::save(std::int64_t epoch_us, StoredNumbers& numbers) const {
  numbers.put(static_cast<std::int64_t>(mark_));
  numbers.put(unix_us(at_, epoch_us));
  numbers.put(unix_us(other_at_, epoch_us));
}

void LastTwo::restore(StoredNumbers& numbers, std::int64_t epoch_us, TimePoint now) {
  const auto time = [&] {
    const std::int64_t us = numbers.next();
    return us == 0 ? kNever : std::min(time_of(us, epoch_us), now);
  };
  mark_ = static_cast<std::uint64_t>(numbers.next());
  at_ = time();
  other_at_ = time();
}

/// Few bytes: a pool of keys has hundreds of limits, and many change with each commit.
void RateLimit::save(std::int64_t epoch_us, std::int64_t ahead, StoredNumbers& numbers, Detail detail) const {
  const bool exact = detail == Detail::exact;
  // The fraction of a token is saved as time: a refill makes it again.
  const TimePoint refilled_at = bucket_.refilled_at() - (exact ? bucket_.part_time() : Duration(0));
  numbers.put(-scale_);
  numbers.put(bucket_.level());
  numbers.put(unix_us(refilled_at, epoch_us));
  numbers.put(ahead);
  const bool learned = exact || ceiling_ != limit_ || is_shown() || !ramp_.is_full() || shows_bucket();
  numbers.put(exact ? kExactNumbers : learned ? kLearnedNumbers : 0);
  if (learned) {
    numbers.put(exact && ceiling_ == limit_ ? kNoCeiling : ceiling_);
    // Earlier versions know thousandths, which are not below zero.
    const bool fine = (exact || open_) && is_shown();
    const std::int64_t share = shown_.millionths();
    numbers.put(fine ? -share : std::max<std::int64_t>(share / kShareUnit, 1));
    numbers.put(unix_us(shown_.since(), epoch_us));
    numbers.put(unix_us(shown_.changed_at(), epoch_us));
    numbers.put(ramp_.share() + (shows_bucket() ? kShowsBucket : 0));
    numbers.put(unix_us(ramp_.next(), epoch_us));
  }
  if (exact) {
    numbers.put(unix_us(owed_at_, epoch_us));
    numbers.put(static_cast<std::int64_t>(trial_) + (shown_.has_answer() ? 0 : kUnanswered));
    numbers.put(history_.foreign());
    numbers.put(unix_us(remaining_sent_at_, epoch_us));
    others_.save(epoch_us, numbers);
  }
  if (!window_) return;
  for (const SlidingWindow::Sent& sent : window_->sent(detail)) {
    // The age is rounded down, so that the step counts no shorter than it should.
    numbers.put(std::chrono::floor<std::chrono::milliseconds>(refilled_at - sent.at).count());
    numbers.put(sent.amount);
  }
}

void RateLimit::restore(StoredNumbers numbers, std::int64_t epoch_us, TimePoint paused_until, TimePoint now) {
  const auto time = [&] { return time_of(numbers.next(), epoch_us); };
  const std::int64_t first = std::clamp<std::int64_t>(numbers.next(), -kScaleMax, kScaleMax);
  const bool earlier = first >= 0;  // an earlier version wrote all numbers, and whole times
  const std::int64_t scale = std::max<std::int64_t>(earlier ? first : -first, 1), level = numbers.next();
  const TimePoint saved_at = time(), refilled_at = std::min(saved_at, now);
  const std::int64_t ahead = earlier ? 0 : numbers.next();
  const std::int64_t learned = earlier ? kLearnedNumbers : numbers.next();
  if (learned >= kLearnedNumbers) {
    ceiling_ = std::clamp<std::int64_t>(numbers.next(), 1, limit_);
    const std::int64_t share = std::clamp(numbers.next(), -ShownPart::kWhole, ShownPart::kWhole);
    const TimePoint since = std::min(time(), now), changed_at = std::min(time(), now);
    shown_.restore(share < 0 ? -share : share * kShareUnit, open_ && ceiling_ == limit_, since, changed_at);
    const std::int64_t ramp = std::clamp<std::int64_t>(numbers.next(), 0, kShowsBucket + PaceRamp::kFull);
    bucket_signs_.restore(ramp >= kShowsBucket && kind_ == WindowKind::automatic);
    // During a pause the ramp rises at its end, else within a second.
    ramp_.restore(static_cast<int>(ramp % kShowsBucket),
                  std::min(time(), std::max(paused_until, now + std::chrono::seconds(1))));
  }
  trial_ = ramp_.is_paused() ? Trial::of_guess : Trial::none;
  TimePoint owed_at = now;
  if (learned >= kExactNumbersBefore) {
    owed_at = std::min(time(), now);
    const std::int64_t trial = std::clamp<std::int64_t>(numbers.next(), 0, kUnanswered + 2);
    shown_.restore_answer(trial < kUnanswered);
    trial_ = static_cast<Trial>(std::min<std::int64_t>(trial % kUnanswered, 2));
    history_.lower(numbers.next());
    remaining_sent_at_ = std::min(time(), now);
  }
  if (learned == kExactNumbers) others_.restore(numbers, epoch_us, limit_, period_, now);
  if (window_) {
    window_->advance(now);
    while (!numbers.at_end()) {
      // The step's time stands for all that it holds, so a time in the future counts as now.
      const Duration age = std::chrono::milliseconds(
          std::clamp<std::int64_t>(earlier ? 0 : numbers.next(), -kAgeMsMax, kAgeMsMax));
      const TimePoint at = earlier ? time() : std::max(saved_at - age, TimePoint{});
      window_->record_late(std::clamp<std::int64_t>(numbers.next(), 0, kSentMax), std::min(at, now));
    }
  }
  apply_limit();
  const Int128 scaled = static_cast<Int128>(level) * scale_ / scale;
  const Int128 most = TokenBucket::kLevelMax;
  bucket_.set_level(static_cast<std::int64_t>(std::clamp(scaled, -most, most)), refilled_at);
  bucket_.raise_to(-limit_ * scale_);
  if (!window_) room_.note(0, bucket_.capacity(), now);  // whether it was full since a job began is not known
  owed_at_ = owed_at;
  advanced_at_ = kNever;
  advance(now);
  // The part of the debit ahead that was used is unknown: all of it counts as used now.
  if (ahead > 0) take(std::min(ahead, effective()), now);
}

void Quota::save(const std::string& name, std::int64_t epoch_us, std::vector<StoredEntry>& entries,
                 Detail detail) const {
  const bool exact = detail == Detail::exact;
  if (exact || paused_until_ != TimePoint{}) {
    StoredEntry own{.name = name, .numbers = StoredNumbers()};
    own.numbers.put(unix_us(paused_until_, epoch_us));
    own.numbers.put(paused_for_.count());
    if (exact) {
      own.numbers.put(unix_us(paused_at_, epoch_us));
      own.numbers.put(unix_us(probe_.at, epoch_us));
      own.numbers.put(probe_.after.count());
      concurrency_.save(epoch_us, own.numbers);
      answered_.save(epoch_us, own.numbers);
      refused_.save(epoch_us, own.numbers);
    }
    entries.push_back(std::move(own));
  }
  if (!exact && concurrency_.is_learnt()) {
    StoredEntry places{.name = name + std::string(kLearntPlaces), .numbers = StoredNumbers()};
    concurrency_.save_learnt(epoch_us, places.numbers);
    entries.push_back(std::move(places));
  }
  for (const RateLimit& rate : rates_) {
    StoredEntry entry{.name = name + kOf + rate.name(), .numbers = StoredNumbers()};
    rate.save(epoch_us, leased_ ? rate.ahead() : 0, entry.numbers, detail);
    entries.push_back(std::move(entry));
  }
}

/// The numbers that only an exact save has.
void Quota::restore_rest(StoredNumbers& numbers, std::int64_t epoch_us, TimePoint now) {
  paused_at_ = std::min(time_of(numbers.next(), epoch_us), now);
  const std::int64_t probed_at = numbers.next();
  probe_.at = probed_at == 0 ? kNever : time_of(probed_at, epoch_us);
  probe_.after = std::clamp(Duration(numbers.next()), kPauseProbedAfter, kUpstreamPauseMax);
  concurrency_.restore(numbers, epoch_us, now);
  answered_.restore(numbers, epoch_us, now);
  refused_.restore(numbers, epoch_us, now);
}

void Quota::restore(const std::string& name, const std::vector<StoredEntry>& entries, std::int64_t epoch_us,
                    TimePoint now) {
  heard_ = true;
  if (const StoredEntry* own = entry_named(entries, name)) {
    StoredNumbers numbers = own->numbers;
    const TimePoint until = time_of(numbers.next(), epoch_us);
    // If the clock went back, the pause is still no longer than it was meant to be. An earlier version did
    // not save its length.
    paused_for_ = numbers.at_end() ? kUpstreamPauseMax
                                   : std::clamp(Duration(numbers.next()), Duration(0), kUpstreamPauseMax);
    paused_until_ = std::min(until, now + paused_for_);
    paused_at_ = now;
    probe_.begin(paused_until_, false, now);
    if (!numbers.at_end()) restore_rest(numbers, epoch_us, now);
  }
  if (const StoredEntry* places = entry_named(entries, name + std::string(kLearntPlaces)))
    concurrency_.restore_learnt(places->numbers, epoch_us, now);
  for (RateLimit& rate : rates_)
    if (const StoredEntry* entry = entry_named(entries, name + kOf + rate.name()))
      rate.restore(entry->numbers, epoch_us, paused_until_, now);
}

void Budgets::note_change(std::size_t place, std::size_t account) {
  Budget& budget = budgets_[place];
  // Else its bank keeps what counts.
  if (account == kOwnLimits ? budget.counted() == nullptr : budget.slices != nullptr) return;
  bool& unsaved = account == kOwnLimits ? budget.unsaved : budget.accounts[account].unsaved;
  if (std::exchange(unsaved, true)) return;
  unsaved_.push_back({place, account});
}

std::vector<Budgets::Part> Budgets::take_unsaved() {
  for (const Part& part : unsaved_) {
    Budget& budget = budgets_[part.budget];
    (part.account == kOwnLimits ? budget.unsaved : budget.accounts[part.account].unsaved) = false;
  }
  must_save_ = false;
  return std::exchange(unsaved_, {});
}

void Budgets::save_all() {
  for (std::size_t i = 0; i < budgets_.size(); ++i) {
    note_change(i, kOwnLimits);
    for (std::size_t account = 0; account < budgets_[i].accounts.size(); ++account)
      note_change(i, account);
  }
}

void Budgets::end_leases() {
  const auto end = [&](Quota& quota, std::size_t budget, std::size_t account) {
    if (quota.end_lease()) note_change(budget, account);
  };
  for (std::size_t i = 0; i < budgets_.size(); ++i) {
    if (Quota* const counted = budgets_[i].counted(); counted != nullptr) end(*counted, i, kOwnLimits);
    for (std::size_t account = 0; account < budgets_[i].accounts.size(); ++account)
      end(budgets_[i].accounts[account].quota, i, account);
  }
}

bool Budgets::use_ahead(const Reservation& reservation, bool store_shared) {
  bool covered = true;
  for_parts(reservation, [&](Quota& quota, const Part& part) {
    if (store_shared) {
      covered = false;
      return note_change(part.budget, part.account);
    }
    if (quota.lease(marks_)) note_change(part.budget, part.account);
    covered = quota.covers(reservation.amounts(), marks_) && covered;
  });
  if (!covered) {
    must_save_ = true;
    return false;
  }
  for_parts(reservation, [&](Quota& quota, const Part&) { quota.use_ahead(reservation.amounts(), marks_); });
  return true;
}

std::string Budgets::account_entry(std::string_view account, std::string_view entry) {
  std::string name(kAccount);
  return name.append(account).append(entry);
}

std::vector<StoredEntry> Budgets::save(const Part& part, std::int64_t epoch_us, Detail detail) const {
  std::vector<StoredEntry> entries;
  const Budget& budget = budgets_[part.budget];
  if (part.account != kOwnLimits) {
    budget.accounts[part.account].quota.save({}, epoch_us, entries, detail);
    return entries;
  }
  const Quota* const counted = budget.counted();
  (counted != nullptr ? *counted : budget.quota).save(std::string(kOwn), epoch_us, entries, detail);
  if (budget.learnt != nullptr)
    entries.push_back({.name = std::string(kLearnt) + budget.learnt->service + '\n' + budget.learnt->model,
                       .numbers = StoredNumbers({unix_us(budget.learnt->heard_at, epoch_us)})});
  for (const Key& key : budget.keys)
    if (key.state == Key::State::spent)
      entries.push_back({.name = std::string(kSpent) + key.name,
                         .numbers = StoredNumbers({unix_us(key.rests_until, epoch_us), key.refusals})});
  for (const Key& key : budget.keys) {
    if (detail != Detail::exact) break;
    StoredNumbers numbers({unix_us(key.since, epoch_us), key.refusals});
    numbers.put(static_cast<std::int64_t>(key.spent_by));
    key.answered.save(epoch_us, numbers);
    key.refused.save(epoch_us, numbers);
    numbers.put(key.tried ? 1 : 0);
    numbers.put(static_cast<std::int64_t>(key.given));
    entries.push_back({.name = std::string(kCallers) + key.name, .numbers = std::move(numbers)});
  }
  for (const ModelApart& model : apart_)
    for (const ModelApart::Pause& pause : model.pauses) {
      if (pause.budget != part.budget) continue;
      const std::string account = pause.account == kOwnLimits ? "" : budget.accounts[pause.account].name;
      entries.push_back(
          {.name = std::string(kModel) + account + kOf + model.name,
           .numbers = StoredNumbers({unix_us(pause.until, epoch_us), (pause.until - pause.began).count()})});
    }
  return entries;
}

namespace {

/// The numbers of a key that only an exact save has.
void restore_callers(Key& key, StoredNumbers numbers, std::int64_t epoch_us, TimePoint now) {
  key.since = std::min(time_of(numbers.next(), epoch_us), now);
  key.refusals = static_cast<int>(std::clamp<std::int64_t>(numbers.next(), 0, kRefusalsMax));
  key.spent_by = static_cast<std::uint64_t>(numbers.next());
  key.answered.restore(numbers, epoch_us, now);
  key.refused.restore(numbers, epoch_us, now);
  key.tried = numbers.next() != 0;
  key.given = static_cast<std::uint64_t>(std::max<std::int64_t>(numbers.next(), 0));
}

}  // namespace

void Budgets::restore(Budget& budget, const std::vector<StoredEntry>& entries, std::int64_t epoch_us,
                      TimePoint now) {
  Quota* const counted = budget.counted();
  (counted != nullptr ? *counted : budget.quota).restore(std::string(kOwn), entries, epoch_us, now);
  for (Account& account : budget.accounts)
    account.quota.restore(std::string(kAccount) + account.name, entries, epoch_us, now);
  for (Key& key : budget.keys) {
    if (const StoredEntry* const callers = entry_named(entries, std::string(kCallers) + key.name))
      restore_callers(key, callers->numbers, epoch_us, now);
    const StoredEntry* const spent = entry_named(entries, std::string(kSpent) + key.name);
    if (key.state != Key::State::active || spent == nullptr) {
      key.tried = false;
      continue;
    }
    key.state = Key::State::spent;
    StoredNumbers numbers = spent->numbers;
    const bool earlier = numbers.at_end();  // an earlier version kept spent keys for good
    const TimePoint until = time_of(numbers.next(), epoch_us);
    key.refusals = static_cast<int>(std::clamp<std::int64_t>(numbers.next(), 1, kRefusalsMax));
    // If the clock went back, the rest is still no longer than it was meant to be.
    key.rests_until = earlier ? now : std::min(until, now + key.rest());
  }
  for (const StoredEntry& entry : entries)
    if (entry.name.starts_with(kModel)) restore_model(budget, entry, epoch_us, now);
}

void shift_history(std::vector<StoredEntry>& entries, Duration by) {
  for (StoredEntry& entry : entries) {
    const bool of_limit = !entry.name.starts_with(kSpent) && !entry.name.starts_with(kModel) &&
                          !entry.name.starts_with(kLearnt) && entry.name.find(kOf) != std::string::npos &&
                          !entry.name.ends_with(kLearntPlaces);
    if (of_limit) {
      entry.numbers = shifted_limit(entry.numbers, by);
      continue;
    }
    // A pause, a spent key, a model's pause: each begins with its end; learnt places with their time.
    std::vector<std::int64_t> numbers = entry.numbers.all();
    if (!numbers.empty() && numbers.front() != 0) numbers.front() += by.count();
    entry.numbers = StoredNumbers(std::move(numbers));
  }
}

void Budgets::restore_model(const Budget& budget, const StoredEntry& entry, std::int64_t epoch_us,
                            TimePoint now) {
  const std::size_t end = entry.name.find(kOf);
  if (end == std::string::npos) return;
  const std::string account = entry.name.substr(kModel.size(), end - kModel.size());
  Part part{.budget = static_cast<std::size_t>(&budget - budgets_.data())};
  if (!account.empty()) {
    const auto known = std::find_if(budget.accounts.begin(), budget.accounts.end(),
                                    [&](const Account& one) { return one.name == account; });
    if (known == budget.accounts.end()) return;
    part.account = static_cast<std::size_t>(known - budget.accounts.begin());
  }
  StoredNumbers numbers = entry.numbers;
  const TimePoint until = time_of(numbers.next(), epoch_us);
  // If the clock went back, the pause is still no longer than it was meant to be.
  const Duration length = std::clamp(Duration(numbers.next()), Duration(0), kUpstreamPauseMax);
  const TimePoint over = std::min(until, now + length);
  if (now - over >= kOthersWithin) return;
  // The client is not known any more: the place counts for no client's share.
  const std::size_t place =
      go_apart(entry.name.substr(end + 1), "\n" + entry.name, now, [](std::size_t) { return false; });
  if (place != kNoModel) pause_model(place, part, over, over - length);
}

void Budgets::restore_learnt(const std::vector<StoredEntry>& entries, std::int64_t epoch_us, TimePoint now) {
  const auto of = std::find_if(entries.begin(), entries.end(),
                               [](const StoredEntry& entry) { return entry.name.starts_with(kLearnt); });
  if (of == entries.end() || budgets_.size() >= lines_) return;
  const std::size_t end = std::min(of->name.find('\n', kLearnt.size()), of->name.size());
  LearntFor whose{.service = of->name.substr(kLearnt.size(), end - kLearnt.size()),
                  .model = of->name.substr(std::min(end + 1, of->name.size()))};
  StoredNumbers numbers = of->numbers;
  whose.heard_at = std::min(time_of(numbers.next(), epoch_us), now);
  if (now - whose.heard_at >= LearntBudgets::kKept || counts_all(whose.service, whose.model) ||
      find_learnt(whose.service, whose.model) != LearntBudgets::kNone)
    return;
  Budget& budget = budgets_.emplace_back(std::move(whose));
  for (const RateKind& kind : rate_kinds())
    if (entry_named(entries, std::string(kOwn) + kOf + std::string(kind.name)) != nullptr)
      budget.add_limit(LearntBudgets::open(kind));
  restore(budget, entries, epoch_us, now);
}

Reservation Budgets::adopt(BudgetSet set, const Amounts& amounts, std::string_view key, TimePoint taken_at) {
  Reservation reservation{.set = set,
                          .held = true,
                          .taken_at = taken_at,
                          .input_tokens = static_cast<std::uint32_t>(amounts.input_tokens),
                          .output_tokens = static_cast<std::uint32_t>(amounts.output_tokens)};
  if (Budget* const pool = pool_of(set); pool != nullptr && !key.empty()) {
    const auto place =
        std::find_if(pool->keys.begin(), pool->keys.end(), [&](const Key& one) { return one.name == key; });
    if (place != pool->keys.end()) {
      ++place->running;
      reservation.key = static_cast<std::uint16_t>(place - pool->keys.begin());
    }
  }
  for_quotas(reservation, [](Quota& quota, std::size_t) { quota.adopt(); });
  shared.adopt(sets_[set].budgets, reservation);
  return reservation;
}

}  // namespace lanemq::core
