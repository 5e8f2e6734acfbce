// SPDX-License-Identifier: Apache-2.0
#include "client/cli/stats_table.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <nlohmann/json.hpp>

#include <lanemq/text.hpp>

#include "client/cli/terminal.hpp"

namespace lanemq::cli {
namespace {

using Json = nlohmann::ordered_json;  // lanes stand in the order the broker says them in
using Row = std::vector<std::string>;

const Json& member(const Json& object, const char* name) {
  static const Json kNothing;
  if (!object.is_object()) return kNothing;
  const auto at = object.find(name);
  return at == object.end() ? kNothing : *at;
}

std::string count(const Json& value) {
  if (value.is_number_integer() || value.is_number_unsigned()) {
    const auto number = value.get<std::int64_t>();
    return number < 0 ? "-" + grouped(static_cast<std::uint64_t>(-number))
                      : grouped(static_cast<std::uint64_t>(number));
  }
  if (!value.is_number()) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value.get<double>());
  return text;
}

std::string duration(const Json& value) {
  if (!value.is_number()) return "-";
  return short_duration(std::chrono::milliseconds(static_cast<std::int64_t>(value.get<double>())));
}

std::string bytes(const Json& value) {
  if (!value.is_number()) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", value.get<double>() / (1024.0 * 1024.0));
  return text;
}

/// Columns as wide as their widest cell: the first to the left, the others to the right.
std::string aligned(const std::vector<Row>& rows, bool colour) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (std::size_t i = 0; i < rows[r].size(); ++i) {
      const std::string& cell = rows[r][i];
      const std::size_t space = widths[i] - cell.size();
      if (i > 0) line.append(space + 2, ' ');
      line += cell;
      if (i == 0) line.append(space, ' ');
    }
    text += colour && r == 0 ? "\x1b[1m" + line + "\x1b[0m\n" : line + "\n";
  }
  return text;
}

std::string lanes_table(const Json& lanes, bool colour) {
  std::vector<Row> rows{{"LANE", "queued", "delayed", "running", "succeeded", "failed", "refused", "oldest",
                         "wait p50", "wait p99", "run p50", "run p99"}};
  for (const auto& [name, lane] : lanes.items()) {
    const Json& wait = member(lane, "wait_ms");
    const Json& run = member(lane, "run_ms");
    rows.push_back(
        {printable(name), count(member(lane, "queued")), count(member(lane, "delayed")),
         count(member(lane, "running")), count(member(lane, "succeeded")), count(member(lane, "failed")),
         count(member(lane, "refused")), duration(member(lane, "oldest_ms")), duration(member(wait, "p50")),
         duration(member(wait, "p99")), duration(member(run, "p50")), duration(member(run, "p99"))});
  }
  return aligned(rows, colour);
}

std::string budgets_table(const Json& budgets, bool colour) {
  std::vector<Row> rows{{"BUDGET", "limit", "level", "capacity", "per minute"}};
  for (const auto& [name, limits] : budgets.items()) {
    if (!limits.is_object()) continue;
    for (const auto& [limit, state] : limits.items())
      rows.push_back({printable(name), printable(limit), count(member(state, "level")),
                      count(member(state, "capacity")), count(member(state, "limit"))});
  }
  return rows.size() > 1 ? "\n" + aligned(rows, colour) : std::string();
}

}  // namespace

std::optional<std::string> stats_table(std::string_view text, bool colour) {
  const Json document = Json::parse(text, nullptr, false);
  const Json& lanes = member(document, "lanes");
  if (!lanes.is_object()) return std::nullopt;

  const Json& version = member(document, "version");
  std::string table = "lanemq-broker " + (version.is_string() ? printable(version.get<std::string>()) : "?") +
                      ", up " + duration(member(document, "uptime_ms")) + ", memory " +
                      bytes(member(document, "memory_bytes")) + "\n\n";
  table += lanes_table(lanes, colour);
  const Json& workers = member(document, "workers");
  table += "\nworkers: " + count(member(workers, "connected")) + " connected, " +
           count(member(workers, "running")) + " of " + count(member(workers, "capacity")) +
           " places running\n";
  return table + budgets_table(member(document, "budgets"), colour);
}

}  // namespace lanemq::cli
