// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/postgres/postgres_bodies.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "broker/io/store/postgres/database/postgres_schema.hpp"
#include "broker/io/store/postgres/database/primary.hpp"

namespace lanemq::io {
namespace {

using postgres::Fault;
using postgres::Outcome;
using postgres::Values;

/// A part that is not in by then is put again by another connection.
constexpr std::chrono::seconds kPartMax{30};
constexpr std::chrono::minutes kRemoveMax{1};

/// The pause before the next try where none has succeeded for kNowhereMax, and before what has time.
constexpr std::chrono::seconds kPutAgain{1};
constexpr std::chrono::seconds kRemoveAgain{5};

/// Reads the primary key alone: the load has found which rows name these bodies. Without an index on that
/// column, asking the server would read all rows.
constexpr const char* kOfOthers = "SELECT DISTINCT number FROM body WHERE number < 0 AND number > $1::bigint";

}  // namespace

void PostgresBodies::put(const Blob& body) {
  const StoreExchange::Lock lock = exchange_.lock();
  shared_.bodies[body.bytes().data()] = {.body = body};
  shared_.to_put.push_back(body.bytes().data());
  exchange_.wake();
}

void PostgresBodies::take_put(std::vector<Blob>& bodies) {
  const StoreExchange::Lock lock = exchange_.lock();
  std::move(shared_.put.begin(), shared_.put.end(), std::back_inserter(bodies));
  shared_.put.clear();
}

void PostgresBodies::discard(const Blob& body) {
  const StoreExchange::Lock lock = exchange_.lock();
  const auto at = shared_.bodies.find(body.bytes().data());
  if (at == shared_.bodies.end() || !at->second.key) return;
  shared_.to_remove.push_back(*at->second.key);
  put_bytes_ -= body.size();
  shared_.bodies.erase(at);
  exchange_.wake();
}

// A turn can have a body only once that is in, and put_bytes() counts it until its turn is: where it says
// none, commits take no lock that the loop wants as well.

void PostgresBodies::name_parts(NetWrites& net) {
  for (NetWrites::NewJob& job : net.new_jobs)
    name_parts(job.body, job.parts);
  for (NetWrites::NewResult& result : net.new_results)
    name_parts(result.body, result.parts);
}

void PostgresBodies::name_parts(std::string_view body, NetWrites::Parts& parts) {
  if (body.size() <= kPartsFromBytes) return;
  if (put_bytes() != 0) {
    const StoreExchange::Lock lock = exchange_.lock();
    if (const auto at = shared_.bodies.find(body.data()); at != shared_.bodies.end() && at->second.key) {
      at->second.named = true;
      parts = {.key = *at->second.key, .put = true};
      return;
    }
  }
  parts.key = new_key();
}

void PostgresBodies::name_in_turn(NetWrites& net) {
  const auto name = [this](NetWrites::Parts& parts) {
    if (parts.put) parts = {.key = new_key(), .put = false};
  };
  for (NetWrites::NewJob& job : net.new_jobs)
    name(job.parts);
  for (NetWrites::NewResult& result : net.new_results)
    name(result.parts);
}

void PostgresBodies::committed(const core::Writes& writes) {
  if (put_bytes() == 0) return;
  const StoreExchange::Lock lock = exchange_.lock();
  for (const core::Write& write : writes) {
    const bool inserts =
        write.kind == core::Write::Kind::insert_job || write.kind == core::Write::Kind::insert_result;
    const auto at = inserts ? shared_.bodies.find(writes.body(write).data()) : shared_.bodies.end();
    if (at == shared_.bodies.end() || !at->second.key) continue;
    if (!at->second.named)
      shared_.to_remove.push_back(*at->second.key);  // its row has gone in the same transaction
    put_bytes_ -= at->second.body.size();
    shared_.bodies.erase(at);
  }
}

void PostgresBodies::run() {
  StoreExchange::Lock lock = exchange_.lock();
  while (true) {
    exchange_.wait(lock, [&] {
      return exchange_.ends(lock) ||
             (!exchange_.over() && (!shared_.to_put.empty() || !shared_.to_remove.empty() || of_others_));
    });
    if (exchange_.ends(lock)) return;
    if (!shared_.to_put.empty())
      put_next(lock);
    else if (Clock::now() >= remove_at_)
      remove_next(lock);
    else
      exchange_.wait_until(lock, remove_at_, [&] {
        return exchange_.ends(lock) || exchange_.over() || !shared_.to_put.empty();
      });
  }
}

/// Tries to put the next body, or waits until it may.
void PostgresBodies::put_next(StoreExchange::Lock& lock) {
  const char* const at = shared_.to_put.front();
  if (Clock::now() < fails_.again_at) {
    if (gets_nowhere()) return give(at);
    exchange_.wait_until(lock, fails_.again_at, [&] { return exchange_.ends(lock) || exchange_.over(); });
    return;
  }
  const Blob body = shared_.bodies.at(at).body;
  const std::int64_t key = new_key();
  lock.unlock();
  auto in = connect();
  const bool connected = in.has_value();
  if (connected) in = put_parts(key, body.bytes());
  if (in && is_elsewhere())
    in = tl::unexpected(Fault{.state = {}, .message = "commits have reached a server anew"});
  if (!in) connection_.close();
  const bool lost = !in && in.error().lost();
  if (lost) failed(in.error().message);
  lock.lock();
  if (connected && !in) shared_.to_remove.push_back(key);
  if (lost) return;
  fails_ = {};
  if (!in) return give(at);
  shared_.bodies.at(at).key = key;
  put_bytes_ += body.size();
  shared_.to_put.pop_front();
  shared_.put.push_back(body);
  exchange_.signal();
}

/// Gives the next body, which is at `at`, back to go with its turn.
void PostgresBodies::give(const char* at) {
  const auto body = shared_.bodies.find(at);
  shared_.put.push_back(body->second.body);
  shared_.bodies.erase(body);
  shared_.to_put.pop_front();
  exchange_.signal();
}

/// Whether bodies have to go with their turns. Where commits come to nothing either, the database is away: a
/// body would only hold up what is committed first when it is back.
bool PostgresBodies::gets_nowhere() const {
  return fails_.since && Clock::now() - *fails_.since >= kNowhereMax && !commits_.away();
}

/// Nothing could be put, for want of a server: says when to try again.
void PostgresBodies::failed(const std::string& why) {
  const auto now = Clock::now();
  if (!fails_.since) fails_.since = now;
  fails_.again_at = now + (now - *fails_.since < kNowhereMax ? kRetryPause : kPutAgain);
  if (!gets_nowhere() || std::exchange(fails_.told, true)) return;
  exchange_.remark("no large body can be put into the store " + place_.text +
                   " ahead of its turn, so that they go with their turns and hold others up: " + why +
                   "; let the broker's role have four connections");
}

/// Removes what the next key names, or finds the keys that earlier owners have left.
void PostgresBodies::remove_next(StoreExchange::Lock& lock) {
  const bool finds = shared_.to_remove.empty();
  std::vector<std::int64_t> keys;
  if (!finds) {
    keys.push_back(shared_.to_remove.back());
    shared_.to_remove.pop_back();
  }
  lock.unlock();
  const auto done = finds ? find_of_others(keys) : remove(keys.front());
  if (!done || (finds && keys.empty())) connection_.close();  // it is seldom needed
  lock.lock();
  const bool again = !done && done.error().is_for_now();
  if (again) remove_at_ = Clock::now() + kRemoveAgain;
  if (finds ? done.has_value() : again)
    shared_.to_remove.insert(shared_.to_remove.end(), keys.begin(), keys.end());
  if (finds && !again) of_others_.reset();  // what is refused is left to a later owner
}

Outcome<void> PostgresBodies::put_parts(std::int64_t key, std::string_view body) {
  for (std::size_t begin = 0; begin < body.size(); begin += kPartBytes) {
    const auto put =
        connection_.run("INSERT INTO body (number, part, bytes) VALUES ($1::bigint, $2::bigint, $3::bytea)",
                        Values()
                            .integer(key)
                            .integer(static_cast<std::int64_t>(begin / kPartBytes))
                            .bytes(body.substr(begin, kPartBytes)),
                        Clock::now() + kPartMax);
    if (!put) return tl::unexpected(put.error());
    // A wait for a standby that was cancelled succeeds, with a warning alone.
    if (std::string warning = connection_.take_warning(); !warning.empty())
      return tl::unexpected(Fault{.state = {}, .message = std::move(warning)});
  }
  return {};
}

/// Bounds the wait for a lock: the bodies to be put wait behind it.
Outcome<void> PostgresBodies::remove(std::int64_t key) {
  return connect().and_then([&] {
    return connection_.run_script(
        "SET LOCAL lock_timeout = 1000; DELETE FROM body WHERE number = " + std::to_string(key),
        Clock::now() + kRemoveMax);
  });
}

Outcome<void> PostgresBodies::find_of_others(std::vector<std::int64_t>& keys) {
  return connect().and_then([&]() -> Outcome<void> {
    const auto rows = connection_.run(kOfOthers, Values().integer(first_own_key_), Clock::now() + kRemoveMax);
    if (!rows) return tl::unexpected(rows.error());
    for (int row = 0; row < rows->rows(); ++row)
      if (const std::int64_t key = rows->integer(row, 0); !of_others_->contains(key)) keys.push_back(key);
    return {};
  });
}

/// Whether commits have reached a server anew since this connection was made.
bool PostgresBodies::is_elsewhere() const {
  return commits_.connections() != reached_;
}

Outcome<void> PostgresBodies::connect() {
  if (connection_.is_open() && !is_elsewhere()) return {};
  connection_.close();
  reached_ = commits_.connections();
  auto found = find_primary(place_.target);
  if (!found) return tl::unexpected(std::move(found.error()));
  connection_ = std::move(found->connection);
  connection_.give_up_when([this] {
    if (is_elsewhere()) return true;
    const StoreExchange::Lock lock = exchange_.lock();
    return exchange_.over() || exchange_.ends(lock);
  });
  return {};
}

}  // namespace lanemq::io
