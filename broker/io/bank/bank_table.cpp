// SPDX-License-Identifier: Apache-2.0
#include "broker/io/bank/bank_table.hpp"

#include <chrono>
#include <utility>

#include "broker/io/store/postgres/database/postgres_schema.hpp"
#include "broker/io/store/postgres/database/primary.hpp"

namespace lanemq::io {
namespace {

using postgres::Clock;
using postgres::Fault;
using postgres::Outcome;
using postgres::Values;

/// An answer that has not come by then is given up, and the connection with it.
constexpr std::chrono::seconds kAnswerMax{2};

constexpr const char* kBegin = "bank_begin";
constexpr const char* kAdd = "bank_add";
constexpr const char* kLock = "bank_lock";
constexpr const char* kClock = "bank_clock";
constexpr const char* kWrite = "bank_write";
constexpr const char* kCommit = "bank_commit";
constexpr const char* kMayAdd = "bank_may_add";
constexpr const char* kMayWrite = "bank_may_write";
/// The place of kLock and kClock among the answers.
constexpr std::size_t kLockAt = 2, kClockAt = 3;

struct Statement {
  const char* name;
  const char* sql;
};
/// The clock is read by a statement of its own: one that locks may compute it before it has the lock. When it
/// was started tells one server from another.
constexpr Statement kStatements[] = {
    {kBegin, "BEGIN"},
    {kAdd, "INSERT INTO quota (budget, row) VALUES ($1, '') ON CONFLICT DO NOTHING"},
    {kLock, "SELECT row FROM quota WHERE budget = $1 FOR UPDATE"},
    {kClock,
     "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,"
     " (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint"},
    {kWrite, "UPDATE quota SET row = $2 WHERE budget = $1"},
    {kCommit, "COMMIT"},
    // Asks for what a draw needs, without writing a row.
    {kMayAdd, "INSERT INTO quota (budget, row) SELECT budget, row FROM quota WHERE false"},
    {kMayWrite, "UPDATE quota SET row = row WHERE false"},
};

/// The privilege that the role lacks; null: none.
constexpr const char* kMissingRight = R"(
SELECT CASE
  WHEN s.oid IS NULL THEN
    CASE WHEN NOT pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')
    THEN 'may not make a schema in the database "' || pg_catalog.current_database() || '"' END
  WHEN NOT pg_catalog.has_schema_privilege(s.oid, 'USAGE') THEN 'may not use the schema "' || $1 || '"'
  WHEN t.oid IS NULL THEN
    CASE WHEN NOT pg_catalog.has_schema_privilege(s.oid, 'CREATE')
    THEN 'may not make tables in the schema "' || $1 || '"' END
  WHEN NOT (pg_catalog.has_table_privilege(t.oid, 'SELECT') AND pg_catalog.has_table_privilege(t.oid, 'INSERT')
    AND pg_catalog.has_table_privilege(t.oid, 'UPDATE'))
  THEN 'may not write the table "quota" of the schema "' || $1 || '"'
  END
FROM (SELECT (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = $1) AS oid) s
LEFT JOIN pg_catalog.pg_class t ON t.relnamespace = s.oid AND t.relname = 'quota' AND t.relkind = 'r'
)";

Outcome<bool> has_table(postgres::Connection& connection, const std::string& schema, Clock::time_point end) {
  const auto found = connection.run(
      "SELECT 1::bigint FROM pg_catalog.pg_tables WHERE schemaname = $1 AND tablename = 'quota'",
      Values().text(schema), end);
  if (!found) return tl::unexpected(found.error());
  return found->rows() > 0;
}

Outcome<void> make_table(postgres::Connection& connection, const std::string& schema, Clock::time_point end) {
  const auto there = has_table(connection, schema, end);
  if (!there) return tl::unexpected(there.error());
  if (*there) return {};
  const auto schema_made = schema_statement(connection, schema, end);
  if (!schema_made) return tl::unexpected(schema_made.error());
  auto made = connection.run_script(
      "BEGIN; " + *schema_made +
          "CREATE TABLE quota (budget text PRIMARY KEY, row bytea NOT NULL) WITH (fillfactor = 20);"
          " ALTER TABLE quota ALTER COLUMN row SET STORAGE EXTERNAL; COMMIT",
      end);
  if (made) return {};
  // Another broker may have done the same at this moment: one of the two is refused, and finds what the other
  // made.
  static_cast<void>(connection.run_script("ROLLBACK", end));
  const auto by_another = has_table(connection, schema, end);
  if (!by_another || !*by_another) return made;
  return {};
}

}  // namespace

Outcome<void> BankTable::check(const PostgresPlace& place, const std::string& schema) {
  auto connection = open_to_check(place.target);
  if (!connection) return tl::unexpected(std::move(connection.error()));
  const auto missing = connection->run(kMissingRight, Values().text(schema), Clock::now() + kStatementMax);
  if (!missing) return tl::unexpected(missing.error());
  if (!missing->is_null(0, 0))
    return tl::unexpected(
        Fault{.state = kInsufficientPrivilege, .message = "its role " + std::string(missing->bytes(0, 0))});
  return open_to_check(place.target).and_then([&](postgres::Connection other) {
    return check_sessions(*connection, other, Clock::now() + kStatementMax);
  });
}

Outcome<void> BankTable::connect() {
  if (connection_.is_open()) return {};
  auto found = find_primary(place_.target);
  if (!found) return tl::unexpected(std::move(found.error()));
  return use(std::move(*found));
}

Outcome<void> BankTable::use(Primary primary) {
  postgres::Connection made = std::move(primary.connection);
  const auto end = Clock::now() + kStatementMax;
  const std::string held = std::to_string(kHeldMax.count()), waited = std::to_string(2 * kHeldMax.count());
  auto set = made.run_script(
      "SET idle_in_transaction_session_timeout = " + held + "; SET lock_timeout = " + waited, end);
  if (!set) return set;
  if (auto there = make_table(made, schema_, end); !there) return there;
  for (const Statement& statement : kStatements)
    if (auto prepared = made.prepare(statement.name, statement.sql, end); !prepared) return prepared;
  if (auto piped = made.begin_pipeline(); !piped) return piped;
  connection_ = std::move(made);
  timeline_ = primary.timeline;
  return {};
}

void BankTable::look_for_newer() {
  using namespace std::chrono_literals;
  if (!search_.valid()) {
    if (Clock::now() < search_at_) return;
    // A host that says nothing takes seconds, and draws go on.
    search_ = std::async(std::launch::async, [target = place_.target] { return find_primary(target); });
    return;
  }
  if (search_.wait_for(0s) != std::future_status::ready) return;
  search_at_ = Clock::now() + kSearchEvery;
  auto found = search_.get();
  if (!found || !connection_.is_open() || found->timeline <= timeline_) return;
  connection_.close();
  static_cast<void>(use(std::move(*found)));  // else the next draw connects anew
}

/// Waits for what was sent since the last sync.
Outcome<bool> BankTable::answered() {
  connection_.sync();
  auto answers = connection_.answers_by(Clock::now() + kAnswerMax);
  if (answers && !*answers) return tl::unexpected(Fault{.state = {}, .message = "it does not answer"});
  return answers;
}

Outcome<std::string> BankTable::lock_row(const std::string& budget, core::BankClock& clock) {
  connection_.send(kBegin, Values());
  connection_.send(kAdd, Values().text(budget));
  connection_.send(kLock, Values().text(budget));
  connection_.send(kClock, Values());
  if (auto answers = answered(); !answers) return tl::unexpected(std::move(answers.error()));
  const postgres::Answer& row = connection_.answers()[kLockAt];
  if (row.rows() != 1)
    return tl::unexpected(Fault{.state = "P0002", .message = "the row of the budget is gone"});
  const postgres::Answer& times = connection_.answers()[kClockAt];
  clock = {.now = core::TimePoint(std::chrono::microseconds(times.integer(0, 0))),
           .server = static_cast<std::uint64_t>(times.integer(0, 1))};
  return std::string(row.bytes(0, 0));
}

Outcome<void> BankTable::write_row(const std::string& budget, const std::string& row) {
  connection_.send(kWrite, Values().text(budget).bytes(row));
  connection_.send(kCommit, Values());
  if (auto answers = answered(); !answers) return tl::unexpected(std::move(answers.error()));
  if (connection_.answers()[0].changed() != 1)
    return tl::unexpected(Fault{.state = "P0002", .message = "the row of the budget is gone"});
  if (std::string warning = connection_.take_warning(); !warning.empty())
    return tl::unexpected(Fault{.state = {}, .message = std::move(warning)});
  return {};
}

Result<void> BankTable::look() {
  look_for_newer();
  const auto looked = connect().and_then([this]() -> Outcome<void> {
    connection_.send(kMayAdd, Values());
    connection_.send(kMayWrite, Values());
    return answered().map([](bool) {});
  });
  if (looked) return {};
  connection_.close();
  return failure(ErrorCode::unavailable, looked.error().message);
}

Result<void> BankTable::change(const std::string& budget, const Change& change) {
  look_for_newer();
  core::BankClock clock;
  auto row = connect().and_then([&] { return lock_row(budget, clock); });
  if (row) {
    auto changed = change(*row, clock);
    if (changed) {
      if (const auto written = write_row(budget, *changed); written)
        return {};
      else
        row = tl::unexpected(written.error());
    } else {
      connection_.close();  // which undoes the transaction
      return tl::unexpected(std::move(changed.error()));
    }
  }
  connection_.close();
  return failure(ErrorCode::unavailable, row.error().message);
}

}  // namespace lanemq::io
