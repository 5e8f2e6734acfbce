// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/caller_ledger.hpp"

#include <algorithm>

#include <lanemq/codec.hpp>

#include "tests/sim/model.hpp"

namespace lanemq::sim {
namespace {

using std::chrono::seconds;

constexpr std::int64_t kMinute = 60'000'000;  // in microseconds
/// As docs/protocol/client.md says: a session is over when nothing was heard of it for so long, or so long
/// after its connection was lost.
constexpr Duration kSilence = seconds(15), kLost = seconds(6);

std::string number(std::int64_t value) {
  return std::to_string(value);
}

}  // namespace

// ---- windows ------------------------------------------------------------------------------------------

/// Up to now nothing changed: the window that begins now, and all before it.
void CallerLedger::Window::pass(std::int64_t held, TimePoint now) {
  brought += Scaled(limit) * (now - at).count();
  at = now;
  best = std::max(best, brought + allowed - used - Scaled(held + limit) * kMinute);
}

/// What the sessions may still use of what they were given, whoever knows of it.
std::int64_t CallerLedger::held(const std::string& name, CallerShare::Part CallerShare::*part,
                                std::int64_t Holder::*booked) const {
  const auto shares = shares_.find(name);
  if (shares == shares_.end()) return 0;
  const Key& key = keys_.at(name);
  std::int64_t sum = 0;
  for (const auto& [session, share] : shares->second) {
    const auto holder = key.holders.find(session);
    const std::int64_t given = holder == key.holders.end() ? 0 : holder->second.*booked;
    const CallerShare::Part& its = share.*part;
    sum += std::max<std::int64_t>(std::max({its.granted, given, its.said}) - its.used, 0);
  }
  return sum;
}

void CallerLedger::changing(const std::string& key, TimePoint now) {
  Key& its = keys_[key];
  its.requests.pass(held(key, &CallerShare::requests, &Holder::requests), now);
  its.tokens.pass(held(key, &CallerShare::tokens, &Holder::tokens), now);
}

void CallerLedger::used(const std::string& key, std::int64_t requests, std::int64_t tokens,
                        std::int64_t beyond) {
  Key& its = keys_[key];
  its.requests.used += Scaled(requests) * kMinute;
  its.tokens.used += Scaled(tokens) * kMinute;
  its.tokens.allowed += Scaled(beyond) * kMinute;
  if (its.requests.limit > 0 && its.requests.overdrawn())
    violated("gateways let more requests of " + key + " through than its limit of " +
             number(its.requests.limit) + " a minute and what they had ahead");
  if (its.tokens.limit > 0 && its.tokens.overdrawn())
    violated("gateways let more tokens of " + key + " through than its limit of " + number(its.tokens.limit) +
             " a minute, what they had ahead and their debts");
}

void CallerLedger::began(const std::string& key) {
  Key& its = keys_[key];
  ++its.running;
  if (its.concurrency > 0 && its.running > its.concurrency && !its.excused)
    violated(number(its.running) + " calls of " + key + " run at once, and it has " +
             number(its.concurrency) + " places");
}

void CallerLedger::died(const std::string& session, TimePoint now) {
  for (auto& [key, shares] : shares_) {
    changing(key, now);
    shares.erase(session);
  }
}

// ---- what the broker knows ----------------------------------------------------------------------------

bool CallerLedger::lives(const std::string& session, TimePoint now) const {
  const auto place = sessions_.find(session);
  return place != sessions_.end() && now < place->second.until;
}

void CallerLedger::drop_ended(Key& key, const std::string& name, TimePoint now) {
  for (auto holder = key.holders.begin(); holder != key.holders.end();) {
    if (lives(holder->first, now)) {
      ++holder;
      continue;
    }
    const auto& shares = shares_[name];
    const auto share = shares.find(holder->first);
    // It is still there, and the broker thinks that it is gone.
    if (share != shares.end() && std::max(share->second.places.used, share->second.places.granted) > 0)
      key.excused = true;
    holder = key.holders.erase(holder);
  }
}

void CallerLedger::asked(const std::string& address, const wire::Spend& spend, TimePoint now) {
  const std::string session(spend.session), name(spend.key);
  changing(name, now);
  Key& key = keys_[name];
  drop_ended(key, name, now);
  // One that is over begins again, and has nothing of any key.
  if (!lives(session, now))
    for (auto& [other, its] : keys_)
      drop_ended(its, other, now);
  sessions_[session] = {.address = address, .until = now + kSilence};
  asked_.push_back(
      {.ref = ref_number(spend.ref).value_or(0), .key = name, .session = session, .said = spend});
  asked_.back().said.key = asked_.back().said.session = {};
  asked_.back().said.ref = {};
}

void CallerLedger::set_limits(Key& key, const wire::Spend& said, TimePoint now) {
  const auto set = [&](Window& window, Account& account, std::int64_t limit) {
    window.allowed += Scaled(std::max<std::int64_t>(limit - window.limit, 0)) * kMinute;
    window.limit = limit;
    account.change(limit, now);
  };
  set(key.requests, key.requests_account, said.requests_per_minute);
  set(key.tokens, key.tokens_account, said.tokens_per_minute);
  if (said.concurrency < key.concurrency) key.excused = true;
  key.concurrency = said.concurrency;
}

void CallerLedger::answered(const wire::Spent& spent, TimePoint now) {
  if (asked_.empty() || asked_.front().ref != ref_number(spent.ref))
    violated("a spend was answered that nobody said, or out of its turn");
  const Asked asked = asked_.front();
  asked_.pop_front();
  ++answers_;
  if (spent.key != asked.key) violated("a spend of " + asked.key + " was answered for another key");
  changing(asked.key, now);
  Key& key = keys_[asked.key];
  set_limits(key, asked.said, now);
  const wire::Spend& said = asked.said;
  const auto [holder, fresh] =
      key.holders.try_emplace(asked.session, Holder{.requests = said.requests, .tokens = said.tokens});
  Holder& its = holder->second;
  const auto share = shares_[asked.key].find(asked.session);
  if (share != shares_[asked.key].end() && asked.ref == share->second.last_ref)
    share->second.places.on_way = spent.places;
  if (share != shares_[asked.key].end() && asked.ref < share->second.last_ref) {
    // Said long ago: what it gives back its gateway may use all the same, and learns that by its next answer.
    const auto given_back = [](std::int64_t granted, std::int64_t wanted) {
      return Scaled(std::max<std::int64_t>(granted - wanted, 0)) * kMinute;
    };
    key.requests.allowed += given_back(its.requests, said.requests + said.requests_ahead);
    key.tokens.allowed += given_back(its.tokens, said.tokens + said.tokens_ahead);
    // And what it says was used then may have been corrected since.
    key.tokens.allowed += given_back(said.tokens, its.tokens);
    key.excused = true;
  }
  book(key.requests_account, said.requests, said.requests_ahead, its.requests, spent.requests,
       "requests of " + asked.key);
  book(key.tokens_account, said.tokens, said.tokens_ahead, its.tokens, spent.tokens,
       "tokens of " + asked.key);
  check_left(key.requests_account, spent.requests_left, spent.requests_wait_ms, "requests of " + asked.key);
  check_left(key.tokens_account, spent.tokens_left, spent.tokens_wait_ms, "tokens of " + asked.key);
  book_places(key, asked, its, spent.places);
  settle_places(asked.key, now);
}

void CallerLedger::unreachable(const std::string& address, TimePoint now) {
  for (auto& [name, session] : sessions_)
    if (session.address == address) session.until = std::min(session.until, now + kLost);
}

void CallerLedger::stood_still(Duration how_long) {
  for (auto& [name, session] : sessions_)
    session.until += how_long;
}

void CallerLedger::broker_is_new(TimePoint now) {
  asked_.clear();
  sessions_.clear();
  for (auto& [name, key] : keys_) {
    changing(name, now);
    key.requests.allowed += Scaled(key.requests.limit) * kMinute;
    key.tokens.allowed += Scaled(key.tokens.limit) * kMinute;
    key.requests_account = key.tokens_account = {};
    key.holders.clear();
    // Places that gateways have, in use or not yet, are news to it until they say so.
    const auto& shares = shares_[name];
    key.excused = key.excused || key.running > 0 ||
                  std::any_of(shares.begin(), shares.end(),
                              [](const auto& one) { return one.second.places.granted > 0; });
  }
}

void CallerLedger::check_answered() const {
  if (!asked_.empty()) violated("a spend of " + asked_.front().key + " was not answered");
}

// ---- the account --------------------------------------------------------------------------------------

/// A limit that is new begins full; a changed one keeps what was used.
void CallerLedger::Account::change(std::int64_t to, TimePoint now) {
  if (limit) level = std::min(level + Scaled(*limit) * (now - at).count(), Scaled(*limit) * kMinute);
  at = now;
  if (to == 0) {
    limit.reset();
  } else if (!limit) {
    limit = to;
    level = Scaled(to) * kMinute;
    rounded = 0;
  } else if (to != *limit) {
    level += Scaled(to - *limit) * kMinute;
    limit = to;
    ++rounded;
  }
}

std::int64_t CallerLedger::Account::whole() const {
  return level < 0 ? 0 : static_cast<std::int64_t>(level / kMinute);
}

void CallerLedger::Account::take(std::int64_t tokens) {
  level = std::min(level - Scaled(tokens) * kMinute, Scaled(*limit) * kMinute);
}

void CallerLedger::book(Account& account, std::int64_t used, std::int64_t ahead, std::int64_t& granted,
                        std::int64_t answer, const std::string& what) const {
  const std::int64_t wanted = used + ahead;
  std::int64_t least = wanted, most = wanted;
  if (account.limit) {
    if (granted < used) account.take(used - std::exchange(granted, used));
    const std::int64_t there = account.whole(), held = granted - used;
    // What it holds pays what the key owes, in whole tokens. Of how much that is roundings make a range.
    const auto owes = [&](Scaled level) {
      return level < 0 ? static_cast<std::int64_t>((kMinute - 1 - level) / kMinute) : 0;
    };
    const std::int64_t owes_most = owes(account.level - Scaled(account.rounded) * kMinute),
                       owes_least = std::max<std::int64_t>(owes(account.level) - 1 - account.rounded, 0);
    least = std::min(wanted, owes_most > 0 ? granted - std::min(owes_most, held)
                                           : granted + std::max<std::int64_t>(there - account.rounded, 0));
    most = std::min(wanted, owes_least > 0 ? granted - std::min(owes_least, held) : granted + there);
    account.take(answer - granted);
  }
  if (answer < least || answer > most)
    violated("a gateway may use " + number(answer) + " " + what + ", and should between " + number(least) +
             " and " + number(most) + ", of " + number(wanted) + " that it wants");
  granted = answer;
}

void CallerLedger::check_left(const Account& account, std::int64_t left, std::int64_t wait_ms,
                              const std::string& what) const {
  if (!account.limit) {
    if (left != 0 || wait_ms != 0) violated("there is no limit of " + what + ", and something is left");
    return;
  }
  const std::int64_t there = account.whole();
  if (left > there || left < there - account.rounded)
    violated(number(left) + " " + what + " are said to be left, and " + number(there) + " are");
  if ((wait_ms == 0) != (left > 0))
    violated("who waits for " + what + " is told to for no reason, or not to");
  if (account.rounded > 0 || wait_ms == 0) return;
  const auto level_in = [&](std::int64_t ms) { return account.level + Scaled(*account.limit) * ms * 1000; };
  if (level_in(wait_ms) < kMinute || level_in(wait_ms - 1) >= kMinute)
    violated("there are " + what + " at another time than in " + number(wait_ms) + " ms");
}

// ---- places -------------------------------------------------------------------------------------------

/// Those in use count in any case; others are given as far as all sessions leave some.
void CallerLedger::book_places(Key& key, const Asked& asked, Holder& holder, std::int64_t answer) const {
  std::int64_t expected = asked.said.places_ahead;
  if (key.concurrency > 0) {
    std::int64_t others = 0;
    for (const auto& [session, other] : key.holders)
      if (session != asked.session) others += other.places;
    expected = std::clamp<std::int64_t>(key.concurrency - asked.said.places - others, 0, expected);
  }
  holder.places = answer;
  if (answer != asked.said.places + expected)
    violated("a gateway has " + number(answer) + " places of " + asked.key + ", and should " +
             number(asked.said.places + expected));
}

/// Whether the broker knows of all that runs again, and there is room for that.
void CallerLedger::settle_places(const std::string& name, TimePoint now) {
  Key& key = keys_[name];
  if (!key.excused || key.running > key.concurrency) return;
  std::int64_t given = 0, known = 0;
  for (const auto& [session, holder] : key.holders)
    given += holder.places;
  for (const auto& [session, share] : shares_[name]) {
    const auto holder = key.holders.find(session);
    const bool lives_here = holder != key.holders.end() && lives(session, now);
    if (!lives_here && std::max(share.places.used, share.places.granted) > 0) return;
    if (lives_here && std::max(share.places.granted, share.places.on_way) > holder->second.places) return;
    known += share.places.used;
  }
  // What runs besides are calls of gateways that died.
  if (given <= key.concurrency && known == key.running) key.excused = false;
}

}  // namespace lanemq::sim
