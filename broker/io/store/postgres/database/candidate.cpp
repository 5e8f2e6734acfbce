// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/postgres/database/candidate.hpp"

#include <chrono>
#include <random>
#include <string_view>
#include <utility>

#include "broker/io/store/postgres/database/postgres_schema.hpp"

namespace lanemq::io {
namespace {

using postgres::Fault;
using postgres::Outcome;

/// How long a candidate waits for the row's lock, before it looks who has it.
constexpr std::chrono::milliseconds kLockMax{1000};
constexpr const char* kLockNotAvailable = "55P03";
/// A session that waits for what its client says next, in the middle of a transaction.
constexpr std::string_view kWaitsForClient = "ClientRead";

std::int64_t drawn_claim() {
  std::random_device random;
  return static_cast<std::int64_t>(std::uint64_t{random()} << 31 | random() >> 1);
}

}  // namespace

Outcome<std::optional<OwnerRow>> Candidate::look() {
  auto seen = connect().and_then([&] { return read_and_take(); });
  if (seen) return seen;
  // Nobody saw meanwhile whether the owner is alive.
  watch_.blind();
  connection_.close();
  if (!seen.error().is_for_now()) return seen;
  waiting_ = {.why = "the database cannot be used now: " + seen.error().message, .reached = false};
  return std::optional<OwnerRow>();
}

/// Not yet, for this reason.
std::optional<OwnerRow> Candidate::wait(std::string why) {
  waiting_.why = std::move(why);
  return std::nullopt;
}

Outcome<void> Candidate::connect() {
  if (connection_.is_open()) return {};
  auto found = find_primary(place_.target);
  if (!found) return tl::unexpected(std::move(found.error()));
  return use(std::move(*found));
}

Outcome<void> Candidate::use(Primary primary) {
  connection_ = std::move(primary.connection);
  timeline_ = primary.timeline;
  const std::string session = "SET lock_timeout = " + std::to_string(kLockMax.count()) +
                              "; SET application_name = " + connection_.quoted(name_of_waiting(place_));
  if (auto set = connection_.run_script(session, postgres::Clock::now() + kStatementMax); !set) return set;
  const auto end = postgres::Clock::now() + kStatementMax;
  if (epoch_seen_ > 0) {
    // A store that was here is somewhere: new tables in its place would hide it.
    const auto there = has_schema(connection_, place_.target.search_path, end);
    if (!there) return tl::unexpected(there.error());
    if (!*there)
      return tl::unexpected(Fault{.state = "3F000", .message = "its tables were there and are gone"});
  }
  // Before it waits: what its role lacks shows now, and not when it is needed.
  return make_schema(connection_, place_.target.search_path, end).and_then([&] {
    return check_shard(connection_, shard_, end);
  });
}

Outcome<std::optional<OwnerRow>> Candidate::read_and_take() {
  const auto now = postgres::Clock::now();
  const auto row = read_owner(connection_, now + kStatementMax);
  if (!row) return tl::unexpected(row.error());
  const bool may_take = watch_.may_take(*row, now);
  waiting_ = {.owner = row->instance, .epoch = row->epoch, .stands = watch_.stands(now)};
  epoch_seen_ = std::max(epoch_seen_, row->epoch);
  if (!may_take)
    return wait(
        "\"" + row->instance + "\" owns the store (epoch " + std::to_string(row->epoch) + ")" +
        (row->epoch < epoch_seen_
             ? ", and there was epoch " + std::to_string(epoch_seen_) +
                   ": this is a former primary, or was restored, and what was accepted since is missing"
             : ""));
  const auto moved = find_newer(*row);
  if (!moved) return tl::unexpected(moved.error());
  if (*moved) return wait("another server knows more of the owner");
  // Checks made for this connection may be out of date: an owner that cannot write or read would be none, and
  // the store's first owner may have noted its shard.
  const auto end = postgres::Clock::now() + kStatementMax;
  if (auto good = check_usable(connection_, place_.target.search_path, end).and_then([&] {
        return check_shard(connection_, shard_, end);
      });
      !good)
    return tl::unexpected(std::move(good.error()));
  static_cast<void>(connection_.take_warning());  // of something else
  const OwnerRow mine{.epoch = row->epoch + 1, .ticket = 0, .instance = instance_, .claim = drawn_claim()};
  const auto taken = take_ownership(connection_, *row, mine, postgres::Clock::now() + kStatementMax);
  if (!taken && taken.error().state == kLockNotAvailable) return end_holder();
  if (!taken) return tl::unexpected(taken.error());
  if (*taken && !connection_.take_warning().empty()) {
    // A wait for a standby that was cancelled: the row says so on this server, and perhaps on no other.
    watch_.blind();
    connection_.close();
    return wait("the database does not know whether this broker has taken the store over");
  }
  if (*taken) return std::optional(mine);
  return wait("another candidate was faster");
}

/// The row may stand still at a former primary alone, while the owner commits at the one that was promoted.
Outcome<bool> Candidate::find_newer(const OwnerRow& row) {
  auto found = find_primary(place_.target);
  // An owner needs two: one that has no room for a second would own the store and could not read it.
  if (!found) {
    found.error().message =
        "a second connection, which an owner needs, cannot be made: " + found.error().message;
    return tl::unexpected(std::move(found.error()));
  }
  if (auto own = check_sessions(connection_, found->connection, postgres::Clock::now() + kStatementMax); !own)
    return tl::unexpected(std::move(own.error()));
  if (!found->is_ahead_of(row, timeline_)) return false;
  if (auto used = use(std::move(*found)); !used) return tl::unexpected(std::move(used.error()));
  watch_.blind();
  return true;
}

/// The owner's transaction holds the row's lock, and does not end. Where the server waits for the owner's
/// next word, the owner stands still or is cut off: its session is ended, which undoes the transaction. Where
/// it waits for anything else, as a disk or a standby, the database is slow, and a new owner would wait as
/// well.
Outcome<std::optional<OwnerRow>> Candidate::end_holder() {
  const auto holder = connection_.run(
      "SELECT a.pid::bigint, coalesce(a.wait_event, '') FROM owner o "
      "JOIN pg_catalog.pg_locks l ON l.locktype = 'transactionid' AND l.granted AND l.transactionid = o.xmax "
      "JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid AND a.usename = current_user",
      postgres::Clock::now() + kStatementMax);
  if (!holder) return tl::unexpected(holder.error());
  if (holder->rows() == 0) return wait("the owner's transaction has just ended");
  const std::string_view waits_for = holder->bytes(0, 1);
  if (waits_for != kWaitsForClient)
    return wait("a transaction of the owner holds the row, and waits for " +
                (waits_for.empty() ? "nothing" : std::string(waits_for)) + ": the database is slow");
  const auto ended = connection_.run("SELECT pg_catalog.pg_terminate_backend($1::bigint::int)",
                                     postgres::Values().integer(holder->integer(0, 0)),
                                     postgres::Clock::now() + kStatementMax);
  if (!ended) return tl::unexpected(ended.error());
  return wait("a transaction of the owner holds the row, and its owner says nothing: it was ended");
}

}  // namespace lanemq::io
