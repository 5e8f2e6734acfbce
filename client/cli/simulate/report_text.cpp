// SPDX-License-Identifier: Apache-2.0
#include "client/cli/simulate/report_text.hpp"

#include <chrono>
#include <cmath>
#include <cstdio>

#include <nlohmann/json.hpp>

#include <lanemq/limits.hpp>
#include <lanemq/text.hpp>

#include "client/cli/text/table.hpp"
#include "client/cli/text/terminal.hpp"
#include "common/explanation/explanation.hpp"

namespace lanemq::cli {
namespace {

using ReportJson = nlohmann::ordered_json;  // keeps the order of lanes

std::string shown(core::Duration duration) {
  return short_duration(std::chrono::duration_cast<std::chrono::milliseconds>(duration));
}

std::string fixed(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

std::string plural(std::size_t count, const std::string& one) {
  return grouped(count) + " " + one + (count == 1 ? "" : "s");
}

/// An amount of a limit: with decimals for jobs at once, which are a mean, else a count.
std::string amount(const whatif::LimitReport& limit, double value) {
  return limit.concurrency ? fixed(value, 1) : grouped(static_cast<std::uint64_t>(std::llround(value)));
}

double ms_of(core::Duration duration) {
  return static_cast<double>(duration.count()) / 1e3;
}

/// Rounds to `parts` of one, so that its shortest text is short.
double rounded(double value, double parts) {
  return std::round(value * parts) / parts;
}

std::string lanes_part(const whatif::Report& report, bool colour) {
  std::vector<TableRow> rows{
      {"LANE", "jobs", "succeeded", "wait p50", "wait p99", "wait max", "refused", "expired"}};
  for (const whatif::LaneReport& lane : report.lanes)
    rows.push_back({printable(lane.name), grouped(lane.jobs), grouped(lane.succeeded), shown(lane.wait_p50),
                    shown(lane.wait_p99), shown(lane.wait_max), grouped(lane.refused),
                    grouped(lane.expired)});
  return aligned_table(rows, colour);
}

std::string used_while_waited(const whatif::LimitReport& limit) {
  if (limit.waited_periods == 0) return "-";
  return fixed(limit.waited_percent(), 1) + "%";
}

std::string limits_part(const whatif::Report& report, bool colour) {
  if (report.limits.empty()) return "no budget is configured\n";
  std::vector<TableRow> rows{
      {"BUDGET", "limit", "allows", "used", "of", "percent", "peak", "while jobs waited"}};
  for (const whatif::LimitReport& limit : report.limits)
    rows.push_back({printable(limit.budget), printable(limit.name),
                    grouped(static_cast<std::uint64_t>(limit.limit)), amount(limit, limit.used),
                    amount(limit, limit.allowed), fixed(limit.percent(), 1) + "%",
                    grouped(static_cast<std::uint64_t>(limit.peak)), used_while_waited(limit)});
  return aligned_table(rows, colour) +
         "used: sent in all, of what the limit allows over the time; peak: the most in any window of its "
         "period;\n"
         "of concurrency: jobs at once, in the mean and at most\n"
         "while jobs waited: used of the limit in whole periods during which some waited and had a free "
         "place\n";
}

}  // namespace

std::string report_text(const whatif::Report& report, const whatif::WorkerModel& model, bool colour) {
  std::string text = plural(report.requests, "request") + " of " + plural(report.clients, "client") +
                     " within " + shown(report.arrivals) + "; the last job ended after " + shown(report.ran) +
                     "\n";
  text +=
      "workers: " + plural(model.places, "place") + " for each service; a job takes " +
      shown(model.first_token) +
      (model.tokens_per_second > 0 ? " and a second for each " + fixed(model.tokens_per_second, 1) + " tokens"
                                   : "") +
      "\n\n";
  text += lanes_part(report, colour) + "\n" + limits_part(report, colour);
  for (const whatif::RefusalReport& refusal : report.refused)
    text += "\nrefused with " + printable(refusal.code) + ": " + grouped(refusal.count) +
            ", the first because " + printable(refusal.example, limits::text_bytes_max) + "\n";
  return text + "\nfairness " + fixed(report.fairness, 3) +
         " (Jain's index over the clients: tokens given by the last arrival, relative to the max-min fair "
         "share)\n";
}

std::string report_json(const whatif::Report& report, const whatif::WorkerModel& model) {
  ReportJson lanes = ReportJson::object(), budgets = ReportJson::object(), refused = ReportJson::object();
  for (const whatif::LaneReport& lane : report.lanes)
    lanes[lane.name] = {
        {"jobs", lane.jobs},
        {"succeeded", lane.succeeded},
        {"refused", lane.refused},
        {"expired", lane.expired},
        {"wait_ms",
         {{"p50", ms_of(lane.wait_p50)}, {"p99", ms_of(lane.wait_p99)}, {"max", ms_of(lane.wait_max)}}}};
  for (const whatif::LimitReport& limit : report.limits) {
    const auto number = [&](double value) {
      return limit.concurrency ? ReportJson(rounded(value, 1e3)) : ReportJson(std::llround(value));
    };
    budgets[limit.budget][limit.name] = {{"limit", limit.limit},
                                         {"used", number(limit.used)},
                                         {"allowed", number(limit.allowed)},
                                         {"percent", rounded(limit.percent(), 1e3)},
                                         {"peak", limit.peak}};
    if (limit.waited_periods > 0)
      budgets[limit.budget][limit.name].update({{"waited_periods", limit.waited_periods},
                                                {"waited_used", std::llround(limit.waited_used)},
                                                {"waited_percent", rounded(limit.waited_percent(), 1e3)}});
  }
  for (const whatif::RefusalReport& refusal : report.refused)
    refused[refusal.code] = {{"count", refusal.count}, {"example", refusal.example}};
  const ReportJson json{{"requests", report.requests},
                        {"clients", report.clients},
                        {"arrivals_ms", ms_of(report.arrivals)},
                        {"ran_ms", ms_of(report.ran)},
                        {"model",
                         {{"places", model.places},
                          {"first_token_ms", ms_of(model.first_token)},
                          {"tokens_per_second", model.tokens_per_second}}},
                        {"lanes", lanes},
                        {"budgets", budgets},
                        {"refused", refused},
                        {"fairness", rounded(report.fairness, 1e6)}};
  return json.dump(-1, ' ', false, ReportJson::error_handler_t::replace) + "\n";
}

}  // namespace lanemq::cli
