// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store_check.hpp"

#include <cstdio>
#include <string_view>
#include <utility>
#include <vector>

#include "broker/io/disk_reserve.hpp"
#include "broker/io/sqlite_rows.hpp"
#include "broker/io/sqlite_schema.hpp"

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

}  // namespace

Result<StoreSummary> check_store(const StoreOptions& options) {
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

Result<void> check_store_place(const StoreOptions& options) {
  if (options.specification == "memory") return {};
  const auto path = path_of_store(options);
  if (!path) return tl::unexpected(open_store(options).error());  // its error lists what is known
  return check_place(*path);
}

std::string to_text(const StoreSummary& summary) {
  std::string text = "store    " + summary.path + "\nschema   " + std::to_string(summary.schema) +
                     "\nfile     " + in_units(summary.file_bytes) + ", " + in_units(summary.free_bytes) +
                     " of it free; log " + in_units(summary.log_bytes) + "\n\n";
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
  return text + "\nEvery page and every checksum is right.\n";
}

}  // namespace lanemq::io
