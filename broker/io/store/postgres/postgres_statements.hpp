// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "common/postgres/connection.hpp"
#include "common/postgres/values.hpp"

namespace lanemq::io {

/// A statement of a store's transaction, prepared by its name.
struct Statement {
  const char* name;
  const char* sql;
};

/// One that takes rows, column by column: prepared for columns that come as arrays, and for a single row
/// whose values come as they are, which is much cheaper to begin. The text is of the former; each array is
/// unnested, and is the value itself in the latter.
///
/// Arrays are unnested side by side in the list of columns: in FROM the server would first put all rows
/// aside.
struct RowsStatement {
  const char* of_many;
  const char* of_one;
  const char* sql;
};

// A statement that does not change as many rows as it should divides by zero, which refuses the transaction.

inline constexpr Statement kBegin{"begin", "BEGIN"};
inline constexpr Statement kFence{
    "fence",
    "WITH mine AS (UPDATE owner SET ticket = $2::bigint, at = clock_timestamp() "
    "WHERE epoch = $1::bigint AND ticket = $2::bigint - 1 AND claim = $3::bigint RETURNING 1) SELECT 1 / "
    "count(*) FROM mine"};
inline constexpr Statement kCommit{"commit", "COMMIT"};
inline constexpr Statement kRollback{"rollback", "ROLLBACK"};
inline constexpr Statement kEraseJobs{
    "erase_jobs",
    "WITH gone AS (DELETE FROM job WHERE number = ANY ($1::bigint[]) RETURNING parts_of), "
    "parts AS (DELETE FROM body WHERE number IN (SELECT parts_of FROM gone WHERE parts_of IS NOT NULL)) "
    "SELECT 1 / (count(*) = cardinality($1::bigint[]))::int FROM gone"};
inline constexpr Statement kEraseResults{
    "erase_results",
    "WITH gone AS (DELETE FROM result WHERE number = ANY ($1::bigint[]) RETURNING parts_of), "
    "parts AS (DELETE FROM body WHERE number IN (SELECT parts_of FROM gone WHERE parts_of IS NOT NULL)) "
    "SELECT 1 / (count(*) = cardinality($1::bigint[]))::int FROM gone"};
inline constexpr Statement kEraseNotes{"erase_notes", "DELETE FROM note WHERE name = ANY ($1::bytea[])"};
/// Its last parameter is the count of rows.
inline constexpr RowsStatement kChangeJobs{
    "change_jobs", "change_job",
    "WITH changed AS (UPDATE job SET number = c.renamed, state = c.state, state_checksum = c.checksum "
    "FROM (SELECT unnest($1::bigint[]) AS number, unnest($2::bigint[]) AS renamed, "
    "unnest($3::bytea[]) AS state, unnest($4::bigint[]) AS checksum) AS c WHERE job.number = c.number "
    "RETURNING 1) SELECT 1 / (count(*) = $5::bigint)::int FROM changed"};
inline constexpr RowsStatement kInsertJobs{
    "insert_jobs", "insert_job",
    "INSERT INTO job (number, state_checksum, checksum, body_checksum, body_bytes, parts_of, state, record, "
    "body) SELECT n, sc, c, bc, bb, NULLIF(p, 0), s, r, b "
    "FROM (SELECT unnest($1::bigint[]) AS n, unnest($2::bigint[]) AS sc, unnest($3::bigint[]) AS c, "
    "unnest($4::bigint[]) AS bc, unnest($5::bigint[]) AS bb, unnest($6::bigint[]) AS p, "
    "unnest($7::bytea[]) AS s, unnest($8::bytea[]) AS r, unnest($9::bytea[]) AS b) AS a"};
inline constexpr Statement kCheckParts{
    "check_parts", "SELECT 1 / (count(*) = $2::bigint)::int FROM body WHERE number = $1::bigint"};
inline constexpr Statement kInsertPart{
    "insert_part", "INSERT INTO body (number, part, bytes) VALUES ($1::bigint, $2::bigint, $3::bytea)"};
inline constexpr RowsStatement kInsertResults{
    "insert_results", "insert_result",
    "INSERT INTO result (number, checksum, body_checksum, body_bytes, parts_of, record, body) "
    "SELECT n, c, bc, bb, NULLIF(p, 0), r, b "
    "FROM (SELECT unnest($1::bigint[]) AS n, unnest($2::bigint[]) AS c, unnest($3::bigint[]) AS bc, "
    "unnest($4::bigint[]) AS bb, unnest($5::bigint[]) AS p, unnest($6::bytea[]) AS r, "
    "unnest($7::bytea[]) AS b) AS a"};
inline constexpr RowsStatement kPutNotes{
    "put_notes", "put_note",
    "INSERT INTO note (name, checksum, record) "
    "SELECT unnest($1::bytea[]), unnest($2::bigint[]), unnest($3::bytea[]) "
    "ON CONFLICT (name) DO UPDATE SET checksum = excluded.checksum, record = excluded.record"};

/// Prepares them all.
postgres::Outcome<void> prepare_statements(postgres::Connection& connection, postgres::Clock::time_point end);

/// The columns of rows, as a RowsStatement takes them. Borrows bytes until send().
class Columns {
 public:
  /// Each column has `rows` values.
  explicit Columns(std::size_t rows) : rows_(rows) {}

  Columns& integers(std::span<const std::int64_t> values);
  Columns& bytes(std::span<const std::optional<std::string_view>> values);
  Columns& and_their_count();
  /// Puts the statement into the connection's pipeline.
  void send(postgres::Connection& connection, const RowsStatement& statement) const;

 private:
  const std::size_t rows_;
  postgres::Values values_;
};

}  // namespace lanemq::io
