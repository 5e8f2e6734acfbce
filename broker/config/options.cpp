// SPDX-License-Identifier: Apache-2.0
// The options table, and what is read beside the file: the command line and the environment.
#include <lanemq/limits.hpp>

#include "broker/config/settings.hpp"
#include "common/http/server/listen.hpp"
#include "common/settings/option_reader.hpp"

namespace lanemq {

using settings::kAnyDuration;
using settings::kCountMax;

namespace config {
namespace {

io::Replication replication_of(const std::string& text) {
  for (const auto one : {io::Replication::standby, io::Replication::provider, io::Replication::none})
    if (io::name_of(one) == text) return one;
  throw ConfigError("\"" + text + "\" is not known; write standby, provider or none");
}

}  // namespace
}  // namespace config

const settings::Options<Config>& option_table() {
  using namespace settings::rows;
  static const settings::Options<Config> kOptions{
      text("clients_endpoint", "endpoint", "Where clients connect; port * picks a free one.", &Config::server,
           &io::ServerOptions::clients)
          .or_brief("clients"),
      text("workers_endpoint", "endpoint", "Where workers connect.", &Config::server,
           &io::ServerOptions::workers)
          .or_brief("workers"),
      text("admin_endpoint", "endpoint", "Where operators connect, of this machine alone.", &Config::server,
           &io::ServerOptions::admin)
          .or_brief("admin")
          .when_empty("admin.sock in a folder of the user's"),
      http::listen_row("http",
                       "Where operators and probes are served over HTTP; beyond this machine only "
                       "with an [[http_key]] and TLS.",
                       &Config::http),
      settings::rows::tls_certificate("http_tls_certificate", &Config::http,
                                      &admin::HttpOptions::tls_certificate),
      settings::rows::tls_key("http_tls_key", &Config::http, &admin::HttpOptions::tls_key),
      list("http_hosts", "names",
           "Names besides this machine's own that it answers to without keys, with * and ?.", &Config::http,
           &admin::HttpOptions::hosts)
          .when_empty("none"),
      count("metrics_clients", "clients", {0, limits::timed_clients_max},
            "Clients with metrics of their own: those with the most tokens, then jobs; the others count in "
            "their lanes.",
            &Config::http, &admin::HttpOptions::metrics_clients),
      text("store", "store",
           "Where accepted jobs are kept: sqlite:PATH (a file), postgres:CONNINFO (tables of PostgreSQL, "
           "which "
           "another broker goes on with), or memory (they end with the broker).",
           &Config::store)
          .when_empty("lanemq.db (of a shard: lanemq-SHARD.db) in $STATE_DIRECTORY, else in "
                      "${XDG_STATE_HOME:-~/.local/state}/lanemq"),
      size("store_reserve", {0, kCountMax},
           "Room on the store's disk that is kept back so that running jobs can finish; a quarter of a small "
           "disk at most.",
           &Config::store_reserve),
      size("store_backlog_max", {0, kCountMax},
           "Bytes that may wait for the store's disk; beyond them what would wait too is refused.",
           &Config::server, &io::ServerOptions::store_backlog_max),
      text("store_schema", "schema", "The schema of PostgreSQL that has the store's tables.",
           &Config::store_schema),
      row(
          {.key = "store_replication",
           .unit = "standby|provider|none",
           .sentence =
               "What keeps each commit of a store in PostgreSQL beside the database's own machine: a "
               "synchronous standby (without one durable jobs are refused), the provider's storage, or "
               "nothing: what that machine loses is lost then."},
          config::replication_of, [](io::Replication replication) { return io::name_of(replication); },
          &Config::store_replication),
      duration("store_lease", {std::chrono::seconds(3), std::chrono::hours(1)},
               "A broker that owns a store in PostgreSQL and has committed nothing for so long is taken for "
               "dead, and one that waits goes on in its place.",
               &Config::store_lease),
      text("instance", "name", "This broker's name among those that wait for one store in PostgreSQL.",
           &Config::instance)
          .when_empty("the machine's name"),
      text("shard_name", "name", "Which [[shard]] this broker owns.", &Config::core, &core::Options::shard)
          .or_brief("shard")
          .when_empty("all jobs: there are no shards"),
      text("bank", "postgres:CONNINFO",
           "The database that all shards reach, by which they share budgets that count jobs of several.",
           &Config::bank)
          .when_empty("none: such budgets are refused"),
      text("bank_schema", "schema", "The schema of PostgreSQL that has the bank's table.",
           &Config::bank_schema),
      list("cluster_clients", "endpoints",
           "Where clients reach each broker of this store; told to those that ask, so that they find the one "
           "that goes on.",
           &Config::core, &core::Options::client_endpoints)
          .when_empty("none: clients know what they were given"),
      list("cluster_workers", "endpoints", "The same for workers.", &Config::core,
           &core::Options::worker_endpoints)
          .when_empty("none: workers know what they were given"),
      settings::rows::otlp(&Config::server, &io::ServerOptions::otlp, &trace::Collector::endpoint),
      settings::rows::otlp_in_clear(&Config::server, &io::ServerOptions::otlp, &trace::Collector::in_clear),
      settings::rows::log_level(&Config::log_level),
      settings::rows::log_format(&Config::log_format),
      text("secret_key", "source",
           "The broker's own key: file:PATH, credential:NAME or env:VARIABLE. With it clients and workers "
           "must show keys, and all that they say is encrypted.",
           &Config::secret_key)
          .when_empty("neither keys nor encryption"),
      text("keys_folder", "folder", "The keys of clients, gateways and workers, one a file NAME.toml.",
           &Config::keys_folder)
          .when_empty("none"),
      yes_or_no("insecure", "Allows endpoints beyond this machine without encryption or keys.",
                &Config::insecure),
      settings::rows::keep_cores(&Config::keep_cores),
      duration("drain_timeout", kAnyDuration, "How long running jobs may finish after SIGTERM.",
               &Config::core, &core::Options::drain_timeout),
      duration("heartbeat", kAnyDuration, "Interval of heartbeats; a worker silent for three is gone.",
               &Config::core, &core::Options::heartbeat),
      duration("worker_grace", kAnyDuration,
               "How long a worker whose connection is lost may take to come back, where its process cannot "
               "be watched.",
               &Config::core, &core::Options::worker_grace),
      duration("session_keep", kAnyDuration,
               "How long a worker that fell silent, and was taken for lost, may take to come back and go on "
               "with jobs that nobody was given since.",
               &Config::core, &core::Options::session_keep),
      count("attempts_max", "hand-overs", {1, limits::attempts_max},
            "Hand-overs of a job that states no maximum.", &Config::core, &core::Options::attempts_max),
      count("crash_max", "workers", {1, kCountMax},
            "Workers that may die under a job, which was alone there, before it fails.", &Config::core,
            &core::Options::crash_max),
      duration("backoff_base", kAnyDuration,
               "Bound of the first random pause before a retry; doubles each time.", &Config::core,
               &core::Options::backoff_base),
      duration("backoff_max", kAnyDuration, "Bound of every pause before a retry.", &Config::core,
               &core::Options::backoff_max),
      yes_or_no("breaker", "Leaves an upstream alone for a time when half of its calls fail.", &Config::core,
                &core::Options::breaker),
      yes_or_no("learn_limits",
                "Learns what upstreams allow that no budget counts, from what they state and refuse.",
                &Config::core, &core::Options::learn_limits),
      share("client_share",
            "The last part of a lane's depth_max and bytes_max and of memory_max, for clients that hold less "
            "than that, or have a depth_max of their own: one alone never fills it. Who holds as much of "
            "results_max or results_bytes_max makes way among its own results first. 0: none.",
            &Config::core, &core::Options::client_share),
      size("body_bytes_max", {0, kCountMax}, "The largest body of a request or an answer.", &Config::core,
           &core::Options::body_bytes_max),
      count("jobs_max", "jobs", {1, kCountMax}, "Jobs of all lanes and kept results.", &Config::core,
            &core::Options::jobs_max),
      size("memory_max", {0, kCountMax}, "Bytes of all jobs and kept results.", &Config::core,
           &core::Options::memory_max),
      duration("retain", kAnyDuration, "How long a result stays fetchable where a job states nothing.",
               &Config::core, &core::Options::retain),
      count("results_max", "results", {1, kCountMax}, "Results that are kept; the oldest go first.",
            &Config::core, &core::Options::results_max),
      size("results_bytes_max", {0, kCountMax},
           "Bytes of kept results in memory; bodies that are on disk leave it, then the oldest go.",
           &Config::core, &core::Options::results_bytes_max),
      size("results_disk_max", {0, kCountMax},
           "Bytes of kept results in the store, about; the oldest go first.", &Config::core,
           &core::Options::results_disk_max),
      size("stream_kept_bytes_max", {0, kCountMax},
           "Bytes of a streamed answer that are kept for who reads it later; at least 256KiB.", &Config::core,
           &core::Options::stream_kept_bytes_max),
      duration("dead_retain", kAnyDuration,
               "How long a job that failed or ran out of time is kept, to be looked at or run again.",
               &Config::core, &core::Options::dead_retain),
      count("dead_max", "jobs", {0, kCountMax},
            "Dead jobs that are kept, a quarter of jobs_max at most; the oldest go first. 0: none.",
            &Config::core, &core::Options::dead_max),
      size("dead_bytes_max", {0, kCountMax},
           "Bytes of dead jobs, a quarter of memory_max at most; the oldest go first.", &Config::core,
           &core::Options::dead_bytes_max),
      count(
          "gone_max", "ids", {1, kCountMax},
          "Ids remembered whose results are no longer kept, and as many again whose results made way early, "
          "which do not run again before their time; 16777216 at most.",
          &Config::core, &core::Options::gone_max),
      count("media_tokens", "tokens", {1, kCountMax},
            "Tokens that an image, a sound or a file in a body is taken to cost.", &Config::core,
            &core::Options::media_tokens),
      count("output_tokens_default", "tokens", {1, kCountMax},
            "Tokens of an answer, of a model that has not answered yet.", &Config::core,
            &core::Options::output_default),
      count("services_max", "services", {1, kCountMax},
            "Distinct services that jobs may name; as many may have workers besides. Those without jobs and "
            "workers make way; the last part is for clients that named less (client_share).",
            &Config::core, &core::Options::services_max),
      count("workers_max", "workers", {1, kCountMax}, "Connected workers.", &Config::core,
            &core::Options::workers_max),
      count("watchers_max", "watches", {0, 4096},
            "Watches of jobs at the clients' endpoint, a quarter of them for one tenant at most; "
            "operators have 128 beside. 0: none.",
            &Config::core, &core::Options::watchers_max),
      text("webhook_service", "service",
           "The service whose workers tell the `notify` of a job that it has ended.", &Config::core,
           &core::Options::webhook_service)
          .when_empty("no job may have a `notify`"),
      text("webhook_lane", "lane", "The lane of the jobs that tell so.", &Config::core,
           &core::Options::webhook_lane)
          .when_empty("the default lane"),
      count(
          "webhooks_max", "jobs", {1, kCountMax},
          "Jobs that tell of ends and wait, for a worker or for their next attempt. They count in no lane's "
          "depth_max; the last part is for clients that have less (client_share).",
          &Config::core, &core::Options::webhooks_max),
      count("webhook_attempts_max", "hand-overs", {1, limits::attempts_max},
            "Hand-overs of a job that tells of an end: with the pauses below they reach a day at least.",
            &Config::core, &core::Options::webhook_attempts_max),
      duration(
          "webhook_backoff_base", kAnyDuration,
          "The first pause before such a job is tried again, or half of it at random; doubles each time.",
          &Config::core, &core::Options::webhook_backoff_base),
      duration("webhook_backoff_max", kAnyDuration, "Bound of every such pause.", &Config::core,
               &core::Options::webhook_backoff_max),
      duration(
          "webhook_timeout", {std::chrono::seconds(1), std::chrono::hours(24) * 365},
          "How long such a job is tried, from the end that it tells on; its lane's timeout does not count.",
          &Config::core, &core::Options::webhook_timeout),
      count("groups_max", "groups", {0, kCountMax},
            "Groups that jobs named, a quarter of them for one tenant at most; those without an open job "
            "make way for new ones, and those that are over for memory_max. 0: none.",
            &Config::core, &core::Options::groups_max),
      count("clients_idle_max", "clients", {1, kCountMax},
            "Connections, and queues of clients, remembered without a job.", &Config::core,
            &core::Options::clients_idle_max),
      count("client_receive_hwm", "messages", {1, kCountMax},
            "Messages of one client, or of one worker, that wait to be read.", &Config::server,
            &io::ServerOptions::client_receive_hwm),
      count("client_send_hwm", "messages", {1, kCountMax}, "Messages that wait to be sent to one client.",
            &Config::server, &io::ServerOptions::client_send_hwm),
      size("client_large_bytes_max", {0, kCountMax}, "Bytes of large bodies on their way to one client.",
           &Config::server, &io::ServerOptions::client_large_bytes_max),
      size("client_backlog_bytes_max", {0, kCountMax},
           "Bytes of answers held for one client that reads slowly.", &Config::server,
           &io::ServerOptions::client_backlog_bytes_max),
      size("backlog_bytes_max", {0, kCountMax}, "The same for all clients together.", &Config::server,
           &io::ServerOptions::backlog_bytes_max),
      count("connections_max", "connections", {1, kCountMax},
            "Of clients at once, and as many of workers; for one more, one is closed that has said nothing, "
            "else the new one. Fewer where descriptors are.",
            &Config::server, &io::ServerOptions::connections_max),
      count("connections_per_address_max", "connections", {0, kCountMax},
            "Of one address, or one /64 of IPv6; 0: a quarter of connections_max.", &Config::server,
            &io::ServerOptions::connections_per_address_max),
      size("receiving_bytes_max", {0, kCountMax},
           "Bytes of clients' messages that are not whole yet, and of workers'; over it the connection with "
           "the "
           "most is closed.",
           &Config::server, &io::ServerOptions::receiving_bytes_max),
      count("io_threads", "threads", {1, kCountMax},
            "Threads that move bytes between sockets and the broker.", &Config::server,
            &io::ServerOptions::io_threads),
  };
  return kOptions;
}

namespace config {
namespace {

using core::BudgetOptions;
using core::LaneOptions;

void take(const std::string& assignment, Config& config) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string::npos) throw ConfigError("write key=value");
  const std::string key = assignment.substr(0, equals), text = assignment.substr(equals + 1);
  const std::size_t first = key.find('.'), second = key.find('.', first + 1);
  const std::string group = key.substr(0, first);
  if (first == std::string::npos)
    return settings::set_key(bound(option_table(), config), "--set " + assignment, "", key, text,
                             config.heard, {"lane", "budget", "clients"});
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
    settings::unknown_key("lane", name, known);
  }
  for (BudgetOptions& budget : config.core.budgets)
    if (budget.name == name) return set_budget_key(budget, rest, text);
  config.core.budgets.push_back(BudgetOptions{});  // a budget may be made on the command line alone
  config.core.budgets.back().name = name;
  set_budget_key(config.core.budgets.back(), rest, text);
}

}  // namespace
}  // namespace config

void set_config(const std::string& assignment, Config& config) {
  settings::at_place("--set " + assignment, [&] { config::take(assignment, config); });
}

}  // namespace lanemq
