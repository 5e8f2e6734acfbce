// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <utility>

#include <xxhash.h>

#include <lanemq/list_reader.hpp>

#include "broker/core/base/check.hpp"
#include "broker/core/base/stored_entry.hpp"
#include "broker/core/budgets/shared/bank.hpp"

// The row of a bank: a list of entries, and a checksum of its bytes. What Budgets saves has the names that
// Budgets gives; the bank's own entries begin with '='.

namespace lanemq::core {
namespace {

constexpr std::int64_t kVersion = 1;
constexpr std::string_view kBank = "=bank", kKey = "=key ", kShard = "=shard ", kSlice = "=slice ";
/// Separates a key's name from that of its account.
constexpr char kAccountOf = '\n';
constexpr std::size_t kNumbersMax = 8192;  // of an entry: an exact window has 1,214
constexpr std::int64_t kTimeMax = std::int64_t{1} << 56, kNumberMax = std::int64_t{1} << 60;

void put(StoredNumbers& numbers, TimePoint time) {
  numbers.put(time.time_since_epoch().count());
}
TimePoint time_in(StoredNumbers& numbers) {
  return TimePoint(Duration(std::clamp<std::int64_t>(numbers.next(), 0, kTimeMax)));
}

void put(StoredNumbers& numbers, const Amounts& amounts) {
  numbers.put(amounts.requests);
  numbers.put(amounts.input_tokens);
  numbers.put(amounts.output_tokens);
}
Amounts amounts_in(StoredNumbers& numbers) {
  Amounts amounts;
  amounts.requests = numbers.next();
  amounts.input_tokens = numbers.next();
  amounts.output_tokens = numbers.next();
  return amounts;
}

std::int64_t amount_in(StoredNumbers& numbers) {
  return std::clamp<std::int64_t>(numbers.next(), 0, kNumberMax);
}
std::uint64_t number_in(StoredNumbers& numbers) {
  return static_cast<std::uint64_t>(amount_in(numbers));
}

std::uint64_t checksum(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

tl::unexpected<Error> damaged(const std::string& what) {
  return tl::unexpected(Error{.code = ErrorCode::internal, .message = "the row " + what});
}

Result<std::vector<StoredEntry>> entries_in(std::string_view bytes) {
  ListReader list;
  if (!list.open(bytes)) return damaged("is no list");
  std::vector<StoredEntry> entries;
  while (list.more() && list.sound()) {
    StoredEntry entry{.name = std::string(list.text()), .numbers = StoredNumbers()};
    std::size_t left = list.enter();
    if (left > kNumbersMax) return damaged("has an entry with too many numbers");
    for (; left > 0; --left)
      entry.numbers.put(list.integer());
    list.leave();
    entries.push_back(std::move(entry));
  }
  if (!list.sound()) return damaged("is not in the form of this version");
  return entries;
}

}  // namespace

void Bank::save_shards(std::vector<StoredEntry>& entries) const {
  for (const auto& [name, shard] : shards_) {
    StoredNumbers numbers;
    numbers.put(static_cast<std::int64_t>(shard.epoch));
    numbers.put(static_cast<std::int64_t>(shard.draw));
    numbers.put(static_cast<std::int64_t>(shard.report));
    put(numbers, shard.drawn_at);
    put(numbers, shard.reported_at);
    numbers.put(static_cast<std::int64_t>(shard.lanes.size()));
    for (const auto& [lane, state] : shard.lanes) {
      numbers.put(static_cast<std::int64_t>(lane));
      put(numbers, state.at);
      numbers.put(state.turn);
      numbers.put(state.want.clients);
      numbers.put(state.want.hold);
      numbers.put(state.want.jobs);
      put(numbers, state.want.head);
      put(numbers, state.want.all);
    }
    numbers.put(static_cast<std::int64_t>(shard.places.size()));
    for (const auto& [account, places] : shard.places) {
      numbers.put(account);
      numbers.put(places.wants.held);
      numbers.put(places.wants.wanted);
      numbers.put(places.wants.clients);
      put(numbers, places.at);
      put(numbers, places.since);
    }
    numbers.put(shard.heard ? 1 : 0);
    entries.push_back({.name = std::string(kShard) + name, .numbers = std::move(numbers)});
  }
}

void Bank::save_keys(std::vector<StoredEntry>& entries) const {
  const std::size_t known = options_.keys.size() - known_at_.size();
  for (std::size_t i = 0; i < options_.keys.size(); ++i) {
    const KeyOptions& key = options_.keys[i];
    StoredNumbers numbers;
    put(numbers, i < known ? time_.at : known_at_[i - known]);
    numbers.put(key.concurrency);
    for (const RateOptions& rate : key.rates) {
      const RateKind* const kind = rate_kind(rate.name);
      LANEMQ_CHECK(kind != nullptr);
      numbers.put(kind - rate_kinds().data());
      numbers.put(rate.limit);
      numbers.put(rate.capacity);
    }
    entries.push_back(
        {.name = std::string(kKey) + key.name + kAccountOf + key.quota_group, .numbers = numbers});
  }
}

Bank::RowKey Bank::row_key(const StoredEntry& entry) {
  const std::string_view names = std::string_view(entry.name).substr(kKey.size());
  const std::size_t end = std::min(names.find(kAccountOf), names.size());
  RowKey key{.options = {.name = std::string(names.substr(0, end)), .draining = true}};
  if (end < names.size()) key.options.quota_group = names.substr(end + 1);
  StoredNumbers numbers = entry.numbers;
  key.known_at = time_in(numbers);
  key.options.concurrency = amount_in(numbers);
  while (!numbers.at_end() && key.options.rates.size() < rate_kinds().size()) {
    const std::size_t place = std::min<std::size_t>(number_in(numbers), rate_kinds().size() - 1);
    const RateKind& kind = rate_kinds()[place];
    RateOptions rate{.name = std::string(kind.name), .period = kind.period, .resource = kind.resource};
    rate.limit = std::max<std::int64_t>(amount_in(numbers), 1);
    rate.capacity = amount_in(numbers);
    key.options.rates.push_back(std::move(rate));
  }
  return key;
}

std::uint16_t Bank::RowIndexes::key(std::int64_t of_row) const {
  return of_row >= 0 && static_cast<std::size_t>(of_row) < keys.size()
             ? keys[static_cast<std::size_t>(of_row)]
             : Claim::kNoKey;
}

std::uint16_t Bank::RowIndexes::account(std::int64_t of_row) const {
  return of_row >= 0 && static_cast<std::size_t>(of_row) < accounts.size()
             ? accounts[static_cast<std::size_t>(of_row)]
             : Claim::kNoKey;
}

/// Adds those keys of the row that the drawing shard does not know, as long as a window may hold uses of
/// them. Says where the row's are.
Bank::RowIndexes Bank::take_keys(const std::vector<StoredEntry>& entries) {
  std::vector<RowKey> row;
  for (const StoredEntry& entry : entries)
    if (entry.name.starts_with(kKey) && row.size() < kRowKeysMax) row.push_back(row_key(entry));
  std::vector<KeyOptions>& keys = options_.keys;
  const auto find = [&](const std::string& name) {
    return std::find_if(keys.begin(), keys.end(), [&](const KeyOptions& key) { return key.name == name; });
  };
  const bool counts_keys = !keys.empty();
  std::vector<RowKey> unknown;
  for (const RowKey& key : row) {
    const auto known = find(key.options.name);
    if (known == keys.end()) {
      unknown.push_back(key);
    } else if (known->draining && known->rates.empty()) {
      known->rates = key.options.rates;  // it was taken out: what was used of it still counts
      known->concurrency = key.options.concurrency;
    }
  }
  std::sort(unknown.begin(), unknown.end(),
            [](const RowKey& a, const RowKey& b) { return a.known_at > b.known_at; });
  for (const RowKey& key : unknown) {
    Duration counts_for = kReportTaken;
    for (const RateOptions& rate : key.options.rates)
      counts_for = std::max(counts_for, rate.period + rate.period / 50 + kReportTaken);
    if (!counts_keys || keys.size() >= kRowKeysMax || time_.at - key.known_at > counts_for) continue;
    keys.push_back(key.options);
    known_at_.push_back(key.known_at);
  }
  budgets_ = budgets_of(options_, offline_share_);
  set_ = budgets_->match({}, budget().options.model, {}, {});

  RowIndexes indexes;
  std::vector<std::string> accounts;
  for (const RowKey& key : row) {
    const auto here = find(key.options.name);
    indexes.keys.push_back(here == keys.end() ? Claim::kNoKey
                                              : static_cast<std::uint16_t>(here - keys.begin()));
    const std::string& account = key.options.account();
    if (std::find(accounts.begin(), accounts.end(), account) != accounts.end()) continue;
    accounts.push_back(account);
    const auto known = std::find_if(budget().accounts.begin(), budget().accounts.end(),
                                    [&](const Account& one) { return one.name == account; });
    indexes.accounts.push_back(known == budget().accounts.end()
                                   ? Claim::kNoKey
                                   : static_cast<std::uint16_t>(known - budget().accounts.begin()));
  }
  return indexes;
}

std::string Bank::save() const {
  std::vector<StoredEntry> entries;
  StoredNumbers own({kVersion});
  put(own, time_.at);
  put(own, time_.database);
  own.put(static_cast<std::int64_t>(issued_.next_slice));
  own.put(static_cast<std::int64_t>(time_.server));
  own.put(static_cast<std::int64_t>(time_.clock_changes));
  own.put(static_cast<std::int64_t>(issued_.draws));
  put(own, issued_.grants_from);
  put(own, issued_.places_from);
  entries.push_back({.name = std::string(kBank), .numbers = std::move(own)});
  save_keys(entries);
  save_shards(entries);
  for (const auto& [number, entry] : ledger_) {
    StoredNumbers numbers({static_cast<std::int64_t>(number), static_cast<std::int64_t>(entry.draw),
                           entry.key, entry.over ? 1 : 0});
    put(numbers, entry.granted_at);
    for (std::size_t i = 0; i < Counts::kResources; ++i)
      numbers.put(entry.amounts[i]);
    entries.push_back({.name = std::string(kSlice) + entry.shard, .numbers = std::move(numbers)});
  }
  std::vector<StoredEntry> counted = budgets_->save({}, 0, Detail::exact);
  std::move(counted.begin(), counted.end(), std::back_inserter(entries));
  for (std::size_t account = 0; account < budget().accounts.size(); ++account)
    for (StoredEntry& entry : budgets_->save({.account = account}, 0, Detail::exact)) {
      entry.name = Budgets::account_entry(budget().accounts[account].name, entry.name);
      entries.push_back(std::move(entry));
    }
  Buffer out;
  write(entries, out);
  const std::uint64_t sum = checksum(out.view());
  char bytes[sizeof sum];
  for (std::size_t i = 0; i < sizeof sum; ++i)
    bytes[i] = static_cast<char>(sum >> (8 * i));
  out.write(bytes, sizeof sum);
  LANEMQ_CHECK(out.size() <= kRowBytesMax);
  return std::string(out.view());
}

void Bank::restore_shard(std::string_view name, StoredNumbers& numbers, const RowIndexes& indexes) {
  Shard& shard = shards_[std::string(name)];
  shard.epoch = static_cast<std::uint64_t>(numbers.next());
  shard.draw = number_in(numbers);
  shard.report = number_in(numbers);
  shard.drawn_at = time_in(numbers);
  shard.reported_at = time_in(numbers);
  for (std::size_t left = std::min<std::size_t>(number_in(numbers), kWantsMax); left > 0; --left) {
    LaneState state;
    const std::size_t lane = state.want.lane = number_in(numbers);
    state.at = time_in(numbers);
    state.turn = amount_in(numbers);
    state.want.clients = static_cast<std::uint32_t>(std::clamp<std::int64_t>(numbers.next(), 1, 1 << 16));
    state.want.hold = static_cast<int>(std::clamp<std::int64_t>(numbers.next(), 0, 1000));
    state.want.jobs = amount_in(numbers);
    state.want.head = amounts_in(numbers);
    state.want.all = amounts_in(numbers);
    shard.lanes[lane] = state;
  }
  for (std::size_t left = std::min<std::size_t>(number_in(numbers), kRowKeysMax + 1); left > 0; --left) {
    PlacesState places;
    const std::int64_t account = numbers.next();
    places.wants.account = account == kOfBudget ? kOfBudget : indexes.account(account);
    places.wants.held = amount_in(numbers);
    places.wants.wanted = amount_in(numbers);
    places.wants.clients = static_cast<std::uint32_t>(std::clamp<std::int64_t>(numbers.next(), 1, 1 << 16));
    places.at = time_in(numbers);
    places.since = time_in(numbers);
    if (account == kOfBudget || places.wants.account != Claim::kNoKey)
      shard.places[places.wants.account] = places;
  }
  shard.heard = numbers.next() != 0;
}

Result<void> Bank::restore_entry(StoredEntry& entry, const RowIndexes& indexes) {
  StoredNumbers& numbers = entry.numbers;
  if (entry.name == kBank) {
    if (const std::int64_t version = numbers.next(); version != kVersion)
      return damaged("is of version " + std::to_string(version) + ", and this broker knows " +
                     std::to_string(kVersion) + "; upgrade it");
    time_.at = time_in(numbers);
    time_.database = time_in(numbers);
    issued_.next_slice = number_in(numbers);
    time_.server = static_cast<std::uint64_t>(numbers.next());
    time_.clock_changes = number_in(numbers);
    issued_.draws = number_in(numbers);
    issued_.grants_from = time_in(numbers);
    issued_.places_from = time_in(numbers);
    return {};
  }
  if (entry.name.starts_with(kShard)) {
    restore_shard(std::string_view(entry.name).substr(kShard.size()), numbers, indexes);
    return shards_.size() > kShardsMax ? damaged("has too many shards") : Result<void>{};
  }
  if (!entry.name.starts_with(kSlice)) return {};
  const std::uint64_t number = number_in(numbers);
  Entry slice{.shard = entry.name.substr(kSlice.size()), .draw = number_in(numbers)};
  slice.key = indexes.key(numbers.next());
  slice.over = numbers.next() != 0;
  slice.granted_at = time_in(numbers);
  for (std::size_t i = 0; i < Counts::kResources; ++i)
    slice.amounts[i] = amount_in(numbers);
  ledger_[number] = slice;
  if (number >= issued_.next_slice || ledger_.size() > kSlicesMax)
    return damaged("has slices that cannot be");
  return {};
}

Result<void> Bank::restore(std::string_view row) {
  LANEMQ_CHECK(time_.at == TimePoint{});
  if (row.size() < sizeof(std::uint64_t) || row.size() > kRowBytesMax)
    return damaged("has " + std::to_string(row.size()) + " bytes");
  const std::string_view bytes = row.substr(0, row.size() - sizeof(std::uint64_t));
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < sizeof sum; ++i)
    sum |= std::uint64_t{static_cast<unsigned char>(row[bytes.size() + i])} << (8 * i);
  if (sum != checksum(bytes)) return damaged("was changed: its checksum is another one");
  Result<std::vector<StoredEntry>> entries = entries_in(bytes);
  if (!entries) return tl::unexpected(entries.error());
  if (entries->empty() || entries->front().name != kBank) return damaged("is no bank's");
  RowIndexes indexes;
  if (const Result<void> done = restore_entry(entries->front(), indexes); !done) return done;
  indexes = take_keys(*entries);
  entries->erase(entries->begin());
  for (StoredEntry& entry : *entries)
    if (const Result<void> done = restore_entry(entry, indexes); !done) return done;
  budgets_->restore(budgets_->all().front(), *entries, 0, time_.at);
  return {};
}

}  // namespace lanemq::core
