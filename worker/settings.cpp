// SPDX-License-Identifier: Apache-2.0
#include "worker/settings.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>

#include <toml++/toml.h>

#include <lanemq/text.hpp>

#include "common/http/server/listen.hpp"
#include "common/settings/option_reader.hpp"
#include "common/settings/secrets/secret_source.hpp"
#include "common/settings/start_check.hpp"
#include "common/settings/values.hpp"
#include "worker/handlers/anthropic/anthropic_api.hpp"
#include "worker/handlers/http/authorities.hpp"
#include "worker/handlers/http/http_handler.hpp"
#include "worker/handlers/openai/openai_api.hpp"
#include "worker/handlers/webhook/hook_hosts.hpp"

namespace lanemq::worker {
namespace {

using namespace lanemq::settings;

/// `openai:https://h/v1`
std::string handler_of(const ServiceSettings& service) {
  return service.handler + (service.argument.empty() ? "" : ":" + service.argument);
}

/// Sets the services. One of a flag replaces one of the file with the same name.
void apply_services(Settings& settings, const Values& values) {
  std::vector<ServiceSettings> given;
  for (const std::string& text : values)
    given.push_back(parse_service(text));
  for (auto service = given.begin(); service != given.end(); ++service)
    if (std::any_of(given.begin(), service, [&](const auto& other) { return other.name == service->name; }))
      throw UsageError("has the service \"" + printable(service->name) +
                       "\" twice; give each a name of its own");
  for (ServiceSettings& service : given) {
    const auto same = std::find_if(settings.services.begin(), settings.services.end(),
                                   [&](const ServiceSettings& other) { return other.name == service.name; });
    if (same == settings.services.end()) {
      settings.services.push_back(std::move(service));
      continue;
    }
    service.headers = same->headers;
    service.keys = same->keys;
    service.plugin = same->plugin;
    service.webhook = same->webhook;
    std::swap(service.exec, same->exec);
    service.exec.argv = std::move(same->exec.argv);
    *same = std::move(service);
  }
}

/// Sets the keys. A message does not repeat the text: it may be a secret in the wrong place.
void apply_keys(Settings& settings, const Values& values) {
  for (const std::string& text : values) {
    const std::size_t equals = text.find('=');
    const std::size_t slash = text.substr(0, equals).rfind('/');
    if (equals == std::string::npos || slash == std::string::npos ||
        !is_secret_source(std::string_view(text).substr(equals + 1)))
      throw UsageError("must be SERVICE/NAME=env:VARIABLE, =file:PATH or =credential:NAME");
    settings.keys.emplace_back(
        text.substr(0, slash),
        KeySettings{.name = text.substr(slash + 1, equals - slash - 1), .source = text.substr(equals + 1)});
  }
}

constexpr Range<Duration> kTime{std::chrono::milliseconds(1), kDay};
constexpr Range<Duration> kTimeOrNone{Duration{}, kDay};

/// The options of a lane's time limits.
const Options<CallTimes>& time_options() {
  using namespace rows;
  static const Options<CallTimes> kOptions = without_units_before<CallTimes>(
      {duration("connect", kTime, "For the connection.", &CallTimes::connect),
       duration("first_token", kTime, "Until the answer's first content.", &CallTimes::first_token),
       duration("between_tokens", kTime, "From one part of the answer to the next.",
                &CallTimes::between_tokens),
       duration("total", kTime, "For the whole call.", &CallTimes::total)});
  return kOptions;
}

constexpr Range<std::size_t> kOutput{1, limits::body_bytes_max};
constexpr Range<std::size_t> kMemory{0, std::size_t{1} << 50};

ProgramText program() {
  return {.name = "lanemq-worker",
          .variables = "LANEMQ_WORKER_",
          .sentence =
              "Runs jobs of a LaneMQ broker: takes them as capacity allows, hands each to the handler of its "
              "service and hands in what comes of it.",
          .config_sentence = "Read options from this file, under the same names with _ for -.",
          .footer =
              "openai and anthropic services without a key use OPENAI_API_KEY and ANTHROPIC_API_KEY.\n"
              "SIGHUP: read the secrets of headers and keys again. SIGTERM: stop.\n"
              "Exit codes: 0 done, 2 usage or refused by the broker, 3 no broker within connect_timeout.",
          .blocks = {"service", "timeout"}};
}

}  // namespace

TracedUpstreams parse_traced(const std::string& text) {
  if (text == "none") return TracedUpstreams::none;
  if (text == "own") return TracedUpstreams::own;
  if (text == "all") return TracedUpstreams::all;
  throw UsageError("must be none, own or all, not \"" + printable(text, 64) + '"');
}

std::string show_traced(TracedUpstreams which) {
  return which == TracedUpstreams::none ? "none" : which == TracedUpstreams::own ? "own" : "all";
}

const Options<Settings>& option_table() {
  using namespace rows;
  static const Options<Settings> kOptions = without_units_before<Settings>({
      text("broker", "endpoint",
           "The broker's endpoint for workers; several, separated by commas, where another broker may go on "
           "in its "
           "place.",
           &Settings::worker, &WorkerOptions::broker),
      broker_key_row<Settings>(),
      secret_key_row<Settings>(),
      Option<Settings>{
          {.key = "service",
           .kind = Kind::list,
           .unit = "NAME=HANDLER[:ARGUMENT]",
           .sentence =
               "What to serve and how: NAME=echo, NAME=echo:DURATION, NAME=http:URL, NAME=openai:URL or "
               "NAME=anthropic:URL, the latter two with the upstream's base URL as its SDKs take it, "
               "NAME=exec:PROGRAM, NAME=webhook, or NAME=plugin:FILE[:ARGUMENT], a handler in a shared "
               "library; may be repeated.",
           .in_blocks = true},
          [](const Settings& s) {
            Values values;
            for (const ServiceSettings& service : s.services)
              values.push_back(service.name + "=" + handler_of(service));
            return values;
          },
          apply_services},
      count("capacity", "jobs", {1, static_cast<std::int64_t>(limits::capacity_max)},
            "How many jobs to hold at once, of all shards together.", &Settings::worker,
            &WorkerOptions::capacity),
      list("lanes", "names",
           "Take jobs of these lanes only (a reserved worker); separate by comma or repeat.",
           &Settings::worker, &WorkerOptions::lanes)
          .when_empty("all"),
      text("name", "text", "How the broker's operator sees this worker.", &Settings::worker,
           &WorkerOptions::name)
          .when_empty("HOST-PID"),
      duration("drain_timeout", kTimeOrNone, "How long running jobs get when the worker is told to stop.",
               &Settings::worker, &WorkerOptions::drain_timeout),
      duration("connect_timeout", kTimeOrNone,
               "Give up with exit code 3 when no broker has answered by then; 0: never.", &Settings::worker,
               &WorkerOptions::connect_timeout),
      size("body_bytes_max", {1, std::numeric_limits<std::int32_t>::max()}, "Refuse longer bodies.",
           &Settings::worker, &WorkerOptions::body_bytes_max),
      texts("http_header", "'Name: value'",
            "Send this with every http call; words env:NAME, file:PATH and credential:NAME in the value are "
            "replaced by the variable or the file's content, {key} by the secret of the job's key; may be "
            "repeated.",
            &Settings::http_headers)
          .when_empty("none"),
      Option<Settings>{
          {.key = "key",
           .kind = Kind::list,
           .unit = "SERVICE/NAME=SOURCE",
           .sentence = "A key that the broker names with jobs of an http, openai or anthropic service, and "
                       "where its secret stands: env:NAME, file:PATH or credential:NAME; may be repeated.",
           .in_blocks = true},
          [](const Settings&) { return Values{}; },
          apply_keys},
      duration("http_connect_timeout", kTime, "For the connection of an http call.", &Settings::http,
               &HttpOptions::times, &CallTimes::connect),
      duration("http_timeout", kTime, "For a whole http call; a job with less time left gets less.",
               &Settings::http, &HttpOptions::times, &CallTimes::total),
      Option<Settings>{
          {.key = "timeout",
           .kind = Kind::list,
           .unit = "LANE.NAME=DURATION",
           .sentence = "How long jobs of a lane may take with openai and anthropic: connect, first_token, "
                       "between_tokens and total, as in batch.first_token=5m; may be repeated.",
           .empty = "by lane",
           .in_blocks = true},
          [](const Settings&) { return Values{}; },
          [](Settings& s, const Values& values) {
            s.lane_times_said.insert(s.lane_times_said.end(), values.begin(), values.end());
          }},
      Option<Settings>{
          {.key = "exec",
           .kind = Kind::list,
           .unit = "SERVICE.KEY=VALUE",
           .sentence = "Sets a key of an exec service, as in thumbs.timeout=30s; may be repeated.",
           .empty = "none",
           .in_blocks = true},
          [](const Settings&) { return Values{}; },
          [](Settings& s, const Values& values) {
            s.exec_said.insert(s.exec_said.end(), values.begin(), values.end());
          }},
      Option<Settings>{
          {.key = "webhook",
           .kind = Kind::list,
           .unit = "SERVICE.KEY=VALUE",
           .sentence =
               "Sets a key of a webhook service, as in hooks.hosts=hooks.example.com; may be repeated.",
           .empty = "none",
           .in_blocks = true},
          [](const Settings&) { return Values{}; },
          [](Settings& s, const Values& values) {
            s.webhook_said.insert(s.webhook_said.end(), values.begin(), values.end());
          }},
      text("http_proxy", "URL",
           "Make calls to upstreams through this proxy, or the one that env:NAME, file:PATH or "
           "credential:NAME tells, where its URL has a password; the environment's proxies are not used.",
           &Settings::http, &HttpOptions::proxy)
          .when_empty("none"),
      text("http_ca_file", "path", "Trust these certificate authorities (PEM) instead of the system's.",
           &Settings::http, &HttpOptions::ca_file)
          .when_empty("the system's"),
      http::listen_row("metrics",
                       "Where /metrics for Prometheus and the probes /healthz and /readyz are served; beyond "
                       "this machine only with metrics_key and TLS.",
                       &Settings::metrics),
      text("metrics_key", "source",
           "The secret that a scraper shows as \"Authorization: Bearer SECRET\": env:NAME, file:PATH or "
           "credential:NAME.",
           &Settings::metrics, &MetricsOptions::key)
          .when_empty("none is needed"),
      rows::tls_certificate("metrics_tls_certificate", &Settings::metrics, &MetricsOptions::tls_certificate),
      rows::tls_key("metrics_tls_key", &Settings::metrics, &MetricsOptions::tls_key),
      rows::otlp(&Settings::otlp, &trace::Collector::endpoint),
      rows::otlp_in_clear(&Settings::otlp, &trace::Collector::in_clear),
      row({.key = "trace_upstreams",
           .unit = "none|own|all",
           .sentence = "Which upstreams get the trace of a job (traceparent, tracestate): none, those of "
                       "one's own network (this machine, private addresses, names without a public domain), "
                       "or all."},
          parse_traced, show_traced, &Settings::traced_upstreams),
      rows::log_level(&Settings::log_level),
      rows::log_format(&Settings::log_format),
      rows::keep_cores(&Settings::keep_cores),
  });
  return kOptions;
}

const Options<ExecOptions>& exec_options() {
  using namespace rows;
  static const Options<ExecOptions> kOptions{
      texts("argv", "words", "The program and its arguments; no shell reads them.", &ExecOptions::argv)
          .when_empty("that of exec:PROGRAM"),
      count("processes", "processes", {0, static_cast<std::int64_t>(ExecOptions::kProcessesMax)},
            "Of a pool, which live on and take jobs as lines of JSON; 0: a process for each job.",
            &ExecOptions::processes),
      count("jobs_per_process", "jobs", {1, static_cast<std::int64_t>(ExecOptions::kJobsPerProcessMax)},
            "What a process of a pool has at once.", &ExecOptions::jobs_per_process),
      count("recycle_after", "jobs", {0, 1'000'000'000},
            "Jobs after which a process of a pool is replaced; 0: never.", &ExecOptions::recycle_after),
      texts("environment", "names",
            "Variables of the worker that the program gets, too, and further ones as NAME=VALUE; env:NAME, "
            "file:PATH "
            "and credential:NAME in place of a value name a secret.",
            &ExecOptions::environment)
          .when_empty("none"),
      text("directory", "path", "Where the program runs.", &ExecOptions::directory)
          .when_empty("the worker's"),
      duration("timeout", kTime, "For a job; one with less time left gets less.", &ExecOptions::timeout),
      duration("grace", kTimeOrNone, "From SIGTERM, or cancel in a pool, to SIGKILL.", &ExecOptions::grace),
      size("output_max", kOutput, "The longest answer; of a pool, the longest line.",
           &ExecOptions::output_max),
      size("memory_max", kMemory, "Data of each process (RLIMIT_DATA); 0B: no limit.",
           &ExecOptions::memory_max),
      count("files_max", "files", {8, 1'048'576}, "Open files of each process (RLIMIT_NOFILE).",
            &ExecOptions::files_max),
      count("starts_per_second", "starts", {1, 100'000}, "How often the program is started.",
            &ExecOptions::starts_per_second),
  };
  return kOptions;
}

/// The sources of a webhook service's secrets; refused already here where one may be a secret itself, which
/// --print-config would show.
Option<WebhookOptions> hook_secrets_row() {
  Option<WebhookOptions> row =
      rows::texts(
          "secrets", "sources",
          "What calls are signed with, whsec_ and base64: env:NAME, file:PATH or credential:NAME; two "
          "while they are rotated, in two sources or in one with a space between them.",
          &WebhookOptions::secrets)
          .when_empty("must be said");
  row.set = [](WebhookOptions& options, const Values& values) {
    for (const std::string& source : values)
      if (!is_secret_source(source))
        throw UsageError("must be env:VARIABLE, file:PATH or credential:NAME, never the secret itself");
    options.secrets = values;
  };
  return row;
}

const Options<WebhookOptions>& webhook_options() {
  using namespace rows;
  static const Options<WebhookOptions> kOptions{
      texts("hosts", "hosts",
            "Where calls may go: hooks.example.com, *.corp.example for all names below it, host:8443, an "
            "address, or http://host for one without TLS.",
            &WebhookOptions::hosts)
          .when_empty("must be said"),
      hook_secrets_row(),
      yes_or_no("private", "Names of hosts may stand for addresses that are not public.",
                &WebhookOptions::private_addresses),
      duration("timeout", kTime, "For a call; a job with less time left gets less.",
               &WebhookOptions::timeout),
  };
  return kOptions;
}

namespace {

// ---- the file -----------------------------------------------------------------------------------------

/// The names and texts of a table.
std::vector<std::pair<std::string, std::string>> text_table(const toml::node& node,
                                                            std::string_view example) {
  std::vector<std::pair<std::string, std::string>> texts;
  for (const auto& [name, value] : table_in(node, example))
    texts.emplace_back(name.str(), scalar(value));
  return texts;
}

/// [timeout.LANE], a table of times for each lane.
void read_lane_times(const std::string& path, const toml::table& lanes, Settings& settings, Heard& heard) {
  for (const auto& [lane, node] : lanes) {
    const std::string prefix = "timeout." + printable(lane.str(), 64) + ".";
    const toml::table* table = nullptr;
    at_place(place_of(path, node.source()) + ": timeout",
             [&, &said = node] { table = &table_in(said, "[timeout.batch] with first_token = \"5m\""); });
    read_table(path, *table, prefix, bound(time_options(), settings.lane_times.at(lane.str())), heard);
  }
}

/// A service as a table of the file.
struct ServiceTable {
  std::string name{}, handler{};
  bool in_clear = false;
};

const Options<ServiceTable>& service_options() {
  using namespace rows;
  static const Options<ServiceTable> kOptions{
      text("name", "text", "What jobs call it.", &ServiceTable::name),
      text("handler", "HANDLER[:ARGUMENT]", "What runs them.", &ServiceTable::handler),
      yes_or_no("in_clear",
                "Its key may go to another machine over http://, where who is on the way reads it.",
                &ServiceTable::in_clear)};
  return kOptions;
}

/// Whether a handler's table has this key.
template <class Thing>
bool has_key(const Options<Thing>& options, std::string_view key) {
  return std::any_of(options.begin(), options.end(),
                     [&](const OptionText& option) { return option.key == key; });
}

/// Throws UsageError for a key that another handler's services have.
void refuse_foreign_keys(const std::string& handler, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    const bool of_exec = has_key(exec_options(), key), of_webhook = has_key(webhook_options(), key);
    if ((handler == "exec" && of_exec) || (handler == "webhook" && of_webhook)) continue;
    const std::string owner = of_exec && of_webhook ? "s exec and webhook" : of_exec ? " exec" : " webhook";
    throw UsageError(key + " is for the handler" + owner + ", and this is " + handler);
  }
}

/// Whether a [[service]] says that it is of this handler.
bool says_handler(const toml::node& node, std::string_view handler) {
  const toml::table* const table = node.as_table();
  return table != nullptr && (*table)["handler"].value_or(std::string_view()) == handler;
}

/// One [[service]]: name, handler, headers, keys, plugin, and the keys of its handler.
ServiceSettings service_table(const std::string& path, const toml::node& node, Heard& heard) {
  ServiceTable said;
  ExecOptions exec;
  WebhookOptions webhook;
  std::vector<std::string> of_handler;  // keys that there are for one handler alone
  std::vector<std::string> headers;
  std::vector<KeySettings> keys;
  std::vector<std::pair<std::string, std::string>> plugin;
  const bool is_webhook = says_handler(node, "webhook");
  std::vector<BoundOption> rows =
      is_webhook ? bound(webhook_options(), webhook) : bound(exec_options(), exec);
  const auto besides = [&](std::string_view key, const toml::node& value) {
    const bool of_exec = has_key(exec_options(), key), of_webhook = has_key(webhook_options(), key);
    if (of_exec || of_webhook) of_handler.emplace_back(key);
    at_place(place_of(path, value.source()) + ": " + std::string(key), [&] {
      if (key == "headers")
        for (const auto& [name, text] : text_table(value, "headers = { Authorization = \"Bearer env:KEY\" }"))
          headers.push_back(name + ": " + text);
      if (key == "keys")
        for (const auto& [name, text] : text_table(value, "keys = { k1 = \"env:OPENAI_KEY_1\" }"))
          keys.push_back({.name = name, .source = text});
      if (key == "plugin")
        plugin = flat_table(path, table_in(value, "[service.plugin] with keys of the plugin's own"));
    });
    const bool is_foreign = is_webhook ? of_exec && !of_webhook : of_webhook && !of_exec;
    return key == "headers" || key == "keys" || key == "plugin" || is_foreign;
  };
  ServiceSettings service;
  at_place(place_of(path, node.source()),
           [&] { static_cast<void>(table_in(node, "[[service]] with name and handler")); });
  for (BoundOption& row : bound(service_options(), said))
    rows.push_back(std::move(row));
  Heard of_service;  // its keys are no options of the program with the same names
  read_table(path, *node.as_table(), "", rows, {"headers", "keys", "plugin"}, besides, of_service);
  heard.old.insert(heard.old.end(), of_service.old.begin(), of_service.old.end());
  at_place(place_of(path, node.source()), [&] {
    if (said.name.empty() || said.handler.empty()) throw UsageError("a service needs name and handler");
    service = parse_service(said.name + "=" + said.handler);
    if (service.name != said.name) throw UsageError("a service's name has no '='");
    refuse_foreign_keys(service.handler, of_handler);
    if (!service.exec.argv.empty() && !exec.argv.empty())
      throw UsageError("the program stands there twice, in handler and in argv; leave one");
    if (exec.argv.empty()) exec.argv = std::move(service.exec.argv);
  });
  heard.places["service." + service.name] = place_of(path, node.source());
  service.in_clear = said.in_clear;
  service.headers = std::move(headers);
  service.keys = std::move(keys);
  service.plugin = std::move(plugin);
  service.exec = std::move(exec);
  service.webhook = std::move(webhook);
  return service;
}

void read_services(const std::string& path, const toml::array& list, Settings& settings, Heard& heard) {
  for (const toml::node& item : list) {
    ServiceSettings service = service_table(path, item, heard);
    for (const ServiceSettings& other : settings.services)
      if (other.name == service.name)
        throw UsageError(place_of(path, item.source()) + ": service \"" + printable(service.name) +
                         "\" stands there twice");
    settings.services.push_back(std::move(service));
  }
}

/// Reads a key of the file that is no option; false: it is unknown.
bool read_node(const std::string& path, std::string_view key, const toml::node& node, Settings& settings,
               Heard& heard) {
  if (key == "service" && node.is_array_of_tables())
    read_services(path, *node.as_array(), settings, heard);
  else if (key == "service" && node.is_table())
    at_place(place_of(path, node.source()) + ": service",
             [&] { static_cast<void>(list_in(node, "[[service]] with name and handler")); });
  else if (key == "timeout" && node.is_table())
    read_lane_times(path, *node.as_table(), settings, heard);
  else
    return false;
  return true;
}

/// All settings as a configuration file.
std::string print(Settings& settings) {
  std::string out = "# LaneMQ worker. Every key is optional; durations and sizes carry their unit.\n" +
                    print_options(bound(option_table(), settings));
  out += "\n# How long jobs of a lane may take with openai and anthropic.\n";
  for (const auto& [lane, times] : settings.lane_times.by_lane())
    out += "\n[timeout." + toml_text(lane) + "]\n" + print_table(time_options(), times, Shown::all);
  out += "\n# What is served: one [[service]] with name and handler for each.\n";
  const auto entries = [](std::string_view key, const auto& list, auto name_and_text) {
    std::string text;
    for (const auto& item : list) {
      const auto [name, value] = name_and_text(item);
      text += (text.empty() ? "" : ", ") + toml_text(name) + " = " + toml_text(value);
    }
    return text.empty() ? text : std::string(key) + " = { " + text + " }\n";
  };
  for (const ServiceSettings& service : settings.services) {
    out += "\n[[service]]\n" +
           print_table(service_options(),
                       {.name = service.name, .handler = handler_of(service), .in_clear = service.in_clear},
                       Shown::all);
    if (service.handler == "exec") out += print_table(exec_options(), service.exec, Shown::all);
    if (service.handler == "webhook") out += print_table(webhook_options(), service.webhook, Shown::all);
    out += entries("headers", service.headers, [](const std::string& header) {
      const std::size_t colon = header.find(": ");
      return std::pair(header.substr(0, colon), header.substr(colon + 2));
    });
    out +=
        entries("keys", service.keys, [](const KeySettings& key) { return std::pair(key.name, key.source); });
    if (!service.plugin.empty()) out += "[service.plugin]\n" + print_flat(service.plugin);
  }
  return out;
}

// ---- the whole ----------------------------------------------------------------------------------------

/// Gives the keys of flags and variables to their services; a later key replaces one with the same name.
void hand_out_keys(Settings& settings) {
  for (const auto& [name, key] : settings.keys) {
    const auto service =
        std::find_if(settings.services.begin(), settings.services.end(),
                     [&, &of = name](const ServiceSettings& other) { return other.name == of; });
    if (service == settings.services.end())
      throw UsageError("key \"" + printable(key.name) + "\" is for service \"" + printable(name) +
                       "\", which is not served; name it with --service");
    const auto same =
        std::find_if(service->keys.begin(), service->keys.end(),
                     [&, &given = key](const KeySettings& other) { return other.name == given.name; });
    if (same != service->keys.end())
      *same = key;
    else
      service->keys.push_back(key);
  }
}

/// Gives the time limits of flags and variables to their lanes.
void hand_out_times(Settings& settings, Heard& heard) {
  const std::string place = heard.places.contains("timeout") ? heard.places["timeout"] : "";
  for (const std::string& text : std::exchange(settings.lane_times_said, {})) {
    const std::size_t equals = std::min(text.find('='), text.size());
    const std::size_t dot = text.substr(0, equals).rfind('.');
    if (equals == text.size() || dot == std::string::npos || dot == 0)
      throw UsageError(place + ": must be LANE.NAME=DURATION, as in batch.first_token=5m");
    const std::string lane = text.substr(0, dot);
    std::string key = text.substr(dot + 1, equals - dot - 1);
    std::replace(key.begin(), key.end(), '-', '_');
    set_key(bound(time_options(), settings.lane_times.at(lane)), place, lane + ".", key,
            text.substr(equals + 1), heard);
  }
}

/// The keys of one handler's services that stand in flags and variables: --exec, --webhook.
template <class Thing>
struct HandlerKeys {
  std::string handler;
  std::string example;  ///< `thumbs.timeout=30s`
  std::string hint;     ///< how to name such a service
  const Options<Thing>& options;
  Thing ServiceSettings::*thing;
};

/// Gives them to their services. Several values of one key make a list.
template <class Thing>
void hand_out(Settings& settings, const std::vector<std::string>& texts, const HandlerKeys<Thing>& about,
              const Heard& heard) {
  const auto said_at = heard.places.find(about.handler);
  const std::string place = said_at == heard.places.end() ? "--" + about.handler : said_at->second;
  std::map<std::pair<std::string, std::string>, Values> said;
  for (const std::string& text : texts) {
    const std::size_t equals = std::min(text.find('='), text.size());
    const std::size_t dot = text.substr(0, equals).rfind('.');
    if (equals == text.size() || dot == std::string::npos || dot == 0)
      throw UsageError(place + ": must be SERVICE.KEY=VALUE, as in " + about.example);
    std::string key = text.substr(dot + 1, equals - dot - 1);
    std::replace(key.begin(), key.end(), '-', '_');
    said[{text.substr(0, dot), key}].push_back(text.substr(equals + 1));
  }
  for (const auto& [owner, values] : said) {
    const auto& [name, key] = owner;
    const auto service = std::find_if(settings.services.begin(), settings.services.end(),
                                      [&, &of = name](const ServiceSettings& other) {
                                        return other.name == of && other.handler == about.handler;
                                      });
    if (service == settings.services.end())
      throw UsageError(place + ": there is no " + about.handler + " service \"" + printable(name) +
                       "\"; name it with --service " + about.hint);
    const std::vector<BoundOption> rows = bound(about.options, (*service).*about.thing);
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [&, &of = key](const BoundOption& option) { return option.key == of; });
    at_place(place + ": " + printable(name) + "." + printable(key, 64), [&, &given = values, &of = key] {
      std::vector<std::string> known;
      for (const BoundOption& option : rows)
        known.emplace_back(option.key);
      if (row == rows.end()) unknown_key("key of the handler " + about.handler, of, known);
      settings::set(*row, row->kind == Kind::list ? given : Values{given.back()});
    });
  }
}

void hand_out_keys_of_handlers(Settings& settings, const Heard& heard) {
  hand_out<ExecOptions>(settings, std::exchange(settings.exec_said, {}),
                        {.handler = "exec",
                         .example = "thumbs.timeout=30s",
                         .hint = "NAME=exec:PROGRAM",
                         .options = exec_options(),
                         .thing = &ServiceSettings::exec},
                        heard);
  hand_out<WebhookOptions>(settings, std::exchange(settings.webhook_said, {}),
                           {.handler = "webhook",
                            .example = "hooks.timeout=30s",
                            .hint = "NAME=webhook",
                            .options = webhook_options(),
                            .thing = &ServiceSettings::webhook},
                           heard);
}

/// Accepts the old spelling of echo's delay: a plain number of milliseconds.
void renew_delays(Settings& settings, Heard& heard) {
  for (ServiceSettings& service : settings.services) {
    if (service.handler != "echo" || service.argument.find_first_not_of("0123456789") != std::string::npos ||
        service.argument.empty() || service.argument == "0")
      continue;
    service.argument = show(std::chrono::milliseconds(parse_count(service.argument)));
    const auto place = heard.places.find("service." + service.name);
    heard.old.push_back({place == heard.places.end() ? "--service" : place->second,
                         service.name + "=" + handler_of(service)});
  }
}

/// Throws UsageError where the proxy's URL has a password although others can see it.
void check_proxy(const std::string& proxy) {
  if (is_secret_source(proxy) || proxy.find('@') == std::string::npos) return;
  throw UsageError(
      "its URL holds credentials; write it as env:VARIABLE, file:PATH or credential:NAME; others see what "
      "stands here, with ps for one");
}

/// Bounds what is handed to a program. That there is one shows when it is looked for.
void check_exec(const std::string& shown, const ExecOptions& exec) {
  const auto bound = [&](std::size_t count, std::size_t most, const std::string& what) {
    if (count > most)
      throw UsageError(shown + std::to_string(count) + " " + what + ", and there may be " +
                       std::to_string(most));
  };
  bound(exec.argv.size(), ExecOptions::kArgumentsMax, "words in argv");
  bound(exec.environment.size(), ExecOptions::kEnvironmentMax, "variables in environment");
}

/// Refuses a webhook service that could call nobody, or anybody.
void check_webhook(const std::string& shown, const WebhookOptions& webhook, const std::string& proxy) {
  if (webhook.hosts.empty() || webhook.hosts.size() > WebhookOptions::kHostsMax)
    throw UsageError(shown + std::to_string(webhook.hosts.size()) +
                     " hosts, and a webhook service needs 1.." + std::to_string(WebhookOptions::kHostsMax) +
                     " that it may call, as in hosts = [\"hooks.example.com\"]");
  for (const std::string& host : webhook.hosts)
    about(shown + "in hosts", [&] { static_cast<void>(parse_hook_host(host)); });
  if (webhook.secrets.empty() || webhook.secrets.size() > WebhookOptions::kSecretsMax)
    throw UsageError(
        shown + std::to_string(webhook.secrets.size()) +
        " secrets, and a webhook service needs one, or two while they are rotated, as in secrets "
        "= [\"file:/etc/lanemq/hooks.secret\"]");
  if (!proxy.empty() && !webhook.private_addresses)
    throw UsageError(shown +
                     "no private = true, but calls go through http_proxy: then it is the proxy that looks "
                     "names up, and addresses cannot be checked here. Say private = true, and have the proxy "
                     "refuse addresses of your own network");
}

void check(const Settings& settings) {
  const MetricsOptions& metrics = settings.metrics;
  const bool is_meant = !metrics.key.empty() || !metrics.tls_certificate.empty() || !metrics.tls_key.empty();
  if (is_meant && !metrics.is_on)
    throw UsageError("metrics_key and metrics_tls_* are for metrics, which is not set");
  if (!settings.http.ca_file.empty())
    at_place("http_ca_file", [&] { check_authorities(settings.http.ca_file); });
  if (settings.services.empty())
    throw UsageError(
        "nothing to serve: name at least one service, as in --service echo=echo or "
        "--service chat=http:https://api.openai.com/v1/chat/completions");
  for (const ServiceSettings& service : settings.services) {
    const std::string shown = "service \"" + printable(service.name) + "\" has ";
    const bool has_upstream = service.handler == "http" || find_model_api(service.handler) != nullptr;
    if (!service.headers.empty() && !has_upstream)
      throw UsageError(shown + "headers, but its handler is " + service.handler);
    if (!service.keys.empty() && !has_upstream)
      throw UsageError(shown + "keys, but its handler is " + service.handler);
    if (!service.plugin.empty() && service.handler != "plugin")
      throw UsageError(shown + "a table [service.plugin], but its handler is " + service.handler);
    check_exec(shown, service.exec);
    if (service.handler == "webhook") check_webhook(shown, service.webhook, settings.http.proxy);
    if (service.keys.size() > ServiceSettings::kKeysMax)
      throw UsageError(shown + std::to_string(service.keys.size()) + " keys, and there may be " +
                       std::to_string(ServiceSettings::kKeysMax));
  }
}

}  // namespace

const ModelApi* find_model_api(std::string_view handler) {
  for (const ModelApi* api : {&kOpenaiApi, &kAnthropicApi})
    if (api->name == handler) return api;
  return nullptr;
}

namespace {

/// Whether the base URL of a model API has the path of a call in it, which would be there twice.
std::string path_of_call_problem(const std::string& url) {
  std::string_view base = url;
  while (base.ends_with('/'))
    base.remove_suffix(1);
  for (const std::string_view path :
       {"/chat/completions", "/completions", "/responses", "/embeddings", "/messages"})
    if (base.ends_with(path))
      return "the calls' paths are put behind it, so it must not have " + std::string(path) + "; write " +
             settings::without_secrets(printable(base.substr(0, base.size() - path.size())));
  return {};
}

}  // namespace

PluginOptions plugin_options(const ServiceSettings& service) {
  const std::size_t colon = std::min(service.argument.find(':'), service.argument.size());
  return {.file = service.argument.substr(0, colon),
          .argument = service.argument.substr(std::min(colon + 1, service.argument.size())),
          .settings = service.plugin};
}

ServiceSettings parse_service(std::string_view text) {
  const std::string shown = '"' + printable(text) + '"';
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0 || equals > limits::name_bytes_max ||
      !is_utf8(text.substr(0, equals)))
    throw UsageError("service " + shown + " must be NAME=HANDLER, with a name of 1.." +
                     std::to_string(limits::name_bytes_max) + " bytes");
  ServiceSettings service{
      .name = std::string(text.substr(0, equals)), .handler = {}, .argument = {}, .headers = {}, .keys = {}};
  const std::string_view handler = text.substr(equals + 1);
  if (handler.starts_with("http://") || handler.starts_with("https://")) {
    const std::string url = settings::without_secrets(printable(handler));
    throw UsageError("service \"" + printable(service.name) + "\": name a handler before the URL, such as " +
                     printable(service.name) + "=openai:" + url + ", or =anthropic: or =http: and it");
  }
  const std::size_t colon = std::min(handler.find(':'), handler.size());
  service.handler = handler.substr(0, colon);
  service.argument = handler.substr(std::min(colon + 1, handler.size()));
  if (service.handler == "echo") {
    if (colon == handler.size()) return service;
    try {
      const bool is_plain = service.argument.find_first_not_of("0123456789") == std::string::npos;
      static_cast<void>(
          duration_in<std::chrono::milliseconds>(service.argument + (is_plain ? "ms" : ""), kTimeOrNone));
    } catch (const UsageError& error) {
      throw UsageError("service " + shown + ": the delay of echo " + error.what());
    }
    return service;
  }
  if (service.handler == "plugin") {
    if (plugin_options(service).file.empty())
      throw UsageError("service " + shown + ": the handler plugin needs a file, as in " +
                       printable(service.name) + "=plugin:/usr/lib/pictures.so");
    return service;
  }
  if (service.handler == "webhook") {
    if (colon != handler.size())
      throw UsageError("service " + shown + ": the handler webhook has no argument; say " +
                       printable(service.name) + "=webhook, and its hosts with --webhook " +
                       printable(service.name) + ".hosts=HOST");
    return service;
  }
  if (service.handler == "exec") {
    if (!service.argument.empty()) service.exec.argv = {std::exchange(service.argument, {})};
    return service;
  }
  if (service.handler != "http" && !find_model_api(service.handler))
    throw UsageError("service " + shown + ": no handler \"" + printable(service.handler, 64) +
                     "\"; there are echo, http, openai, anthropic, exec, plugin and webhook");
  if (service.argument.empty())
    throw UsageError("service " + shown + ": the handler " + service.handler + " needs a URL, as in " +
                     printable(service.name) + "=" + service.handler + ":https://HOST/v1");
  std::string problem = http_url_problem(service.argument);
  if (problem.empty() && service.handler != "http" &&
      service.argument.find_first_of("?#") != std::string::npos)
    problem = "the calls' paths are put behind it, so it must have no ? and no #";
  if (problem.empty() && service.handler != "http") problem = path_of_call_problem(service.argument);
  if (!problem.empty()) throw UsageError("service \"" + printable(service.name) + "\": bad URL: " + problem);
  return service;
}

Request parse(int argc, const char* const* argv, const Environment& environment) {
  Request request;
  Settings& settings = request.settings;
  Asked asked = OptionReader(program(), bound(option_table(), settings))
                    .read(argc, argv, environment,
                          [&](const std::string& path, std::string_view key, const toml::node& node,
                              Heard& heard) { return read_node(path, key, node, settings, heard); });
  request.what = asked.what;
  request.text = std::move(asked.text);
  if (asked.what == Asked::For::print) return request;
  hand_out_keys(settings);
  hand_out_times(settings, asked.heard);
  hand_out_keys_of_handlers(settings, asked.heard);
  renew_delays(settings, asked.heard);
  request.old = std::move(asked.heard.old);
  at_place("http_proxy", [&] { check_proxy(settings.http.proxy); });
  if (asked.what == Asked::For::print_config) {
    request.text = print(settings);
    return request;
  }
  settings.worker.keys = read_broker_keys(settings.broker_keys, environment);
  if (std::string& proxy = settings.http.proxy; is_secret_source(proxy))
    at_place("http_proxy", [&] {
      settings.http_proxy_source = proxy;
      proxy = read_secret(proxy, environment);
    });
  about("broker", [&] { check_endpoints(settings.worker.broker); });
  check(settings);
  return request;
}

}  // namespace lanemq::worker
