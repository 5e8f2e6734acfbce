// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/postgres/postgres_store.hpp"

#include <utility>

#include "broker/core/base/check.hpp"
#include "broker/io/store/postgres/database/candidate.hpp"
#include "broker/io/store/postgres/database/postgres_schema.hpp"
#include "broker/io/store/postgres/database/primary.hpp"
#include "common/signals/signals_blocked.hpp"

namespace lanemq::io {
namespace {

/// How often a candidate looks whether the owner is alive.
constexpr std::chrono::milliseconds kLookPause{500};

std::string what_to_do(const postgres::Fault& fault) {
  if (fault.state == kNewerFormat) return "or name another store_schema";
  if (fault.state.starts_with("XX")) return "restore the database's backup, or name another store_schema";
  if (fault.state == kPooled)
    return "name the server itself in `store`, or give the pooler's database pool_mode = session";
  if (refuses_connection(fault.state))
    return "name a database that is there, and a role that may connect to it";
  return "the role must own the schema, or be allowed to make it in this database";
}

StoreWaiting waiting_for_operator(const postgres::Fault& fault) {
  return {.why = "the database cannot be used now: " + fault.message + "; " + what_to_do(fault),
          .reached = false};
}

}  // namespace

Error PostgresStore::cannot_be_used(const PostgresPlace& place, const postgres::Fault& fault) {
  if (fault.state == kOtherShard) return {ErrorCode::internal, fault.message};
  return {ErrorCode::internal,
          "the store " + place.text + " cannot be used: " + fault.message + "; " + what_to_do(fault)};
}

Result<std::unique_ptr<Store>> PostgresStore::open(const StoreOptions& options) {
  auto where = postgres_place_of(options);
  if (!where) return tl::unexpected(std::move(where.error()));
  PostgresPlace place = std::move(*where);
  Candidate candidate(place, options);
  while (true) {
    auto seen = candidate.look();
    if (!seen && !(options.waiting && is_for_operator(seen.error())))
      return tl::unexpected(cannot_be_used(place, seen.error()));
    if (seen && *seen)
      return std::unique_ptr<Store>(new PostgresStore(std::move(place), std::move(**seen), options));
    if (!options.waiting)
      std::this_thread::sleep_for(kLookPause);
    else if (!options.waiting(seen ? candidate.waiting() : waiting_for_operator(seen.error())))
      return std::unique_ptr<Store>();
  }
}

PostgresStore::PostgresStore(PostgresPlace place, OwnerRow owned, const StoreOptions& options)
    : place_(std::move(place)),
      instance_(owned.instance),
      epoch_(owned.epoch),
      replication_(options.replication),
      bodies_(place_, exchange_, owned.epoch,
              {.connections = [this] { return commits_.connections(); },
               .away = [this] { return commits_.away(); }}),
      commits_(place_, exchange_, bodies_, owned, {.lease = options.lease, .away_max = options.away_max},
               [this](postgres::Connection& connection, std::uint64_t connections) {
                 return reads_.seen().ask_promise(connection, connections);
               }),
      reads_(place_, exchange_, std::move(owned), replication_,
             {.writes = [this] { return commits_.writes(); },
              .connections = [this] { return commits_.connections(); }}) {
  // Before the first submit, too: a load may take longer than a lease.
  const SignalsBlocked meanwhile;  // signals are for the loop's thread
  committer_ = std::thread([this] { commits_.run(); });
  pthread_setname_np(committer_.native_handle(), "lanemq-store");
}

PostgresStore::~PostgresStore() {
  commits_.end_within(kEndMax);
  exchange_.end();
  if (committer_.joinable()) committer_.join();
  if (reader_.joinable()) reader_.join();
  if (putter_.joinable()) putter_.join();
  const bool given = commits_.give_back();
  if (handed_over_ && given) handed_over_(commits_.successor(kSuccessorMax));
}

std::optional<std::int64_t> PostgresStore::unix_us() {
  LANEMQ_CHECK(!reader_.joinable());
  return reads_.unix_us();
}

std::optional<StoreOwnership> PostgresStore::ownership() const {
  return StoreOwnership{.instance = instance_,
                        .epoch = epoch_,
                        .since_commit = commits_.since_commit(),
                        .transactions = commits_.transactions(),
                        .database = reads_.seen().figures(),
                        .replication = name_of(replication_)};
}

Result<void> PostgresStore::load(StoreReader& reader) {
  LANEMQ_CHECK(!reader_.joinable());
  std::vector<std::int64_t> parts;
  auto told = reads_.load(reader, parts);
  if (told) bodies_.loaded(parts);
  return told;
}

std::uint64_t PostgresStore::submit(core::Writes& writes) {
  start_threads();
  return exchange_.submit(writes);
}

void PostgresStore::ask(const std::vector<std::uint64_t>& numbers, bool of_result) {
  if (numbers.empty()) return;
  start_threads();
  exchange_.ask(numbers, of_result);
}

void PostgresStore::put_ahead(const Blob& body) {
  start_threads();
  bodies_.put(body);
}

void PostgresStore::start_threads() {
  if (reader_.joinable()) return;
  const SignalsBlocked meanwhile;
  reader_ = std::thread([this] { reads_.run(); });
  pthread_setname_np(reader_.native_handle(), "lanemq-reads");
  putter_ = std::thread([this] { bodies_.run(); });
  pthread_setname_np(putter_.native_handle(), "lanemq-bodies");
}

void PostgresStore::flush() {
  commits_.end_within(kEndMax);
  exchange_.flush();
  commits_.end_within(std::chrono::milliseconds(0));
}

Result<void> PostgresStore::begin_backup(const std::string&) {
  return failure(
      ErrorCode::bad_request,
      "the store is PostgreSQL: back up the database by its own means, as pg_basebackup or pgBackRest "
      "do; after a restore to a time in the past no owner from before can commit");
}

}  // namespace lanemq::io
