// SPDX-License-Identifier: Apache-2.0
// The options table, and who sets its rows beside the file: the environment and the command line.
#include <cctype>
#include <cstdlib>

#include "broker/config/settings.hpp"
#include "broker/config/values.hpp"

namespace lanemq {
namespace config {
namespace {

using core::BudgetOptions;
using core::LaneOptions;

#define LANEMQ_NAME(key, member, sentence)                           \
  OptionRow {                                                        \
    key, "name", sentence, [](const Config& c) { return c.member; }, \
        [](Config& c, const std::string& text) { c.member = text; }  \
  }
#define LANEMQ_DURATION(key, member, sentence)                                      \
  OptionRow {                                                                       \
    key, "duration", sentence, [](const Config& c) { return show(c.member); },      \
        [](Config& c, const std::string& text) { c.member = parse_duration(text); } \
  }
#define LANEMQ_SIZE(key, member, sentence)                                      \
  OptionRow {                                                                   \
    key, "size", sentence, [](const Config& c) { return show_size(c.member); }, \
        [](Config& c, const std::string& text) { c.member = parse_size(text); } \
  }
#define LANEMQ_COUNT(key, member, sentence)                                           \
  OptionRow {                                                                         \
    key, "count", sentence, [](const Config& c) { return std::to_string(c.member); }, \
        [](Config& c, const std::string& text) {                                      \
          c.member = static_cast<decltype(c.member)>(parse_count(text, 1));           \
        }                                                                             \
  }

const OptionRow kOptions[] = {
    LANEMQ_NAME("clients_endpoint", server.clients, "Where clients connect; port * picks a free one."),
    LANEMQ_NAME("workers_endpoint", server.workers, "Where workers connect."),
    LANEMQ_NAME("admin_endpoint", server.admin,
                "Where operators connect, of this machine alone; empty: a socket file in "
                "$RUNTIME_DIRECTORY, else tcp://127.0.0.1:5572."),
    LANEMQ_NAME(
        "store", store,
        "Where accepted jobs are kept: sqlite:PATH (a file), or memory (they end with the broker); empty: "
        "lanemq.db in $STATE_DIRECTORY, else in ${XDG_STATE_HOME:-~/.local/state}/lanemq."),
    LANEMQ_SIZE("store_reserve", store_reserve,
                "Room on the store's disk that is kept back so that running jobs can finish; a quarter of a "
                "small disk at most."),
    LANEMQ_SIZE("store_backlog_max", server.store_backlog_max,
                "Bytes that may wait for the store's disk; beyond them what would wait too is refused."),
    LANEMQ_NAME("log_level", log_level, "The lowest level that is logged: debug, info, warn, error or off."),
    OptionRow{"insecure", "switch", "Allows endpoints beyond this machine without encryption or keys.",
              [](const Config& c) { return std::string(c.insecure ? "true" : "false"); },
              [](Config& c, const std::string& text) { c.insecure = parse_switch(text); }},
    LANEMQ_DURATION("drain_timeout", core.drain_timeout, "How long running jobs may finish after SIGTERM."),
    LANEMQ_DURATION("heartbeat", core.heartbeat,
                    "Interval of heartbeats; a worker silent for three is gone."),
    LANEMQ_DURATION("worker_grace", core.worker_grace,
                    "How long a worker whose connection is lost may take to come back, where its process "
                    "cannot be watched."),
    LANEMQ_COUNT("attempts_max", core.attempts_max, "Hand-overs of a job that states no maximum."),
    LANEMQ_COUNT("crash_max", core.crash_max, "Workers that may die under a job before it fails."),
    LANEMQ_DURATION("backoff_base", core.backoff_base,
                    "Bound of the first random pause before a retry; doubles each time."),
    LANEMQ_DURATION("backoff_max", core.backoff_max, "Bound of every pause before a retry."),
    OptionRow{"breaker", "switch", "Leaves an upstream alone for a time when half of its calls fail.",
              [](const Config& c) { return std::string(c.core.breaker ? "true" : "false"); },
              [](Config& c, const std::string& text) { c.core.breaker = parse_switch(text); }},
    OptionRow{
        "client_share", "share",
        "The last part of a lane's depth_max and bytes_max and of memory_max, for clients that hold less "
        "than that, or have a depth_max of their own: one alone never fills it. Who holds as much of "
        "results_max or results_bytes_max makes way among its own results first. 0: none.",
        [](const Config& c) { return show_share(c.core.client_share); },
        [](Config& c, const std::string& text) { c.core.client_share = parse_share(text); }},
    LANEMQ_SIZE("body_bytes_max", core.body_bytes_max, "The largest body of a request or an answer."),
    LANEMQ_COUNT("jobs_max", core.jobs_max, "Jobs of all lanes and kept results."),
    LANEMQ_SIZE("memory_max", core.memory_max, "Bytes of all jobs and kept results."),
    LANEMQ_DURATION("retain", core.retain, "How long a result stays fetchable where a job states nothing."),
    LANEMQ_COUNT("results_max", core.results_max, "Results that are kept; the oldest go first."),
    LANEMQ_SIZE("results_bytes_max", core.results_bytes_max,
                "Bytes of kept results in memory; bodies that are on disk leave it, then the oldest go."),
    LANEMQ_SIZE("results_disk_max", core.results_disk_max,
                "Bytes of kept results in the store, about; the oldest go first."),
    LANEMQ_SIZE("stream_kept_bytes_max", core.stream_kept_bytes_max,
                "Bytes of a streamed answer that are kept for who reads it later; at least 256KiB."),
    LANEMQ_DURATION("dead_retain", core.dead_retain,
                    "How long a job that failed or ran out of time is kept, to be looked at or run again."),
    OptionRow{"dead_max", "count",
              "Dead jobs that are kept, a quarter of jobs_max at most; the oldest go first. 0: none.",
              [](const Config& c) { return std::to_string(c.core.dead_max); },
              [](Config& c, const std::string& text) {
                c.core.dead_max = static_cast<std::size_t>(parse_count(text));
              }},
    LANEMQ_SIZE("dead_bytes_max", core.dead_bytes_max,
                "Bytes of dead jobs, a quarter of memory_max at most; the oldest go first."),
    LANEMQ_COUNT("gone_max", core.gone_max,
                 "Ids remembered whose results are no longer kept, 16777216 at most: who asks is told so."),
    LANEMQ_COUNT("media_tokens", core.media_tokens,
                 "Tokens that an image, a sound or a file in a body is taken to cost."),
    LANEMQ_COUNT("output_tokens_default", core.output_default,
                 "Tokens of an answer, of a model that has not answered yet."),
    LANEMQ_COUNT("services_max", core.services_max, "Distinct services."),
    LANEMQ_COUNT("workers_max", core.workers_max, "Connected workers."),
    LANEMQ_COUNT("clients_idle_max", core.clients_idle_max,
                 "Connections, and queues of clients, remembered without a job."),
    LANEMQ_COUNT("client_receive_hwm", server.client_receive_hwm,
                 "Messages of one client, or of one worker, that wait to be read."),
    LANEMQ_COUNT("client_send_hwm", server.client_send_hwm, "Messages that wait to be sent to one client."),
    LANEMQ_SIZE("client_large_bytes_max", server.client_large_bytes_max,
                "Bytes of large bodies on their way to one client."),
    LANEMQ_SIZE("client_backlog_bytes_max", server.client_backlog_bytes_max,
                "Bytes of answers held for one client that reads slowly."),
    LANEMQ_SIZE("backlog_bytes_max", server.backlog_bytes_max, "The same for all clients together."),
    LANEMQ_COUNT("io_threads", server.io_threads, "Threads that move bytes between sockets and the broker."),
};

#undef LANEMQ_NAME
#undef LANEMQ_DURATION
#undef LANEMQ_SIZE
#undef LANEMQ_COUNT

/// Short for an endpoint, as the flags say it. In a file `clients` may be a table as well.
constexpr std::pair<std::string_view, std::string_view> kShortKeys[] = {
    {"clients", "clients_endpoint"}, {"workers", "workers_endpoint"}, {"admin", "admin_endpoint"}};

}  // namespace

void set_option(const std::string& name, const std::string& text, Config& config) {
  std::string key = name;
  for (const auto& [brief, full] : kShortKeys)
    if (key == brief) key = full;
  std::vector<std::string> known{"lane", "budget", "clients"};
  for (const OptionRow& row : kOptions) {
    if (row.key == key) return row.set(config, text);
    known.emplace_back(row.key);
  }
  unknown_key("key", key, known);
}

}  // namespace config

using namespace config;

std::span<const OptionRow> option_table() {
  return kOptions;
}

void load_config_environment(Config& config) {
  for (const OptionRow& row : kOptions) {
    std::string name = "LANEMQ_";
    for (const char letter : row.key)
      name += static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) continue;
    try {
      row.set(config, value);
    } catch (const ConfigError& error) {
      throw ConfigError("environment " + name + ": " + error.what());
    }
  }
}

void set_config(const std::string& assignment, Config& config) try {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string::npos) throw ConfigError("write key=value");
  const std::string key = assignment.substr(0, equals), text = assignment.substr(equals + 1);
  const std::size_t first = key.find('.'), second = key.find('.', first + 1);
  const std::string group = key.substr(0, first);
  if (first == std::string::npos) return set_option(key, text, config);
  if (group == "clients" && second != std::string::npos) {
    const std::size_t last = key.rfind('.');  // a client's name may have dots of its own
    return set_client_key(client_of(config, key.substr(first + 1, last - first - 1)), key.substr(last + 1),
                          text);
  }
  if (second == std::string::npos || (group != "lane" && group != "budget"))
    throw ConfigError("unknown key \"" + key +
                      "\"; write KEY, lane.NAME.KEY, budget.NAME.KEY or clients.NAME.KEY");
  const std::string name = key.substr(first + 1, second - first - 1), rest = key.substr(second + 1);
  if (group == "lane") {
    std::vector<std::string> known;
    for (LaneOptions& lane : config.core.lanes) {
      if (lane.name == name) return set_lane_key(lane, rest, text);
      known.push_back(lane.name);
    }
    unknown_key("lane", name, known);
  }
  for (BudgetOptions& budget : config.core.budgets)
    if (budget.name == name) return set_budget_key(budget, rest, text);
  config.core.budgets.push_back(BudgetOptions{});  // a budget may be made on the command line alone
  config.core.budgets.back().name = name;
  set_budget_key(config.core.budgets.back(), rest, text);
} catch (const ConfigError& error) {
  throw ConfigError("--set " + assignment + ": " + error.what());
}

}  // namespace lanemq
