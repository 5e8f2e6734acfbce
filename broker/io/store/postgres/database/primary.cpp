// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/postgres/database/primary.hpp"

#include <chrono>
#include <optional>
#include <tuple>
#include <utility>

#include "broker/io/store/postgres/database/postgres_schema.hpp"

namespace lanemq::io {
namespace {

using postgres::Connection;
using postgres::Fault;
using postgres::Outcome;

constexpr const char* kNoSuchTable = "42P01";
constexpr const char* kNoDatabase = "3D000";
constexpr const char* kNotAuthorized = "28";  // the class of what a role may not

Outcome<Primary> primary_of(Connection connection) {
  const auto end = postgres::Clock::now() + std::chrono::seconds(Connection::kHostSeconds);
  Primary made{.connection = std::move(connection), .row = {.epoch = -1, .ticket = 0, .instance = {}}};
  auto row = read_owner(made.connection, end);
  if (!row && row.error().state != kNoSuchTable) return tl::unexpected(std::move(row.error()));
  if (row) made.row = std::move(*row);
  // The first eight digits of the log's name. A service that has no log of PostgreSQL's kind refuses it.
  const auto timeline = made.connection.run(
      "SELECT ('x' || pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, "
      "8))::bit(32)::bigint",
      end);
  if (!timeline && timeline.error().is_for_now()) return tl::unexpected(timeline.error());
  if (timeline) made.timeline = timeline->integer(0, 0);
  return made;
}

}  // namespace

bool Primary::is_ahead_of(const OwnerRow& other, std::int64_t other_timeline) const {
  return std::tuple(row.epoch, row.ticket, timeline) > std::tuple(other.epoch, other.ticket, other_timeline);
}

Outcome<Primary> find_primary(const postgres::Target& target) {
  std::optional<Primary> best;
  std::optional<Fault> fault;
  auto tried = Connection::open_each(target, postgres::Server::writable, [&](Connection made) {
    auto primary = primary_of(std::move(made));
    if (!primary)
      fault = std::move(primary.error());
    else if (!best || primary->is_ahead_of(best->row, best->timeline))
      best = std::move(*primary);
    return true;
  });
  if (best) return std::move(*best);
  if (fault) return tl::unexpected(std::move(*fault));
  return tl::unexpected(std::move(tried.error()));
}

bool refuses_connection(std::string_view state) {
  return state == kNoDatabase || state.starts_with(kNotAuthorized);
}

Outcome<Connection> open_to_check(const postgres::Target& target) {
  auto connection = Connection::open(target, postgres::Server::writable);
  if (connection || !connection.error().lost()) return connection;
  const std::string state = Connection::refusal(target);
  if (!refuses_connection(state) && state != kInsufficientPrivilege) return connection;
  return tl::unexpected(Fault{.state = state, .message = connection.error().message + ", SQLSTATE " + state});
}

}  // namespace lanemq::io
