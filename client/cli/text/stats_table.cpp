// SPDX-License-Identifier: Apache-2.0
#include "client/cli/text/stats_table.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <nlohmann/json.hpp>

#include <lanemq/text.hpp>

#include "client/cli/text/table.hpp"
#include "client/cli/text/terminal.hpp"
#include "common/explanation/explanation.hpp"
#include "common/explanation/unserved.hpp"

namespace lanemq::cli {
namespace {

using Json = nlohmann::ordered_json;  // keeps the broker's order of lanes

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
  const double size = value.get<double>();
  const bool is_small = size < 1024.0 * 1024.0;
  char text[32];
  std::snprintf(text, sizeof text, is_small ? "%.1f KiB" : "%.1f MiB",
                size / (is_small ? 1024.0 : 1024.0 * 1024.0));
  return text;
}

/// Whether the lane has, or had, any job.
bool is_used(const Json& lane) {
  for (const char* figure : {"queued", "delayed", "running", "succeeded", "failed", "refused"})
    if (const Json& value = member(lane, figure); value.is_number() && value.get<double>() != 0) return true;
  return false;
}

/// `failed` counts what was cancelled, too; a broker of an earlier version does not say how many.
std::string failed_but_for_cancelled(const Json& lane) {
  const Json &failed = member(lane, "failed"), &cancelled = member(lane, "cancelled");
  if (!failed.is_number_integer() || !cancelled.is_number_integer()) return count(failed);
  return count(failed.get<std::int64_t>() - cancelled.get<std::int64_t>());
}

/// `memory 18.2 MiB, 1.2 KiB of it jobs`: of the process, and what jobs and answers count for.
std::string memory_of(const Json& document) {
  const Json &resident = member(document, "resident_bytes"), &jobs = member(document, "memory_bytes");
  if (!resident.is_number()) return "memory " + bytes(jobs);
  return "memory " + bytes(resident) +
         (jobs.is_number() && jobs.get<double>() > 0 ? ", " + bytes(jobs) + " of it jobs" : "");
}

/// Of a list that the broker has cut.
std::string others_of(const Json& document, const char* left_out) {
  const Json& others = member(document, left_out);
  return others.is_number_integer() ? "and " + count(others) + " others" : std::string();
}

/// Two tables, each of which fits 80 columns: what there is, and how long it takes.
std::string lanes_table(const Json& lanes, bool colour, bool all) {
  std::vector<TableRow> jobs{
      {"LANE", "queued", "delayed", "running", "succeeded", "failed", "cancelled", "refused", "oldest"}};
  std::vector<TableRow> times{{"SINCE START", "wait p50", "wait p99", "run p50", "run p99"}};
  std::string left_out;
  all = all || std::none_of(lanes.begin(), lanes.end(), is_used);
  for (const auto& [name, lane] : lanes.items()) {
    if (!all && !is_used(lane)) {
      left_out += (left_out.empty() ? "" : ", ") + printable(name);
      continue;
    }
    const Json& wait = member(lane, "wait_ms");
    const Json& run = member(lane, "run_ms");
    jobs.push_back({printable(name), count(member(lane, "queued")), count(member(lane, "delayed")),
                    count(member(lane, "running")), count(member(lane, "succeeded")),
                    failed_but_for_cancelled(lane), count(member(lane, "cancelled")),
                    count(member(lane, "refused")), duration(member(lane, "oldest_ms"))});
    times.push_back({printable(name), duration(member(wait, "p50")), duration(member(wait, "p99")),
                     duration(member(run, "p50")), duration(member(run, "p99"))});
  }
  return aligned_table(jobs, colour) +
         (left_out.empty() ? "" : "not used so far: " + left_out + " (--all shows them)\n") + "\n" +
         aligned_table(times, colour);
}

/// Adds the rows of a budget's or key's limits. A pause holds for all of them.
void add_limits(std::vector<TableRow>& rows, const std::string& name, const std::string& state,
                const Json& limits) {
  const Json& paused = member(limits, "paused_ms");
  const std::size_t before = rows.size();
  for (const auto& [limit, of] : limits.items()) {
    if (limit == "paused_models_ms") continue;  // a map of models: one may be named "limit"
    const Json& allowed = member(of, "limit");
    const Json& level = member(of, "level");
    if (!allowed.is_number_integer()) continue;
    const bool is_concurrency = limit == "concurrency";
    // Of a budget that several shards share: what runs here.
    const Json& running = member(of, "running");
    const Json& effective = member(of, "effective");
    const Json& places = effective.is_number_integer() ? effective : allowed;
    const std::string in_use = !is_concurrency || !level.is_number_integer() ? "-"
                               : running.is_null()
                                   ? count(places.get<std::int64_t>() - level.get<std::int64_t>())
                                   : count(running);
    // Where the upstream has stated or shown another one.
    const std::string counts = effective.is_null() || effective == allowed
                                   ? count(allowed)
                                   : count(effective) + " of " + count(allowed);
    // Of a budget that several shards share: level is the bank's.
    const Json& here = member(of, "here");
    const Json& own = member(of, "own");
    const std::string where =
        here.is_null() ? state : count(here) + " here" + (own.is_null() ? "" : ", " + count(own) + " own");
    rows.push_back({name, printable(limit), counts, count(level),
                    is_concurrency ? "-" : count(member(of, "capacity")), in_use, duration(paused), where});
  }
  for (const auto& [model, left] : member(limits, "paused_models_ms").items())
    rows.push_back({name, "model=" + printable(model), "-", "-", "-", "-", duration(left), state});
  // A key without limits of its own has a row, too.
  if (rows.size() == before && !state.empty())
    rows.push_back({name, "-", "-", "-", "-", "-", duration(paused), state});
}

/// Where a learnt limit is from; empty: it is as configured.
std::string learnt_from(const Json& limit) {
  const Json& from = member(limit, "learnt_from");
  if (from != "words" && from != "refusals") return {};
  return (from == "words" ? "as the upstream said " : "as refusals showed ") +
         duration(member(limit, "learnt_ms")) + " ago";
}

/// Below the table: from what the numbers are known that are not the configured ones, and what others use.
void tell_learnt(std::string& text, const std::string& name, const Json& limits) {
  for (const auto& [limit, of] : limits.items()) {
    if (limit == "paused_models_ms") continue;
    const std::string which = name + " " + printable(limit) + ": ";
    if (const std::string from = learnt_from(of); !from.empty())
      text += which + count(member(of, "effective")) + " " + from + "\n";
    if (member(of, "window_learnt") == "bucket")
      text += which + "its upstream counts in a bucket, as its words show\n";
    if (const Json& others = member(of, "others"); others.is_number_integer())
      text += which + "others use " + count(others) + " of it\n";
  }
}

std::string learnt_lines(const Json& budgets, const Json& keys) {
  std::string text;
  for (const auto& [name, limits] : budgets.items())
    tell_learnt(text, printable(name), limits);
  for (const auto& [name, its_keys] : keys.items())
    for (const auto& [key, limits] : its_keys.items())
      tell_learnt(text, printable(name) + "/" + printable(key), limits);
  return text;
}

void add_keys(std::vector<TableRow>& rows, const std::string& budget, const Json& keys) {
  for (const auto& [key, state] : keys.items()) {
    const Json& says = member(state, "state");
    add_limits(rows, printable(budget) + "/" + printable(key),
               (says.is_string() ? printable(says.get<std::string>()) : "?") + ", " +
                   count(member(state, "running")) + " running",
               state);
  }
}

std::string budgets_table(const Json& document, bool colour) {
  std::vector<TableRow> rows{
      {"BUDGET", "limit", "allowed", "available", "burst", "in use", "paused for", "state"}};
  const Json& budgets = member(document, "budgets");
  const Json& keys = member(document, "keys");
  for (const auto& [name, limits] : budgets.items()) {
    if (!limits.is_object()) continue;
    add_limits(rows, printable(name), "", limits);
    add_keys(rows, name, member(keys, name.c_str()));
  }
  for (const auto& [name, its_keys] : keys.items())
    if (keys.is_object() && !budgets.contains(name))
      add_keys(rows, name, its_keys);  // only keys were asked for
  // Without keys there is no column for them.
  if (std::all_of(rows.begin() + 1, rows.end(), [](const TableRow& row) { return row.back().empty(); }))
    for (TableRow& row : rows)
      row.pop_back();
  if (rows.size() == 1) return {};
  const Json& bank = member(member(document, "bank"), "state");
  return aligned_table(rows, colour) + learnt_lines(budgets, keys) +
         (bank == "away"
              ? "the bank is away: of budgets that shards share this is what it said last; bank.away in "
                "the broker's log says why\n"
              : "");
}

std::string upstreams_table(const Json& upstreams, bool colour) {
  std::vector<TableRow> rows{{"UPSTREAM", "breaker", "retry in", "retries left", "model", "client"}};
  const auto text = [](const Json& value, const char* none) {
    return value.is_string() ? printable(value.get<std::string>()) : std::string(none);
  };
  for (const auto& [service, state] : upstreams.items()) {
    if (!state.is_object()) continue;
    const auto add = [&](const Json& breaker) {
      rows.push_back({printable(service), text(member(breaker, "breaker"), "?"),
                      duration(member(breaker, "retry_ms")), count(member(breaker, "retries_left")),
                      text(member(breaker, "model"), ""), text(member(breaker, "client"), "")});
    };
    add(state);
    for (const Json& apart : member(state, "apart"))
      add(apart);
  }
  // There are no columns for client and model if no row has one.
  if (std::all_of(rows.begin() + 1, rows.end(),
                  [](const TableRow& row) { return row[4].empty() && row[5].empty(); }))
    for (TableRow& row : rows)
      row.resize(4);
  return rows.size() > 1 ? aligned_table(rows, colour) : std::string();
}

}  // namespace

std::optional<std::int64_t> add_stats_page(std::string& document, const std::string& page,
                                           std::int64_t from) {
  Json more = Json::parse(page, nullptr, false);
  const Json next = member(more, "next");
  if (document.empty() && next.is_null()) {
    document = page;
    return std::nullopt;
  }
  Json all = document.empty() ? Json::object() : Json::parse(document, nullptr, false);
  if (more.is_object()) more.erase("next");
  all.merge_patch(more);
  document = all.dump();
  // Must grow, so that a broker that repeats a page is not asked for ever.
  return next.is_number_integer() && next.get<std::int64_t>() > from ? std::optional(next.get<std::int64_t>())
                                                                     : std::nullopt;
}

std::optional<std::string> stats_table(std::string_view text, bool colour, bool all_lanes) {
  const Json document = Json::parse(text, nullptr, false);
  const Json& lanes = member(document, "lanes");
  if (!lanes.is_object()) return std::nullopt;

  const Json& version = member(document, "version");
  std::string table = "lanemq-broker " + (version.is_string() ? printable(version.get<std::string>()) : "?") +
                      ", up " + duration(member(document, "uptime_ms")) + ", " + memory_of(document) + "\n\n";
  table += lanes_table(lanes, colour, all_lanes);
  const Json& workers = member(document, "workers");
  table += "\nworkers: " + count(member(workers, "connected")) + " connected, " +
           count(member(workers, "running")) + " of " + count(member(workers, "capacity")) +
           " places running\n";
  for (const auto& [service, state] : member(document, "unserved").items()) {
    const Json& lane = member(state, "lane");
    table += "no worker serves " +
             name_of(Unserved{.service = service,
                              .lane = lane.is_string() ? lane.get<std::string>() : std::string(),
                              .draining = member(state, "draining") == true}) +
             " (queued: " + count(member(state, "queued")) + ")\n";
  }
  if (const std::string others = others_of(document, "unserved_left_out"); !others.empty())
    table += others + " that no worker serves; lanemq services lists all\n";
  std::string paused;
  for (const Json& one : member(document, "paused"))
    if (one.is_string()) paused += (paused.empty() ? "" : ", ") + printable(one.get<std::string>());
  const std::string others_paused = others_of(document, "paused_left_out");
  if (!paused.empty())
    table += "paused: " + paused +
             (others_paused.empty() ? "" : ", " + others_paused + "; lanemq pauses lists all") + "\n";
  if (const std::string groups = groups_table(text, colour); !groups.empty()) table += "\n" + groups;
  const std::string budgets = budgets_table(document, colour);
  if (!budgets.empty()) table += "\n" + budgets;
  const std::string upstreams = upstreams_table(member(document, "upstreams"), colour);
  if (upstreams.empty()) return table;
  table += "\n" + upstreams;
  const std::string others = others_of(document, "upstreams_left_out");
  return others.empty() ? table : table + others + "; lanemq services lists all\n";
}

std::string groups_table(std::string_view text, bool colour) {
  const Json document = Json::parse(text, nullptr, false);
  std::vector<TableRow> rows{{"GROUP", "done", "of", "failed", "open", "for", "over in"}};
  for (const auto& [name, group] : member(document, "groups").items()) {
    std::int64_t failed = 0;
    for (const char* const how : {"failed", "cancelled", "expired"})
      if (const Json& jobs = member(group, how); jobs.is_number_integer()) failed += jobs.get<std::int64_t>();
    rows.push_back({printable(name), count(member(group, "succeeded")), count(member(group, "size")),
                    count(failed), count(member(group, "open")), duration(member(group, "age_ms")),
                    duration(member(group, "left_ms"))});
  }
  return rows.size() > 1 ? aligned_table(rows, colour) : std::string();
}

std::optional<std::string> limits_table(std::string_view text, bool colour, std::string_view none) {
  const Json document = Json::parse(text, nullptr, false);
  if (!member(document, "budgets").is_object()) return std::nullopt;
  std::string table = budgets_table(document, colour);
  for (const Json& one : member(document, "paused"))
    if (one.is_string() && one.get<std::string>().starts_with("budget ")) {
      const std::string what = printable(one.get<std::string>());
      table += what + " is paused by an operator; `lanemq resume " + what + "` ends that\n";
    }
  return table.empty() ? std::string(none) : table;
}

namespace {

/// Says in front of a budget or key where its numbers are from.
std::string learnt_comments(const Json& limits, const std::string& indent) {
  std::string comments;
  for (const auto& [limit, of] : limits.items())
    if (const std::string from = learnt_from(of); limit != "paused_models_ms" && !from.empty())
      comments +=
          indent + "# " + printable(limit) + ": " + count(member(of, "effective")) + " " + from + "\n";
  return comments;
}

/// The learnt limits of a budget or key as entries of a file: `limits = { … }`, `concurrency = 4`.
std::vector<std::string> learnt_settings(const Json& limits) {
  std::string rates, places;
  for (const auto& [limit, of] : limits.items()) {
    const Json& effective = member(of, "effective");
    if (limit == "paused_models_ms" || !effective.is_number_integer()) continue;
    const std::string number = std::to_string(effective.get<std::int64_t>());
    if (limit == "concurrency")
      places = "concurrency = " + number;
    else
      rates += (rates.empty() ? "" : ", ") + printable(limit) + " = " + number;
  }
  std::vector<std::string> settings;
  if (!rates.empty()) settings.push_back("limits = { " + rates + " }");
  if (!places.empty()) settings.push_back(places);
  return settings;
}

bool shows_bucket(const Json& limits) {
  return std::any_of(limits.begin(), limits.end(),
                     [](const Json& limit) { return member(limit, "window_learnt") == "bucket"; });
}

/// Matches that name alone, as far as a pattern can: no sign of it can stand for others.
std::string pattern_of(std::string name) {
  std::replace(name.begin(), name.end(), '*', '?');
  return Json(name).dump();
}

constexpr std::string_view kLearnt = "learnt:";

/// The name; of a budget that was learnt, `learnt:SERVICE/MODEL`, one that it may have, and what it counts.
std::string named(const std::string& name) {
  if (!name.starts_with(kLearnt)) return "name = " + Json(name).dump() + "\n";
  const std::string of = name.substr(kLearnt.size());
  const std::size_t end = std::min(of.find('/'), of.size());
  std::string match = "service = " + pattern_of(of.substr(0, end));
  if (end < of.size()) match += ", model = " + pattern_of(of.substr(end + 1));
  return "name = " + Json(of).dump() + "\nmatch = { " + match + " }\n";
}

/// Whether it is of jobs that name no model, while others of the service do: a budget would count all of
/// them.
bool is_of_no_model(const std::string& name, const Json& budgets) {
  if (!name.starts_with(kLearnt) || name.find('/') != std::string::npos) return false;
  return std::any_of(budgets.items().begin(), budgets.items().end(),
                     [&](const auto& other) { return other.key().starts_with(name + "/"); });
}

std::string commented(const std::string& lines) {
  std::string out = "# ";
  for (const char c : lines)
    out += c == '\n' ? std::string("\n# ") : std::string(1, c);
  out.resize(out.size() - 2);
  return out;
}

}  // namespace

std::optional<std::string> limits_config(std::string_view text) {
  const Json document = Json::parse(text, nullptr, false);
  const Json& budgets = member(document, "budgets");
  if (!budgets.is_object()) return std::nullopt;
  std::string file;
  for (const auto& [name, limits] : budgets.items()) {
    std::vector<std::string> own = learnt_settings(limits);
    if (shows_bucket(limits)) own.emplace_back("window = \"bucket\"");
    std::string keys;
    for (const auto& [key, of] : member(member(document, "keys"), name.c_str()).items()) {
      const std::vector<std::string> settings = learnt_settings(of);
      if (settings.empty()) continue;
      keys += learnt_comments(of, "  ") + "  { name = " + Json(key).dump();
      for (const std::string& setting : settings)
        keys += ", " + setting;
      keys += " },\n";
    }
    if (own.empty() && keys.empty()) continue;
    // A text of JSON is one of TOML.
    std::string entry = "[[budget]]\n" + named(name);
    for (const std::string& setting : own)
      entry += setting + "\n";
    if (!keys.empty()) entry += "keys = [\n" + keys + "]\n";
    file += "\n" + learnt_comments(limits, "");
    if (is_of_no_model(name, budgets))
      file += "# Its jobs name no model. A budget would count the service's other models, too:\n" +
              commented(entry);
    else
      file += entry;
  }
  if (file.empty()) return "# no upstream has stated or shown another limit than is configured\n";
  return "# What upstreams have stated or shown. Put the numbers into the budgets of these names; those that "
         "are\n"
         "# not configured yet have what they count in match. A configured number is only ever lowered: one "
         "that\n"
         "# refusals showed may be too low.\n" +
         file;
}

std::optional<std::string> limits_json(std::string_view text) {
  const Json document = Json::parse(text, nullptr, false);
  const Json& budgets = member(document, "budgets");
  if (!budgets.is_object()) return std::nullopt;
  Json limits{{"budgets", budgets}};
  if (const Json& keys = member(document, "keys"); keys.is_object()) limits["keys"] = keys;
  return limits.dump() + "\n";
}

std::optional<std::string> limits_of_rows(std::string_view text) {
  const Json answer = Json::parse(text, nullptr, false);
  const Json& rows = member(answer, "budgets");
  if (!rows.is_array()) return std::nullopt;
  Json document{{"budgets", Json::object()}, {"keys", Json::object()}};
  for (const Json& row : rows) {
    const Json& name = member(row, "name");
    const Json& key = member(row, "key");
    if (!name.is_string()) return std::nullopt;
    Json& of = key.is_string() ? document["keys"][name.get<std::string>()][key.get<std::string>()]
                               : document["budgets"][name.get<std::string>()];
    of = Json::object();
    for (const char* field : {"state", "running", "jobs"})
      if (key.is_string()) of[field] = member(row, field);
    if (const Json& limits = member(row, "limits"); limits.is_object()) of.update(limits);
    for (const char* field : {"paused_ms", "paused_models_ms"})
      if (const Json& paused = member(row, field); !paused.is_null()) of[field] = paused;
    if (member(row, "paused") == true) document["paused"].push_back("budget " + name.get<std::string>());
  }
  return document.dump();
}

}  // namespace lanemq::cli
