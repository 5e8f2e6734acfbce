// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/postgres/postgres_statements.hpp"

#include <string>

namespace lanemq::io {
namespace {

using postgres::Clock;
using postgres::Connection;
using postgres::Outcome;

constexpr Statement kStatements[] = {kBegin,        kFence,      kCommit,     kRollback,  kEraseJobs,
                                     kEraseResults, kEraseNotes, kCheckParts, kInsertPart};
constexpr RowsStatement kRowsStatements[] = {kChangeJobs, kInsertJobs, kInsertResults, kPutNotes};

/// The server knows nothing of the tables' sizes when it plans, and each statement names rows by their keys.
constexpr const char* kPlans =
    "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off; "
    "SET plan_cache_mode = force_generic_plan";

/// The text for a single row: `$1::bigint` where there was `unnest($1::bigint[])`.
std::string of_one(std::string sql) {
  for (const std::string_view word : {"unnest", "[]"})
    for (std::size_t at = sql.find(word); at != std::string::npos; at = sql.find(word, at))
      sql.erase(at, word.size());
  return sql;
}

}  // namespace

Outcome<void> prepare_statements(Connection& connection, Clock::time_point end) {
  if (auto set = connection.run_script(kPlans, end); !set) return set;
  for (const Statement& statement : kStatements)
    if (auto done = connection.prepare(statement.name, statement.sql, end); !done) return done;
  for (const RowsStatement& statement : kRowsStatements) {
    auto done = connection.prepare(statement.of_many, statement.sql, end);
    if (done) done = connection.prepare(statement.of_one, of_one(statement.sql), end);
    if (!done) return done;
  }
  return {};
}

Columns& Columns::integers(std::span<const std::int64_t> values) {
  if (rows_ == 1)
    values_.integer(values.front());
  else
    values_.integers(values);
  return *this;
}

Columns& Columns::bytes(std::span<const std::optional<std::string_view>> values) {
  if (rows_ == 1)
    values_.bytes(values.front());
  else
    values_.bytes_array(values);
  return *this;
}

Columns& Columns::and_their_count() {
  values_.integer(static_cast<std::int64_t>(rows_));
  return *this;
}

void Columns::send(Connection& connection, const RowsStatement& statement) const {
  connection.send(rows_ == 1 ? statement.of_one : statement.of_many, values_);
}

}  // namespace lanemq::io
