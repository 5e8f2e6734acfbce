// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/postgres/database/postgres_schema.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "broker/io/store/shard_note.hpp"

namespace lanemq::io {
namespace {

using postgres::Clock;
using postgres::Connection;
using postgres::Fault;
using postgres::Outcome;
using postgres::Values;

/// Tables whose rows change often leave room in their pages, so that a change stays in its page and touches
/// no index. Bytes are kept as they are: they were compressed by their makers, or are too small to gain.
constexpr const char* kTables = R"(
CREATE TABLE owner (one boolean PRIMARY KEY DEFAULT true CHECK (one), format bigint NOT NULL,
                    readable_by bigint NOT NULL, epoch bigint NOT NULL, ticket bigint NOT NULL,
                    instance text NOT NULL, claim bigint NOT NULL, at timestamptz NOT NULL) WITH (fillfactor = 20);
CREATE TABLE job (number bigint PRIMARY KEY, state_checksum bigint NOT NULL, checksum bigint NOT NULL,
                  body_checksum bigint NOT NULL, body_bytes bigint NOT NULL, parts_of bigint,
                  state bytea NOT NULL, record bytea NOT NULL, body bytea) WITH (fillfactor = 70);
CREATE TABLE body (number bigint, part bigint, bytes bytea NOT NULL, PRIMARY KEY (number, part));
CREATE TABLE result (number bigint PRIMARY KEY, checksum bigint NOT NULL, body_checksum bigint NOT NULL,
                     body_bytes bigint NOT NULL, parts_of bigint, record bytea NOT NULL, body bytea);
CREATE TABLE note (name bytea PRIMARY KEY, checksum bigint NOT NULL, record bytea NOT NULL)
  WITH (fillfactor = 50);
ALTER TABLE job ALTER COLUMN body SET STORAGE EXTERNAL, ALTER COLUMN record SET STORAGE EXTERNAL;
ALTER TABLE body ALTER COLUMN bytes SET STORAGE EXTERNAL;
ALTER TABLE result ALTER COLUMN body SET STORAGE EXTERNAL, ALTER COLUMN record SET STORAGE EXTERNAL;
)";

/// A row that nobody owns. `at` is the transaction's time.
std::string first_row() {
  return "INSERT INTO owner (format, readable_by, epoch, ticket, instance, claim, at) VALUES (" +
         std::to_string(kPostgresFormat) + ", " + std::to_string(kPostgresFormat) +
         ", 0, 0, '', 0, clock_timestamp());";
}

Outcome<void> check_format(Connection& connection, Clock::time_point end) {
  const auto row = connection.run("SELECT format, readable_by FROM owner", end);
  if (!row) return tl::unexpected(row.error());
  if (row->rows() != 1)
    return tl::unexpected(Fault{.state = "XX001", .message = "its table `owner` does not have one row"});
  if (row->integer(0, 1) <= kPostgresFormat) return {};
  return tl::unexpected(Fault{.state = kNewerFormat,
                              .message = "a newer version of the broker has written it (format " +
                                         std::to_string(row->integer(0, 0)) + "; this version knows " +
                                         std::to_string(kPostgresFormat) + "): start that version"});
}

/// The privilege that the role lacks; null: none.
constexpr const char* kMissingRight = R"(
SELECT CASE
  WHEN s.oid IS NULL THEN
    CASE WHEN NOT pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')
    THEN 'may not make a schema in the database "' || pg_catalog.current_database() || '"' END
  WHEN NOT pg_catalog.has_schema_privilege(s.oid, 'USAGE') THEN 'may not use the schema "' || $1 || '"'
  WHEN NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.relnamespace = s.oid AND c.relname = 'owner') THEN
    CASE WHEN NOT pg_catalog.has_schema_privilege(s.oid, 'CREATE')
    THEN 'may not make tables in the schema "' || $1 || '"' END
  ELSE coalesce(
    (SELECT 'may not write the table "' || c.relname || '" of the schema "' || $1 || '"'
    FROM pg_catalog.pg_class c WHERE c.relnamespace = s.oid AND c.relkind = 'r'
      AND NOT (pg_catalog.has_table_privilege(c.oid, 'SELECT') AND pg_catalog.has_table_privilege(c.oid, 'INSERT')
        AND pg_catalog.has_table_privilege(c.oid, 'UPDATE') AND pg_catalog.has_table_privilege(c.oid, 'DELETE'))
    ORDER BY c.relname LIMIT 1),
    (SELECT 'finds no table "' || t.name || '" in the schema "' || $1 || '"'
    FROM (VALUES ('body'), ('job'), ('note'), ('result')) t (name)
    WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.relnamespace = s.oid AND c.relname = t.name)
    ORDER BY t.name LIMIT 1))
  END
FROM (SELECT (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = $1) AS oid) s
)";
constexpr const char* kUndefinedTable = "42P01";

/// The server process that runs a transaction.
struct Session {
  std::int64_t process;
  std::string server;  ///< tells one from another
  bool operator==(const Session&) const = default;
};
Outcome<Session> session_of(Connection& connection, Clock::time_point end) {
  const auto session = connection.run(
      "SELECT pg_catalog.pg_backend_pid()::bigint, pg_catalog.pg_postmaster_start_time()::text", end);
  if (!session) return tl::unexpected(session.error());
  return Session{.process = session->integer(0, 0), .server = std::string(session->bytes(0, 1))};
}

/// Whether each has its own. A pooler's idle sessions are taken from either end of their list: from the one a
/// connection has another session in its second transaction, from the other both connections have the same.
Outcome<bool> have_own_sessions(Connection& one, Connection& other, Clock::time_point end) {
  const auto first = session_of(one, end), second = session_of(one, end);
  if (auto begun = other.run_script("BEGIN", end); !begun) return tl::unexpected(std::move(begun.error()));
  const auto others = session_of(other, end), third = session_of(one, end);
  if (auto over = other.run_script("ROLLBACK", end); !over) return tl::unexpected(std::move(over.error()));
  for (const auto* asked : {&first, &second, &others, &third})
    if (!*asked) return tl::unexpected(asked->error());
  return *first == *second && *second == *third && *first != *others;
}

/// Others that use the pooler may hide it in one look.
constexpr int kPoolerLooks = 8;

}  // namespace

bool is_for_operator(const Fault& fault) {
  // Rights; tables, a schema, a database; roles; what another session has prepared.
  constexpr std::string_view kStates[] = {
      kInsufficientPrivilege, kUndefinedTable, "42P05", "42P07", "3F", "3D", "28", "0L", "0P", "26", kPooled};
  return std::any_of(std::begin(kStates), std::end(kStates),
                     [&](std::string_view state) { return fault.state.starts_with(state); });
}

Outcome<void> check_sessions(Connection& one, Connection& other, Clock::time_point end) {
  const auto session = session_of(one, end);
  if (!session) return tl::unexpected(session.error());
  if (session->process == one.process()) return {};  // nothing is between
  for (int i = 0; i < kPoolerLooks; ++i) {
    const auto own = have_own_sessions(one, other, end);
    if (!own) return tl::unexpected(own.error());
    if (!*own)
      return tl::unexpected(
          Fault{.state = kPooled,
                .message = "it is reached by a pooler in transaction mode, as PgBouncer with pool_mode = "
                           "transaction: each transaction gets another session"});
  }
  return {};
}

Outcome<std::string> schema_statement(Connection& connection, const std::string& schema,
                                      Clock::time_point end) {
  const auto found = connection.run("SELECT 1::bigint FROM pg_catalog.pg_namespace WHERE nspname = $1",
                                    Values().text(schema), end);
  if (!found) return tl::unexpected(found.error());
  return found->rows() > 0 ? std::string() : "CREATE SCHEMA IF NOT EXISTS " + connection.quoted(schema) + ";";
}

Outcome<bool> has_schema(Connection& connection, const std::string& schema, Clock::time_point end) {
  const auto found = connection.run(
      "SELECT 1::bigint FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
      "WHERE n.nspname = $1 AND c.relname = 'owner'",
      Values().text(schema), end);
  if (!found) return tl::unexpected(found.error());
  return found->rows() > 0;
}

Result<void> must_be_there(Connection& connection, const PostgresPlace& place, Clock::time_point end) {
  const auto there = has_schema(connection, place.target.search_path, end);
  if (!there)
    return failure(ErrorCode::internal,
                   "the store " + place.text + " cannot be read: " + there.error().message);
  if (*there) return {};
  return failure(ErrorCode::bad_request, "there is no store " + place.text +
                                             "; look at the name of its database, and at store_schema");
}

namespace {

Outcome<void> check_rights(Connection& connection, const std::string& schema, Clock::time_point end) {
  const auto missing = connection.run(kMissingRight, Values().text(schema), end);
  if (!missing) return tl::unexpected(missing.error());
  if (missing->is_null(0, 0)) return {};
  return tl::unexpected(
      Fault{.state = kInsufficientPrivilege, .message = "its role " + std::string(missing->bytes(0, 0))});
}

}  // namespace

Outcome<void> check_usable(Connection& connection, const std::string& schema, Clock::time_point end) {
  if (auto rights = check_rights(connection, schema, end); !rights) return rights;
  const auto there = has_schema(connection, schema, end);
  if (!there) return tl::unexpected(there.error());
  return *there ? check_format(connection, end) : Outcome<void>();
}

Outcome<void> make_schema(Connection& connection, const std::string& schema, Clock::time_point end) {
  if (auto rights = check_rights(connection, schema, end); !rights) return rights;
  const auto there = has_schema(connection, schema, end);
  if (!there) return tl::unexpected(there.error());
  if (*there) return check_format(connection, end);
  // Another candidate may do the same at this moment: one of the two is refused, and finds what the other
  // made.
  const auto schema_made = schema_statement(connection, schema, end);
  if (!schema_made) return tl::unexpected(schema_made.error());
  auto made = connection.run_script("BEGIN; " + *schema_made + kTables + first_row() + "COMMIT", end);
  if (made) return {};
  static_cast<void>(connection.run_script("ROLLBACK", end));
  const auto by_another = has_schema(connection, schema, end);
  if (!by_another || !*by_another) return made;
  return check_format(connection, end);
}

Outcome<void> check_shard(Connection& connection, const std::string& shard, Clock::time_point end) {
  if (shard.empty()) return {};
  const auto note =
      connection.run("SELECT record FROM note WHERE name = $1", Values().bytes(kShardNote), end);
  if (!note) return note.error().state == kUndefinedTable ? Outcome<void>() : tl::unexpected(note.error());
  if (note->rows() == 0) return {};
  const auto good = check_shard_note(note->bytes(0, 0), shard);
  if (!good) return tl::unexpected(Fault{.state = kOtherShard, .message = good.error().message});
  return {};
}

Outcome<OwnerRow> read_owner(Connection& connection, Clock::time_point end) {
  const auto row = connection.run("SELECT epoch, ticket, instance, claim FROM owner", end);
  if (!row) return tl::unexpected(row.error());
  if (row->rows() != 1)
    return tl::unexpected(Fault{.state = "XX001", .message = "its table `owner` does not have one row"});
  return OwnerRow{.epoch = row->integer(0, 0),
                  .ticket = row->integer(0, 1),
                  .instance = std::string(row->bytes(0, 2)),
                  .claim = row->integer(0, 3)};
}

Outcome<bool> take_ownership(Connection& connection, const OwnerRow& seen, const OwnerRow& owner,
                             Clock::time_point end) {
  const auto taken = connection.run(
      "UPDATE owner SET epoch = $4, ticket = $5, instance = $6::text, claim = $7, at = clock_timestamp() "
      "WHERE epoch = $1 AND ticket = $2 AND claim = $3",
      Values()
          .integer(seen.epoch)
          .integer(seen.ticket)
          .integer(seen.claim)
          .integer(owner.epoch)
          .integer(owner.ticket)
          .text(owner.instance)
          .integer(owner.claim),
      end);
  if (!taken) return tl::unexpected(taken.error());
  return taken->changed() == 1;
}

Outcome<RaisedEpoch> raise_epoch(Connection& connection, Clock::time_point end) {
  if (auto readable = check_format(connection, end); !readable) return tl::unexpected(readable.error());
  const auto raised = connection.run(
      "WITH b AS (SELECT epoch, ticket, instance FROM owner FOR UPDATE) "
      "UPDATE owner o SET epoch = greatest(b.epoch + 1, extract(epoch FROM clock_timestamp())::bigint), "
      "ticket = 0, instance = '', at = clock_timestamp() FROM b "
      "RETURNING b.epoch, b.ticket, b.instance, o.epoch",
      end);
  if (!raised) return tl::unexpected(raised.error());
  if (raised->rows() != 1)
    return tl::unexpected(Fault{.state = "XX001", .message = "its table `owner` does not have one row"});
  return RaisedEpoch{.before = {.epoch = raised->integer(0, 0),
                                .ticket = raised->integer(0, 1),
                                .instance = std::string(raised->bytes(0, 2))},
                     .epoch = raised->integer(0, 3)};
}

Outcome<void> give_back(Connection& connection, const OwnerRow& owner, Clock::time_point end) {
  const auto given =
      connection.run("UPDATE owner SET instance = '', at = clock_timestamp() WHERE epoch = $1 AND claim = $2",
                     Values().integer(owner.epoch).integer(owner.claim), end);
  if (!given) return tl::unexpected(given.error());
  return {};
}

}  // namespace lanemq::io
