// SPDX-License-Identifier: Apache-2.0
#include "worker/settings.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <utility>

#include <CLI/CLI.hpp>
#include <toml++/toml.h>

#include <lanemq/text.hpp>
#include <lanemq/version.hpp>

#include "worker/handlers/anthropic/anthropic_api.hpp"
#include "worker/handlers/http/http_handler.hpp"
#include "worker/handlers/openai/openai_api.hpp"
#include "worker/secrets.hpp"

namespace lanemq::worker {
namespace {

using std::chrono::milliseconds;
using Values = std::vector<std::string>;

constexpr std::int64_t kDayMs = 24LL * 3600 * 1000;

/// One option: its flag (--drain-timeout-ms), variable (LANEMQ_WORKER_DRAIN_TIMEOUT_MS), key
/// (drain_timeout_ms) and line in the help all follow from its row.
struct Row {
  std::string_view key, unit, fallback, sentence;
  bool is_list;  ///< may be given several times
  void (*apply)(Settings& settings, const Values& values);
};

std::int64_t number(const std::string& text, std::int64_t min, std::int64_t max) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < min || value > max)
    throw UsageError("must be a whole number " + std::to_string(min) + ".." + std::to_string(max) +
                     ", not \"" + printable(text, 64) + '"');
  return value;
}

milliseconds duration(const Values& values, std::int64_t min) {
  return milliseconds(number(values[0], min, kDayMs));
}

void apply_log_level(Settings& settings, const Values& values) {
  for (const std::string_view known : {"debug", "info", "warning", "error"})
    if (values[0] == known) return static_cast<void>(settings.log_level = values[0]);
  throw UsageError("must be debug, info, warning or error, not \"" + printable(values[0], 64) + '"');
}

/// A service given later, by a flag, replaces one of that name given earlier, by the file.
void apply_services(Settings& settings, const Values& values) {
  std::vector<ServiceSettings> given;
  for (const std::string& text : values)
    given.push_back(parse_service(text));
  for (ServiceSettings& service : given) {
    const auto same = std::find_if(settings.services.begin(), settings.services.end(),
                                   [&](const ServiceSettings& other) { return other.name == service.name; });
    if (same == settings.services.end()) {
      settings.services.push_back(std::move(service));
      continue;
    }
    service.headers = same->headers;
    service.keys = same->keys;
    *same = std::move(service);
  }
}

/// Complains without a word of what was given: it may be a secret in the wrong place.
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

void set_lane_time(Settings& settings, const std::string& lane, std::string name, const std::string& value) {
  std::replace(name.begin(), name.end(), '-', '_');
  const milliseconds time(number(value, 1, kDayMs));
  if (!settings.lane_times.set(lane, name, time))
    throw UsageError("a lane has no time \"" + printable(name, 64) + "\"; there are " + LaneTimes::names());
}

void apply_lane_times(Settings& settings, const Values& values) {
  for (const std::string& text : values) {
    const std::size_t equals = std::min(text.find('='), text.size());
    const std::size_t dot = text.substr(0, equals).rfind('.');
    if (equals == text.size() || dot == std::string::npos || dot == 0)
      throw UsageError("must be LANE.NAME=MILLISECONDS, as in batch.first-token-ms=300000");
    set_lane_time(settings, text.substr(0, dot), text.substr(dot + 1, equals - dot - 1),
                  text.substr(equals + 1));
  }
}

constexpr Row kRows[] = {
    {"broker", "endpoint", "tcp://127.0.0.1:5571", "the broker's endpoint for workers", false,
     [](Settings& s, const Values& v) { s.worker.broker = v[0]; }},
    {"service", "NAME=HANDLER[:ARGUMENT]", "",
     "what to serve and how: NAME=echo, NAME=echo:MILLISECONDS, NAME=http:URL, NAME=openai:URL or "
     "NAME=anthropic:URL, the latter two with the upstream's base URL as its SDKs take it; may be repeated",
     true, apply_services},
    {"capacity", "jobs", "16", "how many jobs to hold at once", false,
     [](Settings& s, const Values& v) {
       s.worker.capacity =
           static_cast<std::size_t>(number(v[0], 1, static_cast<std::int64_t>(limits::capacity_max)));
     }},
    {"lanes", "names", "all",
     "take jobs of these lanes only (a reserved worker); separate by comma or repeat", true,
     [](Settings& s, const Values& v) { s.worker.lanes = v; }},
    {"name", "text", "HOST-PID", "how the broker's operator sees this worker", false,
     [](Settings& s, const Values& v) { s.worker.name = v[0]; }},
    {"drain_timeout_ms", "milliseconds", "10000", "how long running jobs get when the worker is told to stop",
     false, [](Settings& s, const Values& v) { s.worker.drain_timeout = duration(v, 0); }},
    {"connect_timeout_ms", "milliseconds", "0",
     "give up with exit code 3 when no broker has answered by then; 0: never", false,
     [](Settings& s, const Values& v) { s.worker.connect_timeout = duration(v, 0); }},
    {"body_bytes_max", "bytes", "67108864", "refuse longer bodies", false,
     [](Settings& s, const Values& v) {
       s.worker.body_bytes_max =
           static_cast<std::size_t>(number(v[0], 1, std::numeric_limits<std::int32_t>::max()));
     }},
    {"http_header", "'Name: value'", "",
     "send this with every http call; words env:NAME, file:PATH and credential:NAME in the value are "
     "replaced by the variable or the file's content, {key} by the secret of the job's key; may be repeated",
     true, [](Settings& s, const Values& v) { s.http_headers = v; }},
    {"key", "SERVICE/NAME=SOURCE", "",
     "a key that the broker names with jobs of an http, openai or anthropic service, and where its secret "
     "stands: env:NAME, file:PATH or credential:NAME; may be repeated",
     true, apply_keys},
    {"http_connect_timeout_ms", "milliseconds", "5000", "for the connection of an http call", false,
     [](Settings& s, const Values& v) { s.http.times.connect = duration(v, 1); }},
    {"http_timeout_ms", "milliseconds", "600000",
     "for a whole http call; a job with less time left gets less", false,
     [](Settings& s, const Values& v) { s.http.times.total = duration(v, 1); }},
    {"timeout", "LANE.NAME=MILLISECONDS", "by lane",
     "how long jobs of a lane may take with openai and anthropic: connect-ms, first-token-ms, "
     "between-tokens-ms and total-ms; may be repeated",
     true, apply_lane_times},
    {"http_proxy", "URL", "none",
     "make calls to upstreams through this proxy; the environment's proxies are not used", false,
     [](Settings& s, const Values& v) { s.http.proxy = v[0]; }},
    {"http_ca_file", "path", "the system's", "trust these certificate authorities (PEM) instead", false,
     [](Settings& s, const Values& v) { s.http.ca_file = v[0]; }},
    {"log_level", "level", "info", "debug, info, warning or error; the log goes to standard error", false,
     apply_log_level},
};

std::string flag_of(const Row& row) {
  std::string flag = "--" + std::string(row.key);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

std::string variable_of(const Row& row) {
  std::string name = "LANEMQ_WORKER_" + std::string(row.key);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return name;
}

std::string help_of(const Row& row) {
  std::string help(row.sentence);
  if (!row.fallback.empty()) help += " [" + std::string(row.fallback) + "]";
  return help;
}

/// A list's values; `a,b` counts as two. Headers have commas of their own.
Values split(const Row& row, Values values) {
  if (row.key != "lanes") return values;
  Values parts;
  for (const std::string& value : values) {
    std::size_t begin = 0;
    while (begin <= value.size()) {
      const std::size_t end = std::min(value.find(',', begin), value.size());
      parts.push_back(value.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return parts;
}

/// Applies values that came from `source`, which a complaint names.
void apply(const Row& row, const std::string& source, Values values, Settings& settings) try {
  values = split(row, std::move(values));
  for (const std::string& value : values)
    if (value.empty()) throw UsageError("must not be empty");
  if (!values.empty()) row.apply(settings, values);
} catch (const UsageError& error) {
  throw UsageError(source + ": " + error.what());
}

// ---- the file -----------------------------------------------------------------------------------------

std::string place_of(const std::string& path, const toml::node& node) {
  return printable(path) + ":" + std::to_string(node.source().begin.line);
}

std::string scalar(const std::string& place, const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* value = node.as_integer()) return std::to_string(value->get());
  throw UsageError(place + ": must be a string or a whole number");
}

Values scalars(const std::string& place, const Row& row, const toml::node& node) {
  const toml::array* list = node.as_array();
  if (!list) return {scalar(place, node)};
  if (!row.is_list) throw UsageError(place + ": must be one value, not a list");
  Values values;
  for (const toml::node& item : *list)
    values.push_back(scalar(place, item));
  return values;
}

/// A table of texts.
std::vector<std::pair<std::string, std::string>> text_table(const std::string& place, const toml::node& node,
                                                            const std::string& example) {
  const toml::table* table = node.as_table();
  if (!table) throw UsageError(place + ": must be a table, as in " + example);
  std::vector<std::pair<std::string, std::string>> texts;
  for (const auto& [name, value] : *table)
    texts.emplace_back(name.str(), scalar(place, value));
  return texts;
}

std::vector<std::string> header_table(const std::string& place, const toml::node& node) {
  std::vector<std::string> headers;
  for (const auto& [name, value] :
       text_table(place, node, "headers = { Authorization = \"Bearer env:KEY\" }"))
    headers.push_back(name + ": " + value);
  return headers;
}

std::vector<KeySettings> key_table(const std::string& place, const toml::node& node) {
  std::vector<KeySettings> keys;
  for (const auto& [name, value] : text_table(place, node, "keys = { k1 = \"env:OPENAI_KEY_1\" }"))
    keys.push_back({.name = name, .source = value});
  return keys;
}

/// [timeout.LANE], a table of times for each lane.
void read_lane_times(const std::string& path, const toml::table& lanes, Settings& settings) {
  for (const auto& [lane, node] : lanes) {
    const std::string place = place_of(path, node) + ": timeout." + printable(lane.str(), 64);
    for (const auto& [name, value] : text_table(place, node, "[timeout.batch] with first_token_ms = 300000"))
      try {
        set_lane_time(settings, std::string(lane.str()), name, value);
      } catch (const UsageError& error) {
        throw UsageError(place + "." + printable(name, 64) + ": " + error.what());
      }
  }
}

/// One [[service]]: name, handler, headers, keys.
ServiceSettings service_table(const std::string& path, const toml::node& node) {
  const toml::table* table = node.as_table();
  if (!table) throw UsageError(place_of(path, node) + ": a service must be a table: [[service]]");
  std::string name, handler;
  std::vector<std::string> headers;
  std::vector<KeySettings> keys;
  for (const auto& [key, value] : *table) {
    const std::string place = place_of(path, value) + ": " + printable(key.str(), 64);
    if (key == "name")
      name = scalar(place, value);
    else if (key == "handler")
      handler = scalar(place, value);
    else if (key == "headers")
      headers = header_table(place, value);
    else if (key == "keys")
      keys = key_table(place, value);
    else
      throw UsageError(place + ": no such key of a service; there are name, handler, headers and keys");
  }
  if (name.empty() || handler.empty())
    throw UsageError(place_of(path, node) + ": a service needs name and handler");
  ServiceSettings service;
  try {
    service = parse_service(name + "=" + handler);
  } catch (const UsageError& error) {
    throw UsageError(place_of(path, node) + ": " + error.what());
  }
  if (service.name != name) throw UsageError(place_of(path, node) + ": a service's name has no '='");
  service.headers = std::move(headers);
  service.keys = std::move(keys);
  return service;
}

void read_services(const std::string& path, const toml::node& node, Settings& settings) {
  const toml::array* list = node.as_array();
  if (!list)
    throw UsageError(place_of(path, node) + ": services are written as [[service]] with name and handler");
  for (const toml::node& item : *list) {
    ServiceSettings service = service_table(path, item);
    for (const ServiceSettings& other : settings.services)
      if (other.name == service.name)
        throw UsageError(place_of(path, item) + ": service \"" + printable(service.name) +
                         "\" stands there twice");
    settings.services.push_back(std::move(service));
  }
}

const Row& row_of(std::string_view key, const std::string& place) {
  std::string complaint = place + ": no such key; there are service";
  for (const Row& row : kRows) {
    if (row.key == key) return row;
    if (row.key != "service") complaint.append(", ").append(row.key);
  }
  throw UsageError(complaint);
}

void read_file(const std::string& path, Settings& settings) {
  toml::table file;
  try {
    file = toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    throw UsageError(printable(path) + ":" + std::to_string(error.source().begin.line) + ": " +
                     std::string(error.description()));
  }
  for (const auto& [key, node] : file) {
    if (key == "service" && node.is_array_of_tables()) {
      read_services(path, node, settings);
      continue;
    }
    if (key == "timeout" && node.is_table()) {
      read_lane_times(path, *node.as_table(), settings);
      continue;
    }
    const std::string place = place_of(path, node) + ": " + printable(key.str(), 64);
    const Row& row = row_of(key.str(), place);
    apply(row, place, scalars(place, row, node), settings);
  }
}

// ---- the whole ----------------------------------------------------------------------------------------

/// Gives the keys of flags and variables to their services. One given later replaces one of its name.
void hand_out_keys(Settings& settings) {
  for (const auto& [name, key] : settings.keys) {
    const auto service = std::find_if(settings.services.begin(), settings.services.end(),
                                      [&](const ServiceSettings& other) { return other.name == name; });
    if (service == settings.services.end())
      throw UsageError("key \"" + printable(key.name) + "\" is for service \"" + printable(name) +
                       "\", which is not served; name it with --service");
    const auto same = std::find_if(service->keys.begin(), service->keys.end(),
                                   [&](const KeySettings& other) { return other.name == key.name; });
    if (same != service->keys.end())
      *same = key;
    else
      service->keys.push_back(key);
  }
}

void check(const Settings& settings) {
  if (settings.services.empty())
    throw UsageError(
        "nothing to serve: name at least one service, as in --service echo=echo or "
        "--service chat=http:https://api.openai.com/v1/chat/completions");
  for (const ServiceSettings& service : settings.services) {
    const std::string shown = "service \"" + printable(service.name) + "\" has ";
    if (!service.headers.empty() && service.handler == "echo")
      throw UsageError(shown + "headers, but its handler is " + service.handler);
    if (!service.keys.empty() && service.handler == "echo")
      throw UsageError(shown + "keys, but its handler is " + service.handler);
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
  const bool is_url = handler.starts_with("http://") || handler.starts_with("https://");
  const std::size_t colon = std::min(handler.find(':'), handler.size());
  service.handler = is_url ? "http" : std::string(handler.substr(0, colon));
  service.argument =
      is_url ? std::string(handler) : std::string(handler.substr(std::min(colon + 1, handler.size())));
  if (service.handler == "echo") {
    if (colon == handler.size()) return service;
    try {
      static_cast<void>(number(service.argument, 0, kDayMs));
    } catch (const UsageError& error) {
      throw UsageError("service " + shown + ": the delay of echo, in milliseconds, " + error.what());
    }
    return service;
  }
  if (service.handler != "http" && !find_model_api(service.handler))
    throw UsageError("service " + shown + ": no handler \"" + printable(service.handler, 64) +
                     "\"; there are echo, http, openai and anthropic");
  std::string problem = http_url_problem(service.argument);
  if (problem.empty() && service.handler != "http" &&
      service.argument.find_first_of("?#") != std::string::npos)
    problem = "the calls' paths are put behind it, so it must have no ? and no #";
  if (!problem.empty()) throw UsageError("service \"" + printable(service.name) + "\": bad URL: " + problem);
  return service;
}

Request parse(int argc, const char* const* argv, const Environment& environment) {
  CLI::App app(
      "Runs jobs of a LaneMQ broker: takes them as capacity allows, hands each to the handler of its service "
      "and hands in what comes of it.",
      "lanemq-worker");
  app.set_version_flag("--version", std::string("lanemq-worker ") + kVersion);
  app.get_formatter()->column_width(46);
  std::string path;
  app.add_option("--config", path, "read options from this file, under the same names with _ for -")
      ->type_name("FILE.toml");
  std::map<std::string_view, Values> flags;
  for (const Row& row : kRows) {
    auto* option = app.add_option(flag_of(row), flags[row.key], help_of(row));
    option->type_name(std::string(row.unit))->allow_extra_args(false)->type_size(1);
    option->expected(1)->multi_option_policy(row.is_list ? CLI::MultiOptionPolicy::TakeAll
                                                         : CLI::MultiOptionPolicy::TakeLast);
  }
  app.footer(
      "Each option is also read from the environment, as LANEMQ_WORKER_CAPACITY and so on.\n"
      "openai and anthropic services without a key use OPENAI_API_KEY and ANTHROPIC_API_KEY.\n"
      "SIGHUP: read the secrets of headers and keys again. SIGTERM: stop.\n"
      "Exit codes: 0 done, 2 usage, 3 no broker within connect-timeout-ms.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return {.kind = Request::Kind::print, .settings = {}, .text = app.help() + "\n"};
  } catch (const CLI::CallForVersion&) {
    return {.kind = Request::Kind::print, .settings = {}, .text = app.version() + "\n"};
  } catch (const CLI::ParseError& error) {
    throw UsageError(printable(error.what()) + "; see --help");
  }
  Request request;
  if (!path.empty()) read_file(path, request.settings);
  for (const Row& row : kRows)
    if (const char* value = environment(variable_of(row)))
      apply(row, variable_of(row), {value}, request.settings);
  for (const Row& row : kRows)
    apply(row, flag_of(row), flags[row.key], request.settings);
  hand_out_keys(request.settings);
  check(request.settings);
  return request;
}

}  // namespace lanemq::worker
