// SPDX-License-Identifier: Apache-2.0
#include "broker/io/offline/store_check.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "broker/io/store/open/open_store.hpp"
#include "broker/io/store/shard_note.hpp"
#include "broker/io/store/sqlite/disk_reserve.hpp"
#ifdef LANEMQ_HAS_POSTGRES
#include "broker/io/store/postgres/database/postgres_schema.hpp"
#include "broker/io/store/postgres/database/primary.hpp"
#include "broker/io/store/postgres/postgres_rows.hpp"
#include "broker/io/store/postgres/postgres_store.hpp"
#endif
#include "broker/io/store/sqlite/sqlite_rows.hpp"
#include "broker/io/store/sqlite/sqlite_schema.hpp"

namespace lanemq::io {
namespace {

tl::unexpected<Error> not_whole(const std::string& path, const std::string& why) {
  return failure(ErrorCode::internal,
                 "the store " + path + " is damaged: " + why + "; " + what_to_do_when_damaged(path));
}

/// Checks each page, and the structure of the tables.
Result<void> check_every_page(sqlite::Database& database, const std::string& path) {
  constexpr int kFaultsTold = 10;
  auto statement = database.prepare("PRAGMA integrity_check(" + std::to_string(kFaultsTold) + ")");
  if (!statement) return not_whole(path, statement.error().message);
  std::string faults;
  while (true) {
    const auto row = statement->step();
    if (!row) return not_whole(path, faults + row.error().message);
    if (!*row) break;
    if (const std::string_view said = statement->bytes(0); said != "ok") faults += std::string(said) + ", ";
  }
  if (!faults.empty()) return not_whole(path, faults.substr(0, faults.size() - 2));
  return {};
}

class Counter final : public StoreReader {
 public:
  explicit Counter(StoreSummary& summary) : summary_(summary) {}
  Result<void> note(std::string_view name, std::string_view record) override {
    add(summary_.notes, name.size() + record.size());
    return {};
  }
  Result<void> job(std::uint64_t number, std::string_view state, std::string_view record,
                   std::optional<std::string_view> body, std::size_t body_bytes) override {
    add(summary_.jobs, state.size() + record.size() + (body ? body_bytes : 0));
    if (!body) apart_.push_back(number);
    return {};
  }
  Result<void> result(std::uint64_t number, std::string_view record, std::optional<std::string_view> body,
                      std::size_t body_bytes) override {
    add(summary_.results, record.size() + (body ? body_bytes : 0));
    if (!body) results_apart_.push_back(number);
    return {};
  }
  static void add(StoreSummary::Rows& rows, std::size_t bytes) {
    ++rows.count;
    rows.bytes += bytes;
  }
  /// Jobs whose bodies are in a table of their own.
  const std::vector<std::uint64_t>& apart() const { return apart_; }
  /// Results whose bodies are in a table of their own.
  const std::vector<std::uint64_t>& results_apart() const { return results_apart_; }

 private:
  StoreSummary& summary_;
  std::vector<std::uint64_t> apart_, results_apart_;
};

Result<void> check_bodies(StoreRows& rows, const std::vector<std::uint64_t>& numbers, StoreSummary& summary) {
  for (const std::uint64_t number : numbers) {
    const auto body = rows.body(number);
    if (!body) return not_whole(summary.path, body.error().message);
    Counter::add(summary.bodies, (*body)->size());
  }
  return {};
}

Result<void> check_results(StoreRows& rows, const std::vector<std::uint64_t>& numbers,
                           StoreSummary& summary) {
  for (const std::uint64_t number : numbers) {
    const auto result = rows.result(number);
    if (!result) return not_whole(summary.path, result.error().message);
    summary.results.bytes += (*result)->body.size();
  }
  return {};
}

std::string in_units(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit)
    value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text;
}

#ifdef LANEMQ_HAS_POSTGRES
/// Reads the bodies that a load leaves in the tables.
Result<void> check_apart(postgres::Connection& connection, const std::string& place,
                         const std::vector<std::uint64_t>& numbers, bool of_result,
                         StoreSummary::Rows& rows) {
  for (std::size_t at = 0; at < numbers.size(); at += kAskedAtOnce) {
    std::vector<StoreExchange::Asked> asked;
    for (std::size_t i = at; i < std::min(at + kAskedAtOnce, numbers.size()); ++i)
      asked.push_back({.number = numbers[i], .of_result = of_result});
    const auto found = read_rows(connection, asked, postgres::Clock::now() + std::chrono::minutes(10));
    if (!found)
      return failure(ErrorCode::internal, "the store " + place + " is damaged: " + found.error().message);
    for (const StoredBody& body : *found) {
      if (!body.body)
        return failure(ErrorCode::internal, "the store " + place + " is damaged: the body of row " +
                                                std::to_string(body.number) + " is not there");
      Counter::add(rows, body.body->size());
    }
  }
  return {};
}

/// While a broker goes on with it each query sees another moment: what ends meanwhile may be missed.
Result<StoreSummary> check_postgres(const StoreOptions& options) {
  const auto place = postgres_place_of(options);
  if (!place) return tl::unexpected(place.error());
  auto connection = postgres::Connection::open(place->target, postgres::Server::any);
  const auto refused = [&](const postgres::Fault& fault) {
    return failure(ErrorCode::internal, "the store " + place->text + " cannot be read: " + fault.message);
  };
  if (!connection) return refused(connection.error());
  if (auto there = must_be_there(*connection, *place, postgres::Clock::now() + kStatementMax); !there)
    return tl::unexpected(std::move(there.error()));
  StoreSummary summary{.path = place->text, .in_tables = true, .schema = kPostgresFormat};
  const auto bytes = connection->run(
      "SELECT coalesce(sum(pg_catalog.pg_total_relation_size(c.oid)), 0)::bigint "
      "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
      "WHERE n.nspname = $1 AND c.relkind = 'r'",
      postgres::Values().text(options.schema), postgres::Clock::now() + kStatementMax);
  if (!bytes) return refused(bytes.error());
  summary.file_bytes = static_cast<std::uint64_t>(bytes->integer(0, 0));
  Counter counter(summary);
  std::vector<std::int64_t> parts;
  if (const auto told = tell_rows(*connection, counter, place->text, parts); !told)
    return tl::unexpected(told.error());
  StoreSummary::Rows results;
  if (const auto checked =
          check_apart(*connection, place->text, counter.apart(), false, summary.bodies).and_then([&] {
            return check_apart(*connection, place->text, counter.results_apart(), true, results);
          });
      !checked)
    return tl::unexpected(checked.error());
  summary.results.bytes += results.bytes;
  return summary;
}

/// A start waits for a database that is not reached, so that one that is not there is no reason to refuse.
Result<std::string> check_postgres_place(const StoreOptions& options) {
  const auto place = postgres_place_of(options);
  if (!place) return tl::unexpected(place.error());
  const auto looked = open_to_check(place->target).and_then([&](postgres::Connection connection) {
    const auto end = postgres::Clock::now() + kStatementMax;
    return check_usable(connection, options.schema, end)
        .and_then([&] { return check_shard(connection, options.shard, end); })
        .and_then([&] { return open_to_check(place->target); })
        .and_then([&](postgres::Connection other) { return check_sessions(connection, other, end); });
  });
  if (looked) return std::string();
  if (!looked.error().lost()) return tl::unexpected(PostgresStore::cannot_be_used(*place, looked.error()));
  return "the store " + place->text +
         " was not reached, so that the rights of its role were not looked at: " + looked.error().message;
}
#endif

/// A file that cannot be read now is none of another shard's: a start says what it is.
Result<void> check_shard_of_file(const std::string& path, const StoreOptions& options) {
  if (options.shard.empty() || !std::filesystem::exists(path)) return {};
  auto database = open_store_file(path, OpenFor::checking, options.vfs);
  if (!database) return {};
  auto statement = database->prepare("SELECT record FROM note WHERE name = ?1");
  if (!statement) return {};
  statement->bind_text(1, kShardNote);
  const auto row = statement->step();
  if (!row || !*row) return {};
  return check_shard_note(statement->bytes(0), options.shard);
}

}  // namespace

Result<StoreSummary> check_store(const StoreOptions& options) {
#ifdef LANEMQ_HAS_POSTGRES
  if (has_owners(options)) return check_postgres(options);
#endif
  const auto path = path_of_store(options);
  if (!path)
    return failure(ErrorCode::bad_request,
                   "store \"" + options.specification +
                       "\" is no file that could be checked; name one with --store sqlite:PATH");
  auto database = open_store_file(*path, OpenFor::checking, options.vfs);
  if (!database) return tl::unexpected(std::move(database.error()));
  if (const auto whole = check_every_page(*database, *path); !whole) return tl::unexpected(whole.error());
  auto rows = StoreRows::prepare(*database);
  if (!rows) return not_whole(*path, rows.error().message);

  StoreSummary summary;
  summary.path = *path;
  Counter counter(summary);
  if (const auto told = rows->tell(counter, *path); !told) return tl::unexpected(told.error());
  if (const auto checked = check_bodies(*rows, counter.apart(), summary); !checked)
    return tl::unexpected(checked.error());
  if (const auto checked = check_results(*rows, counter.results_apart(), summary); !checked)
    return tl::unexpected(checked.error());
  const auto results = database->integer("SELECT count(*) FROM result_body");
  if (!results) return not_whole(*path, results.error().message);
  if (static_cast<std::uint64_t>(*results) != counter.results_apart().size())
    return not_whole(*path, std::to_string(*results) + " bodies of results are there for " +
                                std::to_string(counter.results_apart().size()) + " that have one");
  const auto bodies = database->integer("SELECT count(*) FROM body");
  if (!bodies) return not_whole(*path, bodies.error().message);
  if (static_cast<std::uint64_t>(*bodies) != summary.bodies.count)
    return not_whole(*path, std::to_string(*bodies) + " bodies are there for " +
                                std::to_string(summary.bodies.count) + " jobs");

  const auto pragma = [&](const char* sql) { return database->integer(sql).value_or(0); };
  const Disk disk;
  summary.schema = pragma("PRAGMA user_version");
  summary.file_bytes = disk.file_bytes(*path);
  summary.log_bytes = disk.file_bytes(*path + "-wal");
  summary.free_bytes =
      static_cast<std::uint64_t>(pragma("PRAGMA freelist_count") * pragma("PRAGMA page_size"));
  return summary;
}

Result<std::string> check_store_place(const StoreOptions& options) {
  if (options.specification == "memory") return std::string();
#ifdef LANEMQ_HAS_POSTGRES
  if (has_owners(options)) return check_postgres_place(options);
#endif
  const auto path = path_of_store(options);
  if (!path) return tl::unexpected(open_store(options).error());  // its error lists what is known
  return check_place(*path).and_then([&] { return check_shard_of_file(*path, options); }).map([] {
    return std::string();
  });
}

std::string to_text(const StoreSummary& summary) {
  std::string text = "store    " + summary.path + "\nschema   " + std::to_string(summary.schema) + "\n";
  text += summary.in_tables
              ? "tables   " + in_units(summary.file_bytes)
              : "file     " + in_units(summary.file_bytes) + ", " + in_units(summary.free_bytes) +
                    " of it free; log " + in_units(summary.log_bytes);
  text += "\n\n";
  const std::pair<const char*, const StoreSummary::Rows*> lines[] = {{"jobs", &summary.jobs},
                                                                     {"bodies", &summary.bodies},
                                                                     {"results", &summary.results},
                                                                     {"notes", &summary.notes}};
  for (const auto& [name, rows] : lines) {
    char line[80];
    std::snprintf(line, sizeof line, "%-8s %12llu %12s\n", name, static_cast<unsigned long long>(rows->count),
                  in_units(rows->bytes).c_str());
    text += line;
  }
  return text +
         (summary.in_tables ? "\nEvery checksum is right.\n" : "\nEvery page and every checksum is right.\n");
}

}  // namespace lanemq::io
