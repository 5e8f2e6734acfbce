// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/caller_budgets.hpp"

#include <algorithm>
#include <utility>

#include "broker/core/base/identity.hpp"

namespace lanemq::core {
namespace {

constexpr Duration kPeriod = std::chrono::minutes(1);
/// Keys looked at for one that is idle, where there is no room.
constexpr int kLooksMax = 16;
/// Between two looks through all keys, where there is no room for another holder.
constexpr Duration kDropPause = std::chrono::seconds(1);

/// Brings a bucket to the limit and to `now`. A changed limit keeps what was used; a new one begins full.
void refill(std::optional<TokenBucket>& bucket, std::int64_t limit, TimePoint now) {
  if (limit == 0) return bucket.reset();
  std::optional<std::int64_t> used;
  if (bucket) {
    bucket->refill(now);
    if (bucket->capacity() == limit) return;
    used = bucket->capacity() - bucket->level();
  }
  bucket.emplace(limit, kPeriod, limit);
  bucket->set_level(limit - used.value_or(0), now);
}

/// Books what a session has used of one kind, and gives it what it wants. `granted`: in all; it is changed.
void book(std::optional<TokenBucket>& bucket, const CallerBudgets::Use& use, std::int64_t& granted) {
  if (!bucket) {
    granted = use.used + use.ahead;
    return;
  }
  std::int64_t held = granted - use.used;
  if (held < 0) bucket->take(-std::exchange(held, 0));
  // The session's holding first pays what the key owes.
  const std::int64_t paid = std::clamp<std::int64_t>(-bucket->level(), 0, held);
  bucket->give(paid);
  held -= paid;
  if (use.ahead <= held) {
    bucket->give(held - use.ahead);
    held = use.ahead;
  } else {
    const std::int64_t given = std::min(use.ahead - held, std::max<std::int64_t>(bucket->level(), 0));
    bucket->take(given);
    held += given;
  }
  granted = use.used + held;
}

/// Reports what the bucket has left for all, and when it will have something.
void tell(const std::optional<TokenBucket>& bucket, TimePoint now, std::int64_t& left, Duration& wait) {
  if (!bucket) return;
  left = std::max<std::int64_t>(bucket->level(), 0);
  wait = bucket->when_level(1, now) - now;
}

}  // namespace

CallerBudgets::Space& CallerBudgets::space_of(std::string_view tenant) {
  const auto known = spaces_.find(tenant);
  return known != spaces_.end() ? known->second : spaces_[std::string(tenant)];
}

void CallerBudgets::forget_if_unused(std::string_view tenant) {
  const auto known = spaces_.find(tenant);
  if (known == spaces_.end()) return;
  const Space& space = known->second;
  if (space.sessions == 0 && space.holders == 0 && space.keys.empty()) spaces_.erase(known);
}

void CallerBudgets::drop_ended_sessions(TimePoint now) {
  std::erase_if(sessions_, [&](const auto& item) {
    if (item.second->until > now) return false;
    --space_of(tenant_of(item.first)).sessions;
    forget_if_unused(tenant_of(item.first));
    return true;
  });
}

CallerBudgets::SessionPtr CallerBudgets::session_of(std::string_view name, TimePoint now) {
  const auto known = sessions_.find(name);
  if (known != sessions_.end()) {
    // One that is over has lost what it held, and begins again under its name.
    if (known->second->until <= now) known->second = std::make_shared<Session>();
    return known->second;
  }
  const std::string_view tenant = tenant_of(name);
  const auto has_room = [&] {
    return sessions_.size() < kSessionsMax && has_part(tenant, space_of(tenant).sessions, kSessionsMax);
  };
  if (!has_room()) drop_ended_sessions(now);
  if (!has_room()) return nullptr;
  ++space_of(tenant).sessions;
  return sessions_.emplace(name, std::make_shared<Session>()).first->second;
}

/// Whether the key can be forgotten: no session holds a part, and the key owes nothing.
bool CallerBudgets::is_idle(const Budget& budget, TimePoint now) {
  const auto is_full = [&](std::optional<TokenBucket> bucket) {
    if (bucket) bucket->refill(now);
    return !bucket || bucket->level() == bucket->capacity();
  };
  return std::all_of(budget.holders.begin(), budget.holders.end(),
                     [&](const Holder& holder) { return holder.session->until <= now; }) &&
         is_full(budget.requests) && is_full(budget.tokens);
}

/// An idle key among those that are longest unused; null: none is idle.
template <class List>
CallerBudgets::Budget* CallerBudgets::first_idle(const List& keys, TimePoint now) {
  Budget* idle = keys.front();
  for (int looks = 1; idle != nullptr && !is_idle(*idle, now); ++looks)
    idle = looks < kLooksMax ? keys.next(*idle) : nullptr;
  return idle;
}

/// Requires: the key is idle.
void CallerBudgets::forget(Budget& budget, TimePoint now) {
  drop_ended(budget, now);
  by_use_.remove(budget);
  space_of(tenant_of(budget.name)).keys.remove(budget);
  keys_.erase(keys_.find(budget.name));
}

/// Null: there is no room for another one.
CallerBudgets::Budget* CallerBudgets::budget_of(std::string_view name, TimePoint now) {
  const std::string_view tenant = tenant_of(name);
  Space& space = space_of(tenant);
  if (const auto known = keys_.find(name); known != keys_.end()) {
    by_use_.remove(*known->second);
    by_use_.push_back(*known->second);
    space.keys.remove(*known->second);
    space.keys.push_back(*known->second);
    return known->second.get();
  }
  const bool has_part_left = has_part(tenant, space.keys.size(), kKeysMax);
  if (!has_part_left || keys_.size() >= kKeysMax) {
    Budget* const idle = has_part_left ? first_idle(by_use_, now) : first_idle(space.keys, now);
    if (idle == nullptr) return nullptr;
    const std::string whose(tenant_of(idle->name));
    forget(*idle, now);
    if (whose != tenant) forget_if_unused(whose);
  }
  auto budget = std::make_unique<Budget>();
  budget->name = name;
  Budget& added = *budget;
  keys_.emplace(added.name, std::move(budget));
  by_use_.push_back(added);
  space.keys.push_back(added);
  return &added;
}

/// A session that is heard of for the first time has used what it has used, before this broker or before its
/// silence: only what it uses from now on is booked.
CallerBudgets::Holder* CallerBudgets::holder_of(Budget& budget, const Asked& asked, const SessionPtr& session,
                                                TimePoint now) {
  const auto known = std::find_if(budget.holders.begin(), budget.holders.end(),
                                  [&](const Holder& holder) { return holder.session == session; });
  if (known != budget.holders.end()) return &*known;
  const std::string_view tenant = tenant_of(budget.name);
  const auto has_room = [&] {
    return holders_ < kHoldersMax && has_part(tenant, space_of(tenant).holders, kHoldersMax);
  };
  if (!has_room() && now - swept_at_ >= kDropPause) {
    swept_at_ = now;
    for (Budget* one = by_use_.front(); one != nullptr; one = by_use_.next(*one))
      drop_ended(*one, now);
  }
  if (!has_room()) return nullptr;
  ++holders_;
  ++space_of(tenant).holders;
  return &budget.holders.emplace_back(
      Holder{.session = session, .requests = asked.requests.used, .tokens = asked.tokens.used});
}

/// Drops what ended sessions held of the key.
void CallerBudgets::drop_ended(Budget& budget, TimePoint now) {
  const std::size_t ended =
      std::erase_if(budget.holders, [&](const Holder& holder) { return holder.session->until <= now; });
  if (ended == 0) return;
  holders_ -= ended;
  space_of(tenant_of(budget.name)).holders -= ended;
}

std::optional<CallerBudgets::Granted> CallerBudgets::spend(const Asked& asked, TimePoint now) {
  const SessionPtr session = session_of(asked.session, now);
  if (!session) {
    forget_if_unused(tenant_of(asked.session));
    return std::nullopt;
  }
  session->address = asked.address;
  session->until = now + kSilenceMax;
  Budget* const budget = budget_of(asked.key, now);
  if (budget == nullptr) return std::nullopt;
  drop_ended(*budget, now);
  Holder* const mine = holder_of(*budget, asked, session, now);
  if (mine == nullptr) return std::nullopt;
  Holder& holder = *mine;
  refill(budget->requests, asked.limits.requests_per_minute, now);
  refill(budget->tokens, asked.limits.tokens_per_minute, now);
  book(budget->requests, asked.requests, holder.requests);
  book(budget->tokens, asked.tokens, holder.tokens);
  std::int64_t ahead = asked.places.ahead;
  if (asked.limits.concurrency > 0) {
    std::int64_t free = asked.limits.concurrency - asked.places.used;
    for (const Holder& other : budget->holders)
      if (&other != &holder) free -= std::min(other.places, std::max<std::int64_t>(free, 0));
    ahead = std::clamp<std::int64_t>(free, 0, ahead);
  }
  holder.places = asked.places.used + ahead;
  Granted granted{.requests = holder.requests, .tokens = holder.tokens, .places = holder.places};
  tell(budget->requests, now, granted.requests_left, granted.requests_wait);
  tell(budget->tokens, now, granted.tokens_left, granted.tokens_wait);
  return granted;
}

void CallerBudgets::lost(std::string_view address, TimePoint now) {
  for (auto& [name, session] : sessions_)
    if (session->address == address) session->until = std::min(session->until, now + kLostPause);
}

void CallerBudgets::stood_still(Duration how_long) {
  for (auto& [name, session] : sessions_)
    session->until += how_long;
}

}  // namespace lanemq::core
