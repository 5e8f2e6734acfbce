// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/postgres/database/database_look.hpp"

#include <optional>

namespace lanemq::io {
namespace {

/// A role may see all of others' sessions and of standbys, or none: without the right the views have empty
/// columns, which would look as if there were nothing.
constexpr const char* kFigures = R"(
SELECT (SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_catalog.pg_stat_all_tables WHERE schemaname = $1),
  CASE WHEN s.sees THEN coalesce((extract(epoch FROM pg_catalog.clock_timestamp() - least(
    (SELECT min(xact_start) FROM pg_catalog.pg_stat_activity WHERE backend_xmin IS NOT NULL
       AND datname = pg_catalog.current_database() AND pid <> pg_catalog.pg_backend_pid()),
    (SELECT min(prepared) FROM pg_catalog.pg_prepared_xacts WHERE database = pg_catalog.current_database())))
    * 1000)::bigint, 0) END,
  CASE WHEN s.sees THEN
    (SELECT count(*) FROM pg_catalog.pg_stat_replication WHERE sync_state IN ('sync', 'quorum')) END
FROM (SELECT pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS sees) s
)";

/// Candidates look twice a second; when they last did so is told to their own role alone.
constexpr const char* kCandidates =
    "SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE application_name = $1 "
    "AND datname = pg_catalog.current_database() "
    "AND coalesce(state_change > pg_catalog.clock_timestamp() - interval '5 seconds', true)";

/// Whether commits wait for a standby.
constexpr const char* kWaits =
    "SELECT (pg_catalog.btrim(pg_catalog.current_setting('synchronous_standby_names')) <> '')::int::bigint, "
    "(pg_catalog.current_setting('synchronous_commit') NOT IN ('off', 'local'))::int::bigint";

}  // namespace

bool DatabaseLook::ask(postgres::Connection& connection, std::uint64_t connections) {
  if (!ask_promise(connection, connections) || !ask_figures(connection)) return false;
  failed_ = false;
  due_at_ = Clock::now() + kPause;
  looked_at_.store(connections, std::memory_order_release);
  exchange_.signal();
  return true;
}

bool DatabaseLook::ask_promise(postgres::Connection& connection, std::uint64_t connections) {
  if (replication_ != Replication::standby) return true;
  const auto row = connection.run(kWaits, Clock::now() + kStatementMax);
  if (!row && row.error().is_for_now()) return false;
  std::string trouble;
  if (!row)
    trouble = "the database cannot be asked for its standbys: " + row.error().message;
  else if (row->integer(0, 0) == 0)
    trouble = "the database names no synchronous standby: synchronous_standby_names is empty";
  else if (row->integer(0, 1) == 0)
    trouble = "commits wait for no standby: synchronous_commit is off or local";
  {
    const std::lock_guard held(mutex_);
    if (connections < promise_.connections) return true;  // a later one was asked meanwhile
    promise_ = {.connections = connections,
                .seen = trouble.empty() ? StorePromise::kept : StorePromise::broken,
                .trouble = trouble};
  }
  return true;
}

/// False: the database did not answer. What cannot be asked there stays unknown.
bool DatabaseLook::ask_figures(postgres::Connection& connection) {
  StoreDatabase seen;
  const auto row = connection.run(kFigures, postgres::Values().text(place_.target.search_path),
                                  Clock::now() + kStatementMax);
  if (!row && row.error().lost()) return false;
  if (row && row->rows() == 1) {
    const auto number = [&](int column) {
      return row->is_null(0, column) ? std::nullopt
                                     : std::optional(static_cast<std::uint64_t>(row->integer(0, column)));
    };
    seen.dead_rows = number(0);
    if (const auto ms = number(1)) seen.oldest_snapshot = std::chrono::milliseconds(*ms);
    seen.standbys = number(2);
  }
  const std::lock_guard held(mutex_);
  figures_ = seen;
  return true;
}

bool DatabaseLook::ask_candidates(postgres::Connection& connection) {
  const auto row = connection.run(kCandidates, postgres::Values().text(name_of_waiting(place_)),
                                  Clock::now() + kStatementMax);
  if (!row && row.error().lost()) return false;
  const std::lock_guard held(mutex_);
  candidates_ = row ? std::optional(static_cast<std::uint64_t>(row->integer(0, 0))) : std::nullopt;
  candidates_at_ = Clock::now();
  return true;
}

StoreDatabase DatabaseLook::figures() const {
  const std::lock_guard held(mutex_);
  StoreDatabase seen = figures_;
  if (Clock::now() - candidates_at_ <= kCandidatesKnown) seen.candidates = candidates_;
  return seen;
}

StorePromise DatabaseLook::promise() const {
  if (replication_ != Replication::standby) return StorePromise::kept;
  const std::lock_guard held(mutex_);
  return promise_.connections == connections_() ? promise_.seen : StorePromise::unknown;
}

std::string DatabaseLook::promise_trouble() const {
  const std::lock_guard held(mutex_);
  return promise_.trouble;
}

}  // namespace lanemq::io
