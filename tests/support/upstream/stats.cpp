// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/stats.hpp"

#include "tests/support/upstream/draws.hpp"
#include "tests/support/upstream/json.hpp"

namespace lanemq::upstream {
namespace {

OrderedJson limit_or_null(std::uint64_t limit) {
  return limit == 0 ? OrderedJson() : OrderedJson(limit);
}

OrderedJson faults_json(const Stats& stats) {
  OrderedJson faults = OrderedJson::object();
  for (const Fault fault : kFaults) {
    const auto count = stats.faults.find(name_of(fault));
    faults[name_of(fault)] = count == stats.faults.end() ? 0 : count->second;
  }
  return faults;
}

OrderedJson keys_json(const Stats& stats) {
  OrderedJson keys = OrderedJson::object();
  for (const auto& [name, key] : stats.keys)
    keys[name] = {{"accepted", key.accepted},
                  {"rejected_429", key.rejected_429},
                  {"refused_dead", key.refused_dead},
                  {"peak_calls_60s", key.peak_calls_60s},
                  {"peak_tokens_60s", key.peak_tokens_60s}};
  return keys;
}

}  // namespace

std::string stats_body(const Stats& stats, const Quota& quota, std::uint64_t calls_peak,
                       std::uint64_t tokens_peak, Duration uptime) {
  return written({{"uptime_ms", std::chrono::duration_cast<std::chrono::milliseconds>(uptime).count()},
                  {"window", quota.window == WindowKind::sliding ? "sliding" : "bucket"},
                  {"limit_rpm", limit_or_null(quota.requests_per_minute)},
                  {"limit_tpm", limit_or_null(quota.tokens_per_minute)},
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
                  {"peak_calls_60s", calls_peak},
                  {"peak_tokens_60s", tokens_peak},
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
                  {"keys", keys_json(stats)}});
}

}  // namespace lanemq::upstream
