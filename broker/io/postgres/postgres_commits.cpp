// SPDX-License-Identifier: Apache-2.0
#include "broker/io/postgres/postgres_commits.hpp"

#include <algorithm>
#include <ctime>
#include <thread>
#include <utility>

#include "broker/io/failpoint.hpp"
#include "broker/io/postgres/postgres_rows.hpp"
#include "broker/io/postgres/postgres_schema.hpp"
#include "broker/io/time_slice.hpp"

namespace lanemq::io {
namespace {

using namespace std::chrono_literals;
using postgres::Connection;
using postgres::Fault;
using postgres::Outcome;
using postgres::Server;

/// How often a wait for the server's answer looks up.
constexpr auto kSlice = 250ms;
/// A server that has not answered for so long may be a primary no more: it is looked for another one.
constexpr auto kHangs = 2s;

/// Runs through a suspend, after which another broker may own the store.
std::chrono::nanoseconds since_boot() {
  timespec time{};
  clock_gettime(CLOCK_BOOTTIME, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

/// Tells one server from another, behind whatever name, address or proxy it is reached.
Outcome<std::string> server_of(Connection& connection) {
  const auto row = connection.run(
      "SELECT pg_catalog.pg_postmaster_start_time()::text || ' ' || "
      "coalesce(pg_catalog.inet_server_addr()::text, '')",
      postgres::Clock::now() + kStatementMax);
  if (!row) return tl::unexpected(row.error());
  return std::string(row->bytes(0, 0));
}

}  // namespace

PostgresCommits::PostgresCommits(const PostgresPlace& place, StoreExchange& exchange, OwnerRow owned,
                                 std::chrono::milliseconds lease, std::chrono::milliseconds away_max)
    : place_(place),
      exchange_(exchange),
      owned_(std::move(owned)),
      patience_{.away_after = lease * 4 / 5, .over_after = lease + away_max},
      good_at_(since_boot()) {}

void PostgresCommits::run() {
  ask_for_time_slice(0ns);  // bulk work: the loop gets its turn first
  StoreExchange::Lock lock = exchange_.lock();
  while (true) {
    const bool failed = exchange_.over();
    const bool nothing = turns_.empty() && !exchange_.has_turns(lock);
    exchange_.set_idle(lock, nothing || failed);
    if (exchange_.ends(lock) && (nothing || failed)) return;
    exchange_.wait_until(lock, failed ? Clock::now() + OwnerWatch::kBeat : beat_at_, [&] {
      return exchange_.ends(lock) || (!failed && (!turns_.empty() || exchange_.has_turns(lock)));
    });
    if (failed) continue;
    if (turns_.empty()) exchange_.take(lock, turns_);
    lock.unlock();
    pulse_.fetch_add(1, std::memory_order_relaxed);
    commit_next();
    pulse_.fetch_add(1, std::memory_order_relaxed);
    lock.lock();
  }
}

/// Commits what was taken, and where nothing was, that the owner is alive.
void PostgresCommits::commit_next() {
  if (turns_.empty() && Clock::now() >= beat_at_) return commit_batch(0);
  while (!turns_.empty() && !exchange_.over())
    commit_batch(turns_of_transaction(turns_));
}

void PostgresCommits::commit_batch(std::size_t count) {
  WriteReducer reducer;
  std::uint64_t writes = 0;
  for (std::size_t at = turns_.next; at < turns_.next + count; ++at) {
    reducer.add(turns_.items[at]);
    writes += turns_.items[at].size();
  }
  reached(Failpoint::store_before_write);
  const NetWrites net = reducer.net();
  End end = settle(net);
  while (end == End::full && wait_for_room())
    end = settle(net);
  // It is in by the row's word; a commit of our own has to follow before that is told.
  while (end == End::in_by_row)
    end = settle({});
  if (end != End::committed) return;
  reached(Failpoint::store_after_commit);
  beat_at_ = Clock::now() + OwnerWatch::kBeat;
  if (!exchange_.trouble().empty()) exchange_.set_condition(StoreCondition::good, {});
  writes_.fetch_add(writes, std::memory_order_relaxed);
  exchange_.committed_now(turns_, count);
}

/// Sends one transaction until it is known what has become of it. Nothing else may be sent before: an earlier
/// sending may still be under way on the server, and the row's ticket does not tell what was in it.
PostgresCommits::End PostgresCommits::settle(const NetWrites& net) {
  while (true) {
    End end = connection_.is_open() ? send_and_wait(net) : End::lost;
    if (end == End::lost) end = reconnect();
    if (end == End::again) continue;
    if (end == End::committed || end == End::in_by_row) ++owned_.ticket;
    return end;
  }
}

/// Pauses, and shows candidates meanwhile that the owner is alive: that takes no room. False: it is over.
bool PostgresCommits::wait_for_room() {
  std::this_thread::sleep_for(kRetryPause);
  if (!may_go_on()) return false;
  if (Clock::now() < beat_at_) return true;
  beat_at_ = Clock::now() + OwnerWatch::kBeat;
  return settle({}) != End::over;
}

PostgresCommits::End PostgresCommits::send_and_wait(const NetWrites& net) {
  const auto sent_at = since_boot();
  static_cast<void>(connection_.take_warning());  // of something else
  send_batch(connection_, {.epoch = owned_.epoch, .ticket = owned_.ticket + 1}, net);
  auto look_at = Clock::now() + kHangs;
  while (true) {
    const auto answered = connection_.answers_by(Clock::now() + kSlice);
    pulse_.fetch_add(2, std::memory_order_relaxed);
    if (!answered) return outcome_of(answered.error());
    if (*answered) break;
    if (!may_go_on()) return End::over;
    if (Clock::now() < look_at) continue;
    if (another_is_primary()) {
      connection_.close();
      return End::lost;
    }
    say_away(
        "the database has not answered a commit for two seconds: it is slow, hangs, or waits for a standby");
    look_at = Clock::now() + kHangs;
  }
  // A wait for a standby that was cancelled succeeds, with a warning alone.
  if (!connection_.take_warning().empty()) {
    connection_.close();
    return End::lost;
  }
  if (is_committed(connection_)) {
    good_at_ = sent_at;
    return End::committed;
  }
  return fail("a transaction without an error was not committed", "look at the database's log");
}

/// What a statement's refusal means.
PostgresCommits::End PostgresCommits::outcome_of(const Fault& fault) {
  const std::size_t place = connection_.refused();
  if (fault.lost()) {
    connection_.close();
    return End::lost;
  }
  if (const auto undone = undo(connection_, Clock::now() + kStatementMax); !undone || !*undone) {
    connection_.close();
    return End::lost;
  }
  if (fault.state == kDivisionByZero && place == kFencePlace) return read_row_again();
  if (fault.state == kDivisionByZero)
    return fail("a row that was to be changed is not there", "restore the database's backup");
  // No room on the disk, in memory, for connections: there may be later.
  if (fault.state.starts_with("53")) return set_full(fault.message);
  // Rolled back for the sake of others, refused for a lock, or cancelled by an operator.
  if (fault.state.starts_with("40") || fault.state.starts_with("55") || fault.state == "57014") {
    if (!may_go_on()) return End::over;
    std::this_thread::sleep_for(kRetryPause);
    return End::again;
  }
  return fail(fault.message, "look at the database's log, then start the broker again");
}

/// The fence has refused: either another one owns the store, or an earlier sending of this transaction is in.
PostgresCommits::End PostgresCommits::read_row_again() {
  if (!connection_.end_pipeline()) {
    connection_.close();
    return End::lost;
  }
  const auto row = read_owner(connection_, Clock::now() + kStatementMax);
  if (!row || !connection_.begin_pipeline()) {
    connection_.close();
    return End::lost;
  }
  return judge(*row);
}

/// What the row says of the transaction that comes after `owned_`.
PostgresCommits::End PostgresCommits::judge(const OwnerRow& row) {
  if (row.epoch != owned_.epoch) {
    exchange_.set_condition(StoreCondition::deposed,
                            "\"" + row.instance + "\" has taken the store " + place_.text + " over (epoch " +
                                std::to_string(row.epoch) + " after " + std::to_string(owned_.epoch) +
                                "); started again, this broker waits for it");
    return End::over;
  }
  if (row.ticket == owned_.ticket + 1) return End::in_by_row;
  if (row.ticket == owned_.ticket) return End::again;
  return fail("the database has lost commits: it knows of " + std::to_string(row.ticket) +
                  " by this owner, who has made " + std::to_string(owned_.ticket),
              "it was restored, or a standby was promoted that had not received them: find the database that "
              "has them, or start again and go on with what is there");
}

Outcome<OwnerRow> PostgresCommits::connect() {
  auto made = Connection::open(place_.target, Server::writable);
  if (!made) return tl::unexpected(std::move(made.error()));
  const auto end = Clock::now() + kStatementMax;
  auto server = server_of(*made);
  if (!server) return tl::unexpected(std::move(server.error()));
  auto row = read_owner(*made, end);
  if (!row) return row;
  if (auto prepared = prepare_writes(*made, end); !prepared) return tl::unexpected(prepared.error());
  if (auto begun = made->begin_pipeline(); !begun) return tl::unexpected(begun.error());
  server_ = std::move(*server);
  connection_ = std::move(*made);
  return row;
}

PostgresCommits::End PostgresCommits::reconnect() {
  while (may_go_on()) {
    pulse_.fetch_add(2, std::memory_order_relaxed);
    const auto row = connect();
    if (row) return judge(*row);
    if (!row.error().lost())
      return fail(row.error().message, "look at the database's log, then start the broker again");
    say_away("the database cannot be reached: " + row.error().message);
    std::this_thread::sleep_for(kRetryPause);
  }
  return End::over;
}

bool PostgresCommits::another_is_primary() {
  auto other = Connection::open(place_.target, Server::writable);
  if (!other) return false;
  const auto server = server_of(*other);
  return server && *server != server_;
}

bool PostgresCommits::away() const {
  return since_boot() - good_at_.load(std::memory_order_relaxed) >= patience_.away_after;
}

/// Whether to try on; else the condition says why not.
bool PostgresCommits::may_go_on() {
  const std::int64_t end_by = end_by_;
  if (end_by != 0 && Clock::now().time_since_epoch().count() >= end_by) {
    fail("the database did not commit in time for the end",
         "look at the database, then start the broker again");
    return false;
  }
  const auto without_commit = since_boot() - good_at_.load();
  if (without_commit < patience_.over_after) return true;
  exchange_.set_condition(
      StoreCondition::deposed,
      "this broker has committed nothing to the store " + place_.text + " for " +
          std::to_string(std::chrono::duration_cast<std::chrono::seconds>(without_commit).count()) +
          " s, so another one may own it by now; started again, this one waits for it. " +
          exchange_.trouble());
  return false;
}

/// Says what people are told of a commit that does not come.
void PostgresCommits::say_away(const std::string& why) {
  exchange_.set_condition(exchange_.condition(), "the store " + place_.text + ": " + why);
}

PostgresCommits::End PostgresCommits::set_full(const std::string& why) {
  exchange_.set_condition(
      StoreCondition::full,
      "the store " + place_.text + " is full: " + why +
          "; what is durable waits, and new jobs are taken again when there is room: free "
          "some of the database's disk");
  return End::full;
}

PostgresCommits::End PostgresCommits::fail(const std::string& why, const std::string& what_to_do) {
  exchange_.set_condition(StoreCondition::failed, failed_text(place_, why, what_to_do));
  return End::over;
}

void PostgresCommits::end_within(std::chrono::milliseconds time) {
  end_by_ = time == 0ms ? 0 : (Clock::now() + time).time_since_epoch().count();
}

void PostgresCommits::give_back() {
  if (exchange_.over() || (!connection_.is_open() && !connect())) return;
  // An error leaves the row as it is: a candidate then waits for the lease.
  static_cast<void>(connection_.end_pipeline());
  static_cast<void>(io::give_back(connection_, owned_.epoch, Clock::now() + 1s));
}

}  // namespace lanemq::io
