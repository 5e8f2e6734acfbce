// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/postgres/postgres_commits.hpp"

#include <algorithm>
#include <ctime>
#include <thread>
#include <utility>

#include "broker/io/base/failpoint.hpp"
#include "broker/io/base/time_slice.hpp"
#include "broker/io/store/postgres/database/postgres_schema.hpp"
#include "broker/io/store/postgres/postgres_rows.hpp"
#include "broker/io/store/postgres/postgres_statements.hpp"

namespace lanemq::io {
namespace {

using namespace std::chrono_literals;
using postgres::Connection;
using postgres::Fault;
using postgres::Outcome;

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

/// Tells one server from another, whatever name, address or proxy leads to it.
Outcome<std::string> server_of(Connection& connection) {
  const auto row = connection.run(
      "SELECT pg_catalog.pg_postmaster_start_time()::text || ' ' || "
      "coalesce(pg_catalog.inet_server_addr()::text, '')",
      postgres::Clock::now() + kStatementMax);
  if (!row) return tl::unexpected(row.error());
  return std::string(row->bytes(0, 0));
}

}  // namespace

PostgresCommits::PostgresCommits(const PostgresPlace& place, StoreExchange& exchange, PostgresBodies& bodies,
                                 OwnerRow owned, Patience patience, AskPromise ask_promise)
    : place_(place),
      exchange_(exchange),
      bodies_(bodies),
      ask_promise_(std::move(ask_promise)),
      fence_(std::move(owned), patience.lease, patience.away_max, since_boot()),
      good_at_(fence_.good_at()) {}

std::chrono::milliseconds PostgresCommits::since_commit() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(since_boot() -
                                                               good_at_.load(std::memory_order_relaxed));
}

StoreTransactions PostgresCommits::transactions() const {
  constexpr auto kAny = std::memory_order_relaxed;
  return {.count = counts_.transactions.load(kAny),
          .writes = counts_.writes.load(kAny),
          .bytes = counts_.bytes.load(kAny),
          .time = std::chrono::microseconds(counts_.microseconds.load(kAny)),
          .doubts = counts_.doubts.load(kAny)};
}

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
  NetWrites net = reducer.net();
  bodies_.name_parts(net);
  const Clock::time_point began = Clock::now();
  const auto good_at = good_at_.load();
  if (!settle(net, count > 0)) return;
  reached(Failpoint::store_after_commit);
  if (since_boot() - good_at >= fence_.away_after()) exchange_.signal();  // it is away no more
  beat_at_ = Clock::now() + OwnerWatch::kBeat;
  if (!exchange_.trouble().empty()) exchange_.set_condition(StoreCondition::good, {});
  counts_.writes.fetch_add(writes, std::memory_order_relaxed);
  for (std::size_t at = turns_.next; at < turns_.next + count; ++at)
    bodies_.committed(turns_.items[at]);
  const std::size_t bytes = exchange_.committed_now(turns_, count);
  if (count == 0) return;
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - began).count();
  counts_.transactions.fetch_add(1, std::memory_order_relaxed);
  counts_.bytes.fetch_add(bytes, std::memory_order_relaxed);
  counts_.microseconds.fetch_add(static_cast<std::uint64_t>(took), std::memory_order_relaxed);
}

/// Sends one transaction until it is in for good. False: nothing is committed any more; the condition says
/// why.
bool PostgresCommits::settle(NetWrites& net, bool has_changes) {
  NetWrites nothing;
  bool goes_on = true;
  fence_.begin(has_changes);
  while (goes_on && fence_.step() != CommitFence::Step::done) {
    switch (fence_.step()) {
      case CommitFence::Step::send:
        goes_on = connection_.is_open() ? send_and_wait(fence_.sends_changes() ? net : nothing) : lose();
        break;
      case CommitFence::Step::read_row:
        goes_on = read_row();
        break;
      case CommitFence::Step::wait_for_room:
        goes_on = wait_for_room();
        break;
      case CommitFence::Step::done:
      case CommitFence::Step::deposed:
      case CommitFence::Step::commits_lost:
        goes_on = false;
        break;
    }
  }
  return goes_on;
}

/// Pauses, and shows candidates now and then that the owner is alive.
bool PostgresCommits::wait_for_room() {
  std::this_thread::sleep_for(kRetryPause);
  if (!may_go_on()) return false;
  const bool beats = Clock::now() >= beat_at_;
  if (beats) beat_at_ = Clock::now() + OwnerWatch::kBeat;
  fence_.waited(beats);
  return true;
}

/// The connection is of no use any more. Where a transaction was sent by it nobody knows now whether it is
/// in.
bool PostgresCommits::lose() {
  connection_.close();
  fence_.lost();
  return true;
}

bool PostgresCommits::send_and_wait(NetWrites& net) {
  fence_.sent(since_boot());
  static_cast<void>(connection_.take_warning());  // of something else
  const auto looks = send_batch(
      connection_, {.epoch = fence_.epoch(), .ticket = fence_.next_ticket(), .claim = fence_.owner().claim},
      net);
  auto look_at = Clock::now() + kHangs;
  while (true) {
    const auto answered = connection_.answers_by(Clock::now() + kSlice);
    pulse_.fetch_add(2, std::memory_order_relaxed);
    if (!answered) return take_fault(answered.error(), looks, net);
    if (*answered) break;
    if (!may_go_on()) return false;
    if (Clock::now() < look_at) continue;
    if (another_is_primary()) return lose();
    say_away(
        "the database has not answered a commit for two seconds: it is slow, hangs, or waits for a standby");
    look_at = Clock::now() + kHangs;
  }
  const bool warned = !connection_.take_warning().empty();
  if (warned) static_cast<void>(lose());
  if (!warned && !is_committed(connection_))
    return fail("a transaction without an error was not committed", "look at the database's log");
  fence_.committed(warned);
  good_at_ = fence_.good_at();
  return true;
}

/// The meaning of a statement's refusal. `looks`: as send_batch() has returned them.
bool PostgresCommits::take_fault(const Fault& fault, std::span<const std::size_t> looks, NetWrites& net) {
  const std::size_t place = connection_.refused();
  if (fault.lost()) return lose();
  if (const auto undone = undo(connection_, Clock::now() + kStatementMax); !undone || !*undone) return lose();
  if (fault.state == kDivisionByZero && place == kFencePlace) {
    fence_.refused(CommitFence::Refusal::fence);
    return true;
  }
  if (fault.state == kDivisionByZero && std::find(looks.begin(), looks.end(), place) != looks.end()) {
    bodies_.name_in_turn(net);
    fence_.refused(CommitFence::Refusal::passing);
    return may_go_on();
  }
  if (fault.state == kDivisionByZero)
    return fail("a row that was to be changed is not there", "restore the database's backup");
  // No room on the disk, in memory, for connections: there may be later.
  if (fault.state.starts_with("53")) {
    fence_.refused(CommitFence::Refusal::room);
    say_full(fault.message);
    return true;
  }
  if (fault.passes() || is_for_operator(fault)) {
    if (!fault.passes()) say_away("the database refuses a commit: " + fault.message);
    fence_.refused(CommitFence::Refusal::passing);
    std::this_thread::sleep_for(kRetryPause);
    return may_go_on();
  }
  return fail(fault.message, "look at the database's log, then start the broker again");
}

/// By the connection that stands, or a new one.
bool PostgresCommits::read_row() {
  if (connection_.is_open() && connection_.end_pipeline()) {
    const auto row = read_owner(connection_, Clock::now() + kStatementMax);
    if (row && connection_.begin_pipeline()) return take_row(*row);
  }
  connection_.close();
  return reconnect();
}

bool PostgresCommits::take_row(const OwnerRow& row) {
  const bool in_doubt = fence_.in_doubt();
  fence_.row_read(row);
  if (fence_.step() == CommitFence::Step::deposed && fence_.owns(row)) {
    exchange_.set_condition(StoreCondition::deposed,
                            "the database's servers went on apart, and have different last commits of this "
                            "owner, none of which was told; the next owner reads what is there");
    return false;
  }
  if (fence_.step() == CommitFence::Step::deposed) {
    const std::string who =
        row.instance.empty() ? "an operator (--fence), or one that is gone," : "\"" + row.instance + "\"";
    exchange_.set_condition(StoreCondition::deposed, who + " has taken the store over (epoch " +
                                                         std::to_string(row.epoch) + " after " +
                                                         std::to_string(fence_.epoch()) + ")");
    return false;
  }
  if (in_doubt) counts_.doubts.fetch_add(1, std::memory_order_relaxed);
  if (fence_.step() != CommitFence::Step::commits_lost) return true;
  const std::string knows =
      row.epoch < fence_.epoch()
          ? "epoch " + std::to_string(row.epoch) + ", and this owner has " + std::to_string(fence_.epoch())
          : std::to_string(row.ticket) + " by this owner, who has made " + std::to_string(fence_.ticket());
  return fail("the database has lost commits: it knows of " + knows,
              "it was restored, or a standby was promoted that had not received them: find the database that "
              "has them, or start again and go on with what is there");
}

Outcome<OwnerRow> PostgresCommits::connect() {
  Outcome<Primary> found = server_.other ? std::move(*server_.other) : find_primary(place_.target);
  server_.other.reset();
  if (!found) return tl::unexpected(std::move(found.error()));
  Connection& made = found->connection;
  auto server = server_of(made);
  if (!server) return tl::unexpected(std::move(server.error()));
  if (auto prepared = prepare_statements(made, Clock::now() + kStatementMax); !prepared)
    return tl::unexpected(prepared.error());
  // The store's promise is then known before the first commit there is told.
  if (!ask_promise_(made, connections() + 1))
    return tl::unexpected(
        Fault{.state = {}, .message = "it does not say whether commits wait for a standby"});
  if (auto begun = made.begin_pipeline(); !begun) return tl::unexpected(begun.error());
  server_.reached = std::move(*server);
  connection_ = std::move(made);
  {
    const StoreExchange::Lock held = exchange_.lock();
    counts_.connections.fetch_add(1, std::memory_order_release);
  }
  exchange_.wake();
  exchange_.signal();  // the promise may be another one
  return std::move(found->row);
}

bool PostgresCommits::reconnect() {
  while (may_go_on()) {
    pulse_.fetch_add(2, std::memory_order_relaxed);
    const auto row = connect();
    if (row) return take_row(*row);
    if (!row.error().is_for_now() && !is_for_operator(row.error()))
      return fail(row.error().message, "look at the database's log, then start the broker again");
    say_away("the database cannot be used now: " + row.error().message);
    std::this_thread::sleep_for(kRetryPause);
  }
  return false;
}

bool PostgresCommits::another_is_primary() {
  auto found = find_primary(place_.target);
  if (!found) return false;
  const auto server = server_of(found->connection);
  if (!server || *server == server_.reached) return false;
  server_.other = std::move(*found);
  return true;
}

bool PostgresCommits::away() const {
  return since_boot() - good_at_.load(std::memory_order_relaxed) >= fence_.away_after();
}

/// Whether to try on; else the condition says why not.
bool PostgresCommits::may_go_on() {
  const std::int64_t end_by = end_by_;
  if (end_by != 0 && Clock::now().time_since_epoch().count() >= end_by) {
    fail("the database did not commit in time for the end",
         "look at the database, then start the broker again");
    return false;
  }
  const auto now = since_boot();
  if (fence_.is_patient(now)) return true;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - fence_.good_at()).count();
  const std::string why = exchange_.trouble();
  exchange_.set_condition(StoreCondition::deposed,
                          "this broker has committed nothing for " + std::to_string(seconds) +
                              " s, so another one may own the store" + (why.empty() ? "" : ": " + why));
  return false;
}

/// Says what people are told of a commit that does not come.
void PostgresCommits::say_away(const std::string& why) {
  exchange_.set_condition(exchange_.condition(), why);
}

void PostgresCommits::say_full(const std::string& why) {
  exchange_.set_condition(
      StoreCondition::full,
      "the database is full: " + why +
          "; what is durable waits, and new jobs are taken again when there is room: free "
          "some of the database's disk");
}

bool PostgresCommits::fail(const std::string& why, const std::string& what_to_do) {
  exchange_.set_condition(StoreCondition::failed, failed_text(why, what_to_do));
  return false;
}

void PostgresCommits::end_within(std::chrono::milliseconds time) {
  end_by_ = time == 0ms ? 0 : (Clock::now() + time).time_since_epoch().count();
}

bool PostgresCommits::give_back() {
  if (exchange_.over() || (!connection_.is_open() && !connect())) return false;
  // An error leaves the row as it is: a candidate then waits for the lease.
  static_cast<void>(connection_.end_pipeline());
  return io::give_back(connection_, fence_.owner(), Clock::now() + 1s).has_value();
}

std::string PostgresCommits::successor(std::chrono::milliseconds patience) {
  const auto end = Clock::now() + patience;
  while (true) {
    const auto row = read_owner(connection_, end);
    if (!row) return {};
    if (row->epoch != fence_.epoch()) return row->instance;
    if (Clock::now() + kRetryPause >= end) return {};
    std::this_thread::sleep_for(kRetryPause);
  }
}

}  // namespace lanemq::io
