// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/postgres/postgres_reads.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "broker/io/store/postgres/database/postgres_schema.hpp"
#include "broker/io/store/postgres/database/primary.hpp"
#include "broker/io/store/postgres/postgres_rows.hpp"

namespace lanemq::io {
namespace {

using namespace std::chrono_literals;
using postgres::Fault;
using postgres::Outcome;

/// Reading and vacuuming may take longer.
constexpr auto kLong = 10min;
/// Lower bounds on the time and on committed writes between two removals of dead rows.
constexpr auto kVacuumPause = 1s;
constexpr std::uint64_t kVacuumWrites = 1000;

/// How long a load waits for the first connection of commits.
constexpr auto kFirstCommitMax = 2s;
constexpr const char* kVacuumed[] = {"job", "owner", "note", "result", "body"};

}  // namespace

std::optional<std::int64_t> PostgresReads::unix_us() {
  if (!connect()) return std::nullopt;
  const auto now =
      connection_.run("SELECT (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::bigint",
                      Clock::now() + kStatementMax);
  if (now) return now->integer(0, 0);
  connection_.close();
  return std::nullopt;
}

Result<void> PostgresReads::load(StoreReader& reader, std::vector<std::int64_t>& parts) {
  // Before the first job is taken, at the server that commits have reached.
  StoreExchange::Lock lock = exchange_.lock();
  exchange_.wait_until(lock, Clock::now() + kFirstCommitMax, [&] { return commits_.connections() > 0; });
  lock.unlock();
  look();
  while (true) {
    const auto reached = connect().and_then([&] { return find_owned(); });
    if (reached) {
      auto told = tell_rows(connection_, reader, place_.text, parts);
      // The reader has a part already: the next start reads anew.
      if (!told && told.error().code == ErrorCode::unavailable)
        exchange_.set_condition(StoreCondition::broken_off, told.error().message);
      return told;
    }
    connection_.close();
    const bool is_broken_off = is_for_operator(reached.error());
    if (is_broken_off) exchange_.set_condition(StoreCondition::broken_off, reached.error().message);
    if (is_broken_off || !reached.error().is_for_now() || exchange_.over())
      return failure(ErrorCode::internal,
                     "the store " + place_.text + " cannot be read: " + reached.error().message);
    std::this_thread::sleep_for(kRetryPause);
  }
}

/// A server that does not know this owner is not read: an old primary may live on, and what others have
/// committed since is not there.
Outcome<void> PostgresReads::find_owned() {
  const auto row = read_owner(connection_, Clock::now() + kStatementMax);
  if (!row) return tl::unexpected(row.error());
  if (row->is_of(owned_)) return {};
  const std::string of_epoch = row->epoch == owned_.epoch ? "of the same epoch, by another takeover"
                                                          : "epoch " + std::to_string(row->epoch) +
                                                                " and not " + std::to_string(owned_.epoch);
  return tl::unexpected(Fault{
      .state = {}, .message = "its server says that \"" + row->instance + "\" owns it (" + of_epoch + ")"});
}

void PostgresReads::run() {
  runs_ = true;
  connection_.give_up_when([this] { return is_over(); });
  StoreExchange::Lock lock = exchange_.lock();
  vacuum_at_ = Clock::now() + kVacuumPause;
  while (!exchange_.ends(lock)) {
    exchange_.wait_until(lock, exchange_.over() ? vacuum_at_ : std::min(vacuum_at_, look_.due_at()), [&] {
      return exchange_.ends(lock) || can_serve(lock) || (!exchange_.over() && look_.at_once());
    });
    if (asks_.empty()) exchange_.take(lock, asks_);
    if (exchange_.over()) vacuum_at_ = Clock::now() + kVacuumPause;
    const bool reads = can_serve(lock);
    lock.unlock();
    if (reads) read_next();
    if (Clock::now() >= vacuum_at_) {
      look_for_candidates();
      vacuum();
    }
    if (!exchange_.over() && (Clock::now() >= look_.due_at() || look_.at_once())) look();
    lock.lock();
  }
}

/// Whether nobody needs an answer any more, or it is another server's to give.
bool PostgresReads::is_over() const {
  if (is_elsewhere()) return true;
  const auto lock = exchange_.lock();
  return exchange_.over() || exchange_.ends(lock);
}

/// Whether something can be read now.
bool PostgresReads::can_serve(const StoreExchange::Lock& lock) const {
  if (exchange_.over()) return false;
  if (asks_.empty()) return exchange_.has_asks(lock);
  return asks_.front().after <= exchange_.committed();
}

/// Reads what was asked for first, and what can be read together with it.
void PostgresReads::read_next() {
  std::size_t count = 0;
  const std::uint64_t committed = exchange_.committed();
  const bool of_result = asks_.front().of_result;
  while (count < kAskedAtOnce && asks_.next + count < asks_.items.size()) {
    const StoreExchange::Asked& asked = asks_.items[asks_.next + count];
    if (asked.of_result != of_result || asked.after > committed) break;
    ++count;
  }
  if (count == 0) return;
  auto found = connect().and_then([&] {
    return read_rows(connection_, std::span(asks_.items).subspan(asks_.next, count), Clock::now() + kLong);
  });
  if (is_elsewhere()) return connection_.close();  // what a former primary says may be old
  if (found) {
    said_.refused = false;
    asks_.next += count;
    return exchange_.give(*found);
  }
  connection_.close();
  const bool is_refused = found.error().passes() || is_for_operator(found.error());
  if (!is_refused && !found.error().is_for_now()) {
    exchange_.set_condition(
        StoreCondition::failed,
        failed_text(found.error().message, "look at the database's log, then start the broker again"));
    return;
  }
  if (is_refused && !std::exchange(said_.refused, true))
    exchange_.remark("the database refuses for now to read bodies back from the store " + place_.text +
                     ", and is asked again: " + found.error().message);
  std::this_thread::sleep_for(kRetryPause);
}

/// Whether commits have reached a server anew since this connection was made.
bool PostgresReads::is_elsewhere() const {
  return commits_.connections() != reached_;
}

Outcome<void> PostgresReads::connect() {
  if (connection_.is_open() && !is_elsewhere()) return {};
  connection_.close();
  reached_ = commits_.connections();
  auto found = find_primary(place_.target);
  if (!found) return tl::unexpected(std::move(found.error()));
  connection_ = std::move(found->connection);
  if (runs_) connection_.give_up_when([this] { return is_over(); });
  return connection_.run_script("SET vacuum_cost_delay = 0", Clock::now() + kStatementMax);
}

/// Removes dead rows: left to the server's own vacuum, tables of this churn grow to many times what is alive.
void PostgresReads::vacuum() {
  vacuum_at_ = Clock::now() + kVacuumPause;
  const std::uint64_t writes = commits_.writes();
  if (writes - vacuumed_ < kVacuumWrites || !connect()) return;
  vacuumed_ = writes;
  static_cast<void>(connection_.take_warning());  // of something else
  for (const char* const table : kVacuumed)
    if (!connection_.run_script("VACUUM (TRUNCATE off) " + std::string(table), Clock::now() + kLong)) {
      connection_.close();  // it is tried again next time
      return;
    }
  // Tables of another role are left out with a warning alone.
  const std::string warning = connection_.take_warning();
  if (warning.empty() || std::exchange(said_.no_vacuum, true)) return;
  exchange_.remark(
      "the broker may not remove dead rows of the store " + place_.text + ": " + warning +
      "; make its role the owner of the tables (ALTER TABLE ... OWNER TO), or they grow until the "
      "database's own vacuum comes");
}

void PostgresReads::look_for_candidates() {
  if (connect() && !look_.ask_candidates(connection_)) connection_.close();
}

/// Looks how the database is, at the server that commits have reached.
void PostgresReads::look() {
  const std::uint64_t connections = commits_.connections();
  if (look_.is_elsewhere()) connection_.close();
  if (connect() && look_.ask(connection_, connections)) return;
  connection_.close();
  look_.failed();
}

}  // namespace lanemq::io
