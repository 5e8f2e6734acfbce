// SPDX-License-Identifier: Apache-2.0
#include "broker/io/postgres/postgres_reads.hpp"

#include <span>
#include <string>
#include <thread>
#include <utility>

#include "broker/io/postgres/postgres_rows.hpp"

namespace lanemq::io {
namespace {

using namespace std::chrono_literals;
using postgres::Connection;
using postgres::Outcome;
using postgres::Server;

/// Reading and vacuuming may take longer.
constexpr auto kLong = 10min;
/// Dead rows are removed so often, once so many writes were committed.
constexpr auto kVacuumPause = 2s;
constexpr std::uint64_t kVacuumWrites = 1000;

constexpr const char* kVacuumed[] = {"job", "owner", "note", "result", "body", "result_body"};

}  // namespace

std::optional<std::int64_t> PostgresReads::unix_us() {
  if (!connect()) return std::nullopt;
  const auto now =
      connection_.run("SELECT (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::bigint",
                      Clock::now() + kStatementMax);
  if (!now) return std::nullopt;
  return now->integer(0, 0);
}

Result<void> PostgresReads::load(StoreReader& reader) {
  if (const auto connected = connect(); !connected)
    return failure(ErrorCode::internal,
                   "the store " + place_.text + " cannot be read: " + connected.error().message);
  return tell_rows(connection_, reader, place_.text);
}

void PostgresReads::run() {
  runs_ = true;
  connection_.give_up_when([this] { return is_over(); });
  StoreExchange::Lock lock = exchange_.lock();
  vacuum_at_ = Clock::now() + kVacuumPause;
  while (!exchange_.ends(lock)) {
    exchange_.wait_until(lock, vacuum_at_, [&] { return exchange_.ends(lock) || can_serve(lock); });
    if (asks_.empty()) exchange_.take(lock, asks_);
    if (exchange_.over()) vacuum_at_ = Clock::now() + kVacuumPause;
    const bool reads = can_serve(lock);
    lock.unlock();
    if (reads) read_next();
    if (Clock::now() >= vacuum_at_) vacuum();
    lock.lock();
  }
}

/// Whether nobody needs an answer any more.
bool PostgresReads::is_over() const {
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
  if (found) {
    asks_.next += count;
    return exchange_.give(*found);
  }
  connection_.close();
  if (!found.error().lost()) {
    exchange_.set_condition(StoreCondition::failed,
                            failed_text(place_, found.error().message,
                                        "look at the database's log, then start the broker again"));
    return;
  }
  std::this_thread::sleep_for(kRetryPause);
}

Outcome<void> PostgresReads::connect() {
  if (connection_.is_open()) return {};
  auto made = Connection::open(place_.target, Server::writable);
  if (!made) return tl::unexpected(std::move(made.error()));
  connection_ = std::move(*made);
  if (runs_) connection_.give_up_when([this] { return is_over(); });
  return connection_.run_script("SET vacuum_cost_delay = 0", Clock::now() + kStatementMax);
}

/// Removes dead rows: left to the server's own vacuum, tables of this churn grow to many times what is alive.
void PostgresReads::vacuum() {
  vacuum_at_ = Clock::now() + kVacuumPause;
  const std::uint64_t writes = writes_();
  if (writes - vacuumed_ < kVacuumWrites || !connect()) return;
  vacuumed_ = writes;
  for (const char* const table : kVacuumed)
    if (!connection_.run_script("VACUUM (TRUNCATE off) " + std::string(table), Clock::now() + kLong)) {
      connection_.close();  // it is tried again next time
      return;
    }
}

}  // namespace lanemq::io
