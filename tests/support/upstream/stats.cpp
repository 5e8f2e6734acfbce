// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/stats.hpp"

#include "tests/support/upstream/draws.hpp"
#include "tests/support/upstream/json.hpp"
#include "tests/support/upstream/peak.hpp"

namespace lanemq::upstream {
namespace {

OrderedJson limit_or_null(const std::optional<std::uint64_t>& limit) {
  return limit ? OrderedJson(*limit) : OrderedJson();
}

OrderedJson faults_json(const Stats& stats) {
  OrderedJson faults = OrderedJson::object();
  for (const Fault fault : kFaults) {
    const auto count = stats.faults.find(name_of(fault));
    faults[name_of(fault)] = count == stats.faults.end() ? 0 : count->second;
  }
  return faults;
}

OrderedJson keys_json(const Stats& stats, Duration period) {
  OrderedJson keys = OrderedJson::object();
  for (const auto& [name, key] : stats.keys)
    keys[name] = {{"accepted", key.accepted},
                  {"rejected_429", key.rejected_429},
                  {"refused_dead", key.refused_dead},
                  {peak_name("calls", period), key.peak_calls},
                  {peak_name("tokens", period), key.peak_tokens}};
  return keys;
}

}  // namespace

std::string stats_body(const Stats& stats, const Limits& limits, Duration uptime) {
  return written({{"uptime_ms", std::chrono::duration_cast<std::chrono::milliseconds>(uptime).count()},
                  {"window", name_of(limits.window)},
                  {"period_s", std::chrono::duration<double>(limits.period).count()},
                  {"limit_rpm", limit_or_null(limits.requests)},
                  {"limit_tpm", limit_or_null(limits.tokens)},
                  {"limit_at_once", limit_or_null(limits.at_once)},
                  {"calls", stats.calls},
                  {"ended", stats.ended},
                  {"paths", stats.paths},
                  {"accepted", stats.accepted},
                  {"ok", stats.ok},
                  {"rejected_429", stats.rejected_429},
                  {"bad_requests", stats.bad_requests},
                  {"violations", stats.violations},
                  {"unauthorized", stats.unauthorized},
                  {"malformed", stats.malformed},
                  {"hung_up", stats.hung_up},
                  {"deltas", stats.deltas},
                  {"faults", faults_json(stats)},
                  {peak_name("calls", limits.period), limits.peak_calls},
                  {peak_name("tokens", limits.period), limits.peak_tokens},
                  {"duplicate_jobs", stats.duplicate_jobs},
                  {"tokens",
                   {{"prompt", stats.prompt_tokens},
                    {"completion", stats.completion_tokens},
                    {"charged", stats.charged_tokens}}},
                  {"in_flight", stats.in_flight},
                  {"in_flight_peak", stats.in_flight_peak},
                  {"connections", stats.connections},
                  {"connections_peak", stats.connections_peak},
                  {"connections_refused", stats.connections_refused},
                  {"others",
                   {{"granted", limits.others.granted},
                    {"refused", limits.others.refused},
                    {"steps_cut", limits.others.steps_cut}}},
                  {"keys", keys_json(stats, limits.period)}});
}

}  // namespace lanemq::upstream
