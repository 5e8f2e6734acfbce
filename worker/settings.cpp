// SPDX-License-Identifier: Apache-2.0
#include "worker/settings.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include <toml++/toml.h>

#include <lanemq/text.hpp>

#include "settings/option_reader.hpp"
#include "settings/secret_source.hpp"
#include "settings/values.hpp"
#include "worker/handlers/anthropic/anthropic_api.hpp"
#include "worker/handlers/http/http_handler.hpp"
#include "worker/handlers/openai/openai_api.hpp"

namespace lanemq::worker {
namespace {

using std::chrono::milliseconds;
using namespace lanemq::settings;

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

constexpr ProgramText kProgram{
    .name = "lanemq-worker",
    .sentence =
        "Runs jobs of a LaneMQ broker: takes them as capacity allows, hands each to the handler of its "
        "service "
        "and hands in what comes of it.",
    .config_sentence = "read options from this file, under the same names with _ for -",
    .footer =
        "openai and anthropic services without a key use OPENAI_API_KEY and ANTHROPIC_API_KEY.\n"
        "SIGHUP: read the secrets of headers and keys again. SIGTERM: stop.\n"
        "Exit codes: 0 done, 2 usage, 3 no broker within connect-timeout-ms."};

constexpr Option<Settings> kOptions[] = {
    {"broker", "endpoint", "tcp://127.0.0.1:5571", "the broker's endpoint for workers",
     [](Settings& s, const std::string& v) { s.worker.broker = v; }},
    {"service", "NAME=HANDLER[:ARGUMENT]", "",
     "what to serve and how: NAME=echo, NAME=echo:MILLISECONDS, NAME=http:URL, NAME=openai:URL or "
     "NAME=anthropic:URL, the latter two with the upstream's base URL as its SDKs take it; may be repeated",
     apply_services},
    {"capacity", "jobs", "16", "how many jobs to hold at once",
     [](Settings& s, const std::string& v) {
       s.worker.capacity =
           static_cast<std::size_t>(number(v, 1, static_cast<std::int64_t>(limits::capacity_max)));
     }},
    {"lanes", "names", "all",
     "take jobs of these lanes only (a reserved worker); separate by comma or repeat",
     [](Settings& s, const Values& v) { s.worker.lanes = words(v); }},
    {"name", "text", "HOST-PID", "how the broker's operator sees this worker",
     [](Settings& s, const std::string& v) { s.worker.name = v; }},
    {"drain_timeout_ms", "milliseconds", "10000", "how long running jobs get when the worker is told to stop",
     [](Settings& s, const std::string& v) { s.worker.drain_timeout = duration(v, 0); }},
    {"connect_timeout_ms", "milliseconds", "0",
     "give up with exit code 3 when no broker has answered by then; 0: never",
     [](Settings& s, const std::string& v) { s.worker.connect_timeout = duration(v, 0); }},
    {"body_bytes_max", "bytes", "67108864", "refuse longer bodies",
     [](Settings& s, const std::string& v) {
       s.worker.body_bytes_max =
           static_cast<std::size_t>(number(v, 1, std::numeric_limits<std::int32_t>::max()));
     }},
    {"http_header", "'Name: value'", "",
     "send this with every http call; words env:NAME, file:PATH and credential:NAME in the value are "
     "replaced by the variable or the file's content, {key} by the secret of the job's key; may be repeated",
     [](Settings& s, const Values& v) { s.http_headers = v; }},
    {"key", "SERVICE/NAME=SOURCE", "",
     "a key that the broker names with jobs of an http, openai or anthropic service, and where its secret "
     "stands: env:NAME, file:PATH or credential:NAME; may be repeated",
     apply_keys},
    {"http_connect_timeout_ms", "milliseconds", "5000", "for the connection of an http call",
     [](Settings& s, const std::string& v) { s.http.times.connect = duration(v, 1); }},
    {"http_timeout_ms", "milliseconds", "600000",
     "for a whole http call; a job with less time left gets less",
     [](Settings& s, const std::string& v) { s.http.times.total = duration(v, 1); }},
    {"timeout", "LANE.NAME=MILLISECONDS", "by lane",
     "how long jobs of a lane may take with openai and anthropic: connect-ms, first-token-ms, "
     "between-tokens-ms and total-ms; may be repeated",
     apply_lane_times},
    {"http_proxy", "URL", "none",
     "make calls to upstreams through this proxy, or the one that env:NAME, file:PATH or credential:NAME "
     "tells, where its URL has a password; the environment's proxies are not used",
     [](Settings& s, const std::string& v) { s.http.proxy = v; }},
    {"http_ca_file", "path", "the system's", "trust these certificate authorities (PEM) instead",
     [](Settings& s, const std::string& v) { s.http.ca_file = v; }},
    {"log_level", "level", "info", "debug, info, warning or error; the log goes to standard error",
     [](Settings& s, const std::string& v) { s.log_level = log_level(v); }},
};

// ---- the file -----------------------------------------------------------------------------------------

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

/// What the file has besides options.
bool read_node(const std::string& path, std::string_view key, const toml::node& node, Settings& settings) {
  if (key == "service" && node.is_array_of_tables())
    read_services(path, node, settings);
  else if (key == "timeout" && node.is_table())
    read_lane_times(path, *node.as_table(), settings);
  else
    return false;
  return true;
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
  Request request;
  const auto printed = OptionReader(kProgram, kOptions, request.settings)
                           .read(argc, argv, environment, "[[service]], [timeout.LANE]",
                                 [&](const std::string& path, std::string_view key, const toml::node& node) {
                                   return read_node(path, key, node, request.settings);
                                 });
  if (printed) return {.kind = Request::Kind::print, .settings = {}, .text = *printed};
  hand_out_keys(request.settings);
  if (std::string& proxy = request.settings.http.proxy; is_secret_source(proxy)) try {
      proxy = read_secret(proxy, environment);
    } catch (const UsageError& error) {
      throw UsageError(std::string("http_proxy: ") + error.what());
    }
  check(request.settings);
  return request;
}

}  // namespace lanemq::worker
