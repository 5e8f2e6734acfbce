// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "broker/core/budgets.hpp"
#include "broker/core/stored.hpp"

// What was taken of budgets, kept through a restart: nobody gets a second burst by it.

namespace lanemq::core {
namespace {

/// Of entries' names: the budget's own limits, those of an account of its keys, keys that are spent.
constexpr std::string_view kOwn = "own", kAccount = "account ", kSpent = "spent ";
/// Between the name of whose it is and that of the limit.
constexpr char kOf = '\n';

const StoredEntry* entry_named(const std::vector<StoredEntry>& entries, std::string_view name) {
  const auto entry =
      std::find_if(entries.begin(), entries.end(), [&](const StoredEntry& one) { return one.name == name; });
  return entry == entries.end() ? nullptr : &*entry;
}

std::int64_t unix_us(TimePoint when, std::int64_t epoch_us) {
  return when == kNever ? 0 : when.time_since_epoch().count() + epoch_us;
}

/// Not before time zero, where nothing was.
TimePoint time_of(std::int64_t us, std::int64_t epoch_us) {
  return TimePoint(Duration(std::max<std::int64_t>(us - epoch_us, 0)));
}

}  // namespace

void TokenBucket::set_level(std::int64_t tokens, TimePoint at) {
  scaled_ = std::min(tokens, capacity_) * period_.count();
  refilled_at_ = at;
}

std::vector<SlidingWindow::Sent> SlidingWindow::sent() const {
  std::vector<Sent> all;
  const std::int64_t step = kept_ / static_cast<std::int64_t>(kSaved) + 1;
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

void RateLimit::save(std::int64_t epoch_us, StoredNumbers& numbers) const {
  numbers.put(scale_);
  numbers.put(bucket_.level());
  numbers.put(unix_us(bucket_.refilled_at(), epoch_us));
  numbers.put(ceiling_);
  numbers.put(share_);
  numbers.put(unix_us(cut_at_, epoch_us));
  numbers.put(unix_us(changed_at_, epoch_us));
  numbers.put(ramp_);
  numbers.put(unix_us(ramp_next_, epoch_us));
  if (!window_) return;
  for (const SlidingWindow::Sent& sent : window_->sent()) {
    numbers.put(unix_us(sent.at, epoch_us));
    numbers.put(sent.amount);
  }
}

void RateLimit::restore(StoredNumbers numbers, std::int64_t epoch_us, TimePoint now) {
  const auto time = [&] { return time_of(numbers.next(), epoch_us); };
  const std::int64_t scale = std::max<std::int64_t>(numbers.next(), 1);
  const std::int64_t level = numbers.next();
  const TimePoint refilled_at = std::min(time(), now);
  ceiling_ = std::clamp<std::int64_t>(numbers.next(), 1, limit_);
  share_ = static_cast<int>(std::clamp<std::int64_t>(numbers.next(), 1, 1000));
  cut_at_ = std::min(time(), now);
  changed_at_ = std::min(time(), now);
  ramp_ = static_cast<int>(std::clamp<std::int64_t>(numbers.next(), 0, 1000));
  ramp_next_ = std::min(time(), now + period_);
  if (window_) {
    window_->advance(now);
    while (!numbers.at_end()) {
      // A step that ends in the future, since it stands for all in it, counts as sent now.
      const TimePoint at = std::min(time(), now);
      window_->record_late(std::max<std::int64_t>(numbers.next(), 0), at);
    }
  }
  apply_limit();
  bucket_.set_level(level * scale_ / scale, refilled_at);
  advanced_at_ = kNever;
  advance(now);
}

void Quota::save(const std::string& name, std::int64_t epoch_us, std::vector<StoredEntry>& entries) const {
  StoredEntry own{.name = name, .numbers = StoredNumbers()};
  own.numbers.put(unix_us(paused_until_, epoch_us));
  entries.push_back(std::move(own));
  for (const RateLimit& rate : rates_) {
    StoredEntry entry{.name = name + kOf + rate.name(), .numbers = StoredNumbers()};
    rate.save(epoch_us, entry.numbers);
    entries.push_back(std::move(entry));
  }
}

void Quota::restore(const std::string& name, const std::vector<StoredEntry>& entries, std::int64_t epoch_us,
                    TimePoint now) {
  if (const StoredEntry* own = entry_named(entries, name)) {
    StoredNumbers numbers = own->numbers;
    paused_until_ = time_of(numbers.next(), epoch_us);
  }
  for (RateLimit& rate : rates_)
    if (const StoredEntry* entry = entry_named(entries, name + kOf + rate.name()))
      rate.restore(entry->numbers, epoch_us, now);
}

std::vector<const Budget*> Budgets::take_unsaved() {
  std::vector<const Budget*> unsaved;
  for (Budget& budget : budgets_)
    if (std::exchange(budget.unsaved, false)) unsaved.push_back(&budget);
  return unsaved;
}

std::vector<StoredEntry> Budgets::save(const Budget& budget, std::int64_t epoch_us) const {
  std::vector<StoredEntry> entries;
  budget.quota.save(std::string(kOwn), epoch_us, entries);
  for (const Account& account : budget.accounts)
    account.quota.save(std::string(kAccount) + account.name, epoch_us, entries);
  for (const Key& key : budget.keys)
    if (key.state == Key::State::spent)
      entries.push_back({.name = std::string(kSpent) + key.name, .numbers = StoredNumbers()});
  return entries;
}

void Budgets::restore(Budget& budget, const std::vector<StoredEntry>& entries, std::int64_t epoch_us,
                      TimePoint now) {
  budget.quota.restore(std::string(kOwn), entries, epoch_us, now);
  for (Account& account : budget.accounts)
    account.quota.restore(std::string(kAccount) + account.name, entries, epoch_us, now);
  for (Key& key : budget.keys)
    if (key.state == Key::State::active && entry_named(entries, std::string(kSpent) + key.name) != nullptr)
      key.state = Key::State::spent;
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
  return reservation;
}

}  // namespace lanemq::core
