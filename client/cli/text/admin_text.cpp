// SPDX-License-Identifier: Apache-2.0
#include "client/cli/text/admin_text.hpp"

#include <algorithm>
#include <cstdio>
#include <map>

#include <nlohmann/json.hpp>

#include <lanemq/limits.hpp>
#include <lanemq/text.hpp>

#include "client/cli/text/stats_table.hpp"
#include "client/cli/text/table.hpp"
#include "client/cli/text/terminal.hpp"
#include "common/explanation/explanation.hpp"

namespace lanemq::cli {
namespace {

using Document = nlohmann::ordered_json;

/// Lines of `lanemq top` for workers, and for clients.
constexpr std::size_t kTopRows = 10;

/// Ids that a sentence lists.
constexpr std::size_t kIdsShown = 10;

struct Column {
  const char* title;
  const char* field;  ///< or the way to it, with dots
};

struct Table {
  std::string_view verb;
  std::vector<Column> columns;
};

const std::vector<Table>& verb_table() {
  static const std::vector<Table> kTables{
      {"jobs",
       {{"JOB", "id"},
        {"state", "state"},
        {"lane", "lane"},
        {"service", "service"},
        {"client", "client"},
        {"model", "model"},
        {"attempts", "attempts"},
        {"age", "age_ms"},
        {"worker", "worker"},
        {"pct", "pct"},
        {"note", "note"},
        {"silent", "silent_ms"}}},
      {"lanes",
       {{"LANE", "name"},
        {"queued", "queued"},
        {"delayed", "delayed"},
        {"running", "running"},
        {"wait p50 1m", "wait_ms.minute.p50"},
        {"wait p99 1m", "wait_ms.minute.p99"},
        {"wait p99 10m", "wait_ms.ten_minutes.p99"},
        {"run p50 1m", "run_ms.minute.p50"},
        {"first p50 1m", "first_piece_ms.minute.p50"},
        {"depth_max", "depth_max"},
        {"timeout", "timeout_ms"},
        {"stall_timeout", "stall_timeout_ms"},
        {"reserve", "reserve"},
        {"share_min", "share_min"},
        {"boost_after", "boost_after_ms"},
        {"paused", "paused"}}},
      {"services",
       {{"SERVICE", "name"},
        {"queued", "queued"},
        {"running", "running"},
        {"workers", "workers"},
        {"wanted", "workers_wanted"},
        {"free places", "free_places"},
        {"wait p50 1m", "wait_ms.minute.p50"},
        {"wait p99 1m", "wait_ms.minute.p99"},
        {"run p50 1m", "run_ms.minute.p50"},
        {"breaker", "breaker"},
        {"paused", "paused"}}},
      {"workers",
       {{"WORKER", "name"},
        {"session", "session"},
        {"state", "state"},
        {"running", "running"},
        {"stopping", "stopping"},
        {"capacity", "capacity"},
        {"services", "services"},
        {"lanes", "lanes"},
        {"heard", "heard_ms"}}},
      {"clients",
       {{"CLIENT", "name"},
        {"waiting", "waiting"},
        {"running", "running"},
        {"jobs", "run_ms.count"},
        {"tokens", "tokens"},
        {"wait p50 1m", "wait_ms.minute.p50"},
        {"wait p99 1m", "wait_ms.minute.p99"},
        {"weight", "weight"},
        {"in_flight_max", "in_flight_max"},
        {"depth_max", "depth_max"},
        {"paused", "paused"}}},
      {"dead",
       {{"DEAD JOB", "id"},
        {"code", "code"},
        {"lane", "lane"},
        {"service", "service"},
        {"client", "client"},
        {"model", "model"},
        {"tries", "attempts"},
        {"since", "dead_ms"},
        {"message", "message"}}},
      {"plugin",
       {{"PLUGIN", "name"},
        {"does", "does"},
        {"state", "state"},
        {"calls", "calls"},
        {"refused", "refused"},
        {"slow", "slow"},
        {"mean us", "mean_us"},
        {"longest us", "longest_us"},
        {"reason", "reason"}}},
      {"changes",
       {{"VERB", "verb"}, {"of", "what"}, {"name", "name"}, {"how", "how"}, {"by", "by"}, {"ago", "ago_ms"}}},
      {"config", {{"OPTION", "key"}, {"value", "value"}, {"from", "from"}}},
      {"reload", {{"OPTION", "what"}, {"how", "how"}, {"from", "from"}, {"to", "to"}, {"counts", "counts"}}},
      {"pauses", {{"PAUSED", "what"}, {"name", "name"}, {"for", "for_ms"}, {"reason", "reason"}}}};
  return kTables;
}

Document parsed(std::string_view text) {
  return Document::parse(text, nullptr, false);
}

const Document& part(const Document& object, std::string_view name) {
  static const Document kNone;
  if (!object.is_object()) return kNone;
  const auto at = object.find(name);
  return at == object.end() ? kNone : *at;
}

std::string text_of(const Document& object, std::string_view name) {
  const Document& value = part(object, name);
  return value.is_string() ? printable(value.get<std::string>(), limits::text_bytes_max) : std::string();
}

std::int64_t number_of(const Document& object, std::string_view name) {
  const Document& value = part(object, name);
  return value.is_number() ? value.get<std::int64_t>() : 0;
}

bool holds(const Document& object, std::string_view name) {
  const Document& value = part(object, name);
  return value.is_boolean() && value.get<bool>();
}

/// A value for people: times with units, lists with commas.
std::string shown(std::string_view name, const Document& value) {
  if (value.is_string()) return printable(value.get<std::string>(), limits::text_bytes_max);
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_array()) {
    std::string list;
    for (const Document& one : value)
      list += (list.empty() ? "" : ",") + shown({}, one);
    return list;
  }
  if (value.is_number_float()) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", value.get<double>());
    return text;
  }
  if (!value.is_number_integer()) return "-";
  const auto number = value.get<std::int64_t>();
  if (name == "job") return std::to_string(number);  // without separators, to be searched in logs
  if (name.ends_with("_ms")) return short_duration(std::chrono::milliseconds(number));
  return number < 0 ? std::to_string(number) : grouped(static_cast<std::uint64_t>(number));
}

/// What a row shows in a column. A percentile of nothing is nothing.
std::string cell(const Column& column, const Document& row) {
  std::string_view way = column.field;
  const Document* here = &row;
  for (std::size_t dot = way.find('.'); dot != std::string_view::npos; dot = way.find('.')) {
    here = &part(*here, way.substr(0, dot));
    way.remove_prefix(dot + 1);
  }
  const bool is_percentile = here != &row && way != "count";
  const Document& value = part(*here, way);
  if (!is_percentile) return shown(way, value);
  if (!value.is_number() || number_of(*here, "count") == 0) return "-";
  return short_duration(std::chrono::milliseconds(value.get<std::int64_t>()));
}

std::vector<TableRow> rows_of(const Table& table, const Document& list) {
  std::vector<TableRow> rows(1);
  for (const Column& column : table.columns)
    rows[0].emplace_back(column.title);
  for (const Document& entry : list) {
    TableRow& row = rows.emplace_back();
    for (const Column& column : table.columns)
      row.push_back(cell(column, entry));
  }
  // Leaves out columns that no row fills.
  for (std::size_t i = table.columns.size(); i-- > 1 && rows.size() > 1;)
    if (std::all_of(rows.begin() + 1, rows.end(), [&](const TableRow& row) { return row[i] == "-"; }))
      for (TableRow& row : rows)
        row.erase(row.begin() + static_cast<std::ptrdiff_t>(i));
  return rows;
}

std::string list_text(const Table& table, const Document& list, bool colour) {
  if (list.empty()) return "no " + std::string(table.verb) + "\n";
  return aligned_table(rows_of(table, list), colour);
}

/// The name without its unit, which the value shows.
std::string_view label_of(std::string_view name) {
  return name.ends_with("_ms") ? name.substr(0, name.size() - 3) : name;
}

std::string job_text(const Document& job, bool colour) {
  std::size_t width = 0;
  for (const auto& [name, value] : job.items())
    width = std::max(width, label_of(name).size());
  std::string text;
  for (const auto& [name, value] : job.items()) {
    if (name == "ref" || name == "history") continue;
    const std::string label = printable(label_of(name));
    text += label + std::string(width - std::min(width, label.size()) + 2, ' ') + shown(name, value) + "\n";
  }
  static const Table kHistory{"history",
                              {{"ATTEMPT", "attempt"},
                               {"worker", "worker"},
                               {"ago", "ago_ms"},
                               {"ran", "ran_ms"},
                               {"class", "class"},
                               {"code", "code"},
                               {"message", "message"}}};
  if (const Document& history = part(job, "history"); history.is_array())
    text += "\n" + list_text(kHistory, history, colour);
  return text;
}

/// A sentence about redriven or purged jobs.
std::string dead_text(const Document& change) {
  const auto jobs = [](std::int64_t count) {
    return std::to_string(count) + (count == 1 ? " job" : " jobs");
  };
  const bool purged = part(change, "purged").is_number();
  const bool dry = holds(change, "dry_run");
  std::string text = dry ? "would be: " : "";
  text += jobs(number_of(change, purged ? "purged" : "redriven")) + (purged ? " forgotten" : " run again");
  if (const std::int64_t refused = number_of(change, "refused"); refused > 0)
    text += ", " + std::to_string(refused) + " stay dead (" + text_of(change, "code") + ": " +
            text_of(change, "message") + ")";
  std::size_t shown_ids = 0;
  for (const Document& id : part(change, "ids"))
    if (shown_ids++ < kIdsShown) text += (shown_ids == 1 ? ": " : " ") + shown({}, id);
  if (shown_ids > kIdsShown) text += " ...";
  return text + "\n";
}

/// What a reload of the configuration changed, or would change.
std::string reload_text(const Table& table, const Document& answer, bool colour) {
  const Document& changes = part(answer, table.verb);
  const bool dry = holds(answer, "dry_run");
  std::string text = dry ? "this would change; nothing has\n" : "the configuration is read again\n";
  if (changes.empty())
    return dry ? "nothing would change\n" : "the configuration is read again; nothing has changed\n";
  text += aligned_table(rows_of(table, changes), colour);
  if (const std::int64_t more = number_of(answer, "more"); more > 0)
    text += "and " + std::to_string(more) + " more\n";
  return text;
}

std::string handover_text(const Document& answer) {
  const std::string owner =
      text_of(answer, "instance") + " (epoch " + std::to_string(number_of(answer, "epoch")) + ")";
  std::string then = "a broker that waits for it goes on within half a second";
  if (const Document& waiting = part(answer, "candidates"); waiting.is_number_integer())
    then = waiting == 0 ? "no broker waits for it: nobody serves until one starts"
           : waiting == 1
               ? "the broker that waits for it goes on within half a second"
               : "one of " + waiting.dump() + " brokers that wait for it goes on within half a second";
  return (holds(answer, "dry_run") ? "would be: " : "") + owner + " gives its store back and ends; " + then +
         "\n";
}

/// A sentence about a change.
std::string change_text(std::string_view verb, const Document& change) {
  const std::string thing = text_of(change, "what") + " " + text_of(change, "name");
  const std::string workers = std::to_string(number_of(change, "workers")) + " of that name, " +
                              std::to_string(number_of(change, "running")) + " jobs running";
  std::string text;
  if (verb == "pause") {
    const std::string reason = text_of(change, "reason");
    text = thing + " is paused" + (reason.empty() ? "" : ": " + reason);
  } else if (part(change, "draining").is_boolean()) {
    text = thing + (holds(change, "draining") ? " is draining" : " takes jobs again") + " (" + workers + ")";
  } else if (verb == "resume") {
    text = thing + " goes on";
  } else if (verb == "move") {
    text = "job " + text_of(change, "id") + " waits in lane " + text_of(change, "lane");
  } else {
    const std::string key = text_of(change, "key");
    text = thing + (key.empty() ? "" : " key " + key) + ": " + text_of(change, "setting") + " is " +
           text_of(change, "value") + " until " + text_of(change, "until");
  }
  if (!holds(change, "changed")) text += " (as it was before)";
  return (holds(change, "dry_run") ? "would be: " : "") + text + "\n";
}

std::int64_t finished(const Document& stats, const std::string& lane) {
  const Document& of = part(part(stats, "lanes"), lane);
  return number_of(of, "succeeded") + number_of(of, "failed");
}

/// The rows with the highest sum of both fields, highest first, as many as fit.
Document busiest(const Document& list, std::string_view one, std::string_view other) {
  std::vector<Document> rows(list.begin(), list.end());
  const auto busy = [&](const Document& row) { return number_of(row, one) + number_of(row, other); };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const Document& a, const Document& b) { return busy(a) > busy(b); });
  Document first = Document::array();
  for (const Document& row : rows)
    if (first.size() < kTopRows) first.push_back(row);
  return first;
}

void add_lines(std::vector<std::string>& lines, const std::string& text) {
  if (!lines.empty()) lines.emplace_back();
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

}  // namespace

std::optional<std::int64_t> add_admin_page(std::string& document, const std::string& page,
                                           std::string_view verb, std::size_t rows_max, std::int64_t from) {
  Document all = document.empty() ? Document{{verb, Document::array()}} : parsed(document);
  const Document more = parsed(page);
  Document& rows = all[verb];
  for (const Document& row : part(more, verb))
    if (rows_max == 0 || rows.size() < rows_max) rows.push_back(row);
  const std::int64_t next = number_of(more, "next");
  const bool goes_on = next > from;  // must grow, so that a broker that repeats a page is not asked for ever
  const bool enough = rows_max > 0 && rows.size() >= rows_max;
  if (goes_on && enough) all["next"] = next;
  document = all.dump();
  return goes_on && !enough ? std::optional(next) : std::nullopt;
}

std::optional<std::int64_t> add_dead_change(std::string& document, const std::string& answer) {
  const Document more = parsed(answer);
  const std::int64_t next = number_of(more, "next");
  if (document.empty()) {
    document = answer;
  } else {
    Document all = parsed(document);
    for (const char* count : {"redriven", "refused", "purged"})
      if (more.contains(count)) all[count] = number_of(all, count) + number_of(more, count);
    for (const char* text : {"code", "message"})
      if (!all.contains(text) && more.contains(text)) all[text] = more[text];
    for (const Document& id : part(more, "ids"))
      all["ids"].push_back(id);
    document = all.dump();
  }
  if (next == 0) return std::nullopt;
  Document all = parsed(document);
  all.erase("next");
  document = all.dump();
  return next;
}

bool nobody_waits(std::string_view json) {
  return part(parsed(json), "candidates") == 0;
}

std::optional<std::string> admin_text(std::string_view verb, std::string_view json, bool colour) {
  const Document document = parsed(json);
  if (!document.is_object()) return std::nullopt;
  for (const Table& table : verb_table()) {
    if (table.verb != verb) continue;
    const Document& list = part(document, verb);
    if (verb == "reload" && list.is_array()) return reload_text(table, document, colour);
    return list.is_array() ? std::optional(list_text(table, list, colour)) : std::nullopt;
  }
  if (verb == "job") return job_text(document, colour);
  if (verb == "handover") return handover_text(document);
  if (verb == "backup") return "the store is copied to " + text_of(document, "path") + "\n";
  return verb == "redrive" || verb == "purge" ? dead_text(document) : change_text(verb, document);
}

namespace {

const Document& minute_of(const Document& lane, const char* times) {
  return part(part(lane, times), "minute");
}

}  // namespace

std::vector<std::string> top_lines(const TopFacts& facts, const TopFacts& before,
                                   std::chrono::duration<double> elapsed) {
  const Document stats = parsed(facts.stats), earlier = parsed(before.stats), listed = parsed(facts.lanes);
  std::vector<std::string> lines;
  const Document& places = part(stats, "workers");
  add_lines(lines, "lanemq-broker " + text_of(stats, "version") + "  up " +
                       shown("up_ms", part(stats, "uptime_ms")) + "  workers " +
                       shown({}, part(places, "connected")) + "  places " +
                       shown({}, part(places, "running")) + "/" + shown({}, part(places, "capacity")) +
                       "  q quits");
  std::vector<TableRow> lanes{{"LANE", "queued", "delayed", "running", "done/s", "oldest", "wait p50 1m",
                               "wait p99 1m", "run p50 1m"}};
  // The stats document has these since the start alone, which says nothing of now after a week.
  std::map<std::string, Document> rows;
  for (const Document& row : part(listed, "lanes"))
    rows[text_of(row, "name")] = row;
  for (const auto& [name, lane] : part(stats, "lanes").items()) {
    char rate[32] = "-";
    if (earlier.is_object() && elapsed.count() > 0)
      std::snprintf(rate, sizeof rate, "%.1f",
                    static_cast<double>(finished(stats, name) - finished(earlier, name)) / elapsed.count());
    const auto ms = [](const Document& of, const char* field) {
      const Document& value = part(of, field);
      return value.is_number() ? short_duration(std::chrono::milliseconds(value.get<std::int64_t>())) : "-";
    };
    lanes.push_back({printable(name), shown({}, part(lane, "queued")), shown({}, part(lane, "delayed")),
                     shown({}, part(lane, "running")), rate, ms(lane, "oldest_ms"),
                     ms(minute_of(rows[printable(name)], "wait_ms"), "p50"),
                     ms(minute_of(rows[printable(name)], "wait_ms"), "p99"),
                     ms(minute_of(rows[printable(name)], "run_ms"), "p50")});
  }
  add_lines(lines, aligned_table(lanes, false));
  if (const Document& paused = part(stats, "paused"); paused.is_array() && !paused.empty())
    add_lines(lines, "PAUSED  " + shown({}, paused));
  if (const std::string groups = groups_table(facts.stats, false); !groups.empty()) add_lines(lines, groups);
  if (!part(stats, "budgets").empty())
    add_lines(lines, limits_table(facts.stats, false).value_or(std::string()));
  for (const Table& table : verb_table()) {
    if (table.verb == "workers")
      add_lines(lines,
                list_text(table, busiest(part(parsed(facts.workers), "workers"), "running", ""), false));
    if (table.verb == "clients")
      add_lines(lines, list_text(table, busiest(part(parsed(facts.clients), "clients"), "running", "waiting"),
                                 false));
  }
  return lines;
}

}  // namespace lanemq::cli
