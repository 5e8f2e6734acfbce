// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <lanemq/result.hpp>

#include "broker/io/store/postgres/database/owner_row.hpp"
#include "broker/io/store/postgres/database/postgres_place.hpp"
#include "common/postgres/connection.hpp"

namespace lanemq::io {

/// The tables of a store in PostgreSQL, in a schema of its own.
///
/// `owner` (one row, OwnerRow), `job` and `result` as SQLite's, with bodies in the row up to
/// kPartsFromBytes; `body` (larger ones, in parts by their `parts_of`); `note`. There is no index but the
/// primary keys: order, deadlines and ids live in the broker's memory, the tables are a recovery log. Plain
/// SQL alone: no extension, function, advisory lock or LISTEN.

/// Versions of the tables. `readable_by` in the row names the oldest that may own them.
inline constexpr std::int64_t kPostgresFormat = 1;

/// Bodies up to this size come back with load().
inline constexpr std::size_t kLoadedBodyBytesMax = 1024;
/// Larger bodies lie in parts of kPartBytes.
inline constexpr std::size_t kPartsFromBytes = std::size_t{256} << 10;
inline constexpr std::size_t kPartBytes = std::size_t{1} << 20;

/// The state of a Fault where the role may not.
inline constexpr const char* kInsufficientPrivilege = "42501";
/// The state of a Fault where a newer version has written the tables.
inline constexpr const char* kNewerFormat = "XX000";

/// Whether an operator can mend it while the broker waits: a right that was taken away, a table or a schema
/// that is not there under its name, a pooler between. False for damage, and for tables of a newer version or
/// of another shard.
bool is_for_operator(const postgres::Fault& fault);

/// Makes the schema and its tables where there are none; else checks that this version may use them.
postgres::Outcome<void> make_schema(postgres::Connection& connection, const std::string& schema,
                                    postgres::Clock::time_point end);

/// Whether there are such tables.
postgres::Outcome<bool> has_schema(postgres::Connection& connection, const std::string& schema,
                                   postgres::Clock::time_point end);

/// An error where there are none at `place`, or it cannot be asked: what reads a store makes none.
Result<void> must_be_there(postgres::Connection& connection, const PostgresPlace& place,
                           postgres::Clock::time_point end);

/// The statement that makes the schema, with its semicolon; empty where it is there: a role that only owns it
/// may not say that.
postgres::Outcome<std::string> schema_statement(postgres::Connection& connection, const std::string& schema,
                                                postgres::Clock::time_point end);

/// Whether make_schema() would succeed, and an owner could write the tables: a Fault says which right the
/// role lacks. Changes nothing.
postgres::Outcome<void> check_usable(postgres::Connection& connection, const std::string& schema,
                                     postgres::Clock::time_point end);

/// The state of a Fault: the tables have the jobs of another shard.
inline constexpr const char* kOtherShard = "LMQ01";
/// Whether a broker of this shard may go on with the tables: a Fault of kOtherShard says whose they are, and
/// what to do. Requires: the connection's search path is the schema.
postgres::Outcome<void> check_shard(postgres::Connection& connection, const std::string& shard,
                                    postgres::Clock::time_point end);

/// The state of a Fault: a connection's transactions have different sessions.
inline constexpr const char* kPooled = "LMQ02";
/// Looks whether each of two connections has a session of its own. A pooler in transaction mode gives each
/// transaction any: what was prepared or set is gone by the next, and a deposed owner's transactions may go
/// on.
postgres::Outcome<void> check_sessions(postgres::Connection& one, postgres::Connection& other,
                                       postgres::Clock::time_point end);

/// Reads the row. Requires: the connection's search path is the schema.
postgres::Outcome<OwnerRow> read_owner(postgres::Connection& connection, postgres::Clock::time_point end);

/// Makes `owner` the row, from exactly the row `seen`; false: it has moved.
postgres::Outcome<bool> take_ownership(postgres::Connection& connection, const OwnerRow& seen,
                                       const OwnerRow& owner, postgres::Clock::time_point end);

/// The epoch as it was, and as it is.
struct RaisedEpoch {
  OwnerRow before;
  std::int64_t epoch = 0;
};
/// Raises the epoch above that of any owner, and leaves the store to the next candidate: to the seconds since
/// 1970 by the server's clock, since a takeover takes longer than one, so that the epochs of owners from
/// before a restore are all lower. A fault with the state of kNewerFormat: a newer version has written the
/// tables.
postgres::Outcome<RaisedEpoch> raise_epoch(postgres::Connection& connection, postgres::Clock::time_point end);

/// Gives the store back, so that a candidate need not wait for the lease. Nothing if this owner was deposed.
postgres::Outcome<void> give_back(postgres::Connection& connection, const OwnerRow& owner,
                                  postgres::Clock::time_point end);

}  // namespace lanemq::io
