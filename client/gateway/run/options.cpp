// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/run/options.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include <toml++/toml.h>

#include <lanemq/limits.hpp>
#include <lanemq/text.hpp>

#include "client/gateway/apis/http_words.hpp"
#include "common/http/server/access/caller_key.hpp"
#include "common/http/server/access/proxies.hpp"
#include "common/http/server/access/secret.hpp"
#include "common/http/server/listen.hpp"
#include "common/settings/folders.hpp"
#include "common/settings/option_reader.hpp"
#include "common/settings/secrets/exposed_files.hpp"
#include "common/settings/secrets/secret_source.hpp"
#include "common/settings/start_check.hpp"
#include "common/settings/values.hpp"

namespace lanemq::gateway {
namespace {

using namespace lanemq::settings;

constexpr std::size_t kKeysMax = 10'000, kModelsMax = 1'000, kLanesMax = 64;

constexpr std::size_t kUrlBytesMax = 512;

std::string base_url(std::string text) {
  const bool is_url = text.starts_with("http://") || text.starts_with("https://");
  const bool fits = text.size() <= kUrlBytesMax &&
                    std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7F; });
  if (!text.empty() && !(is_url && fits))
    throw UsageError("must be a URL like https://ai.example.com, not \"" + printable(text, 64) + '"');
  if (text.find('@') != std::string::npos)
    throw UsageError("must not hold credentials: callers get it in links");
  while (text.ends_with('/'))
    text.pop_back();
  return text;
}

std::vector<std::string> proxies(const Values& values) try {
  std::vector<std::string> networks = parse_words(values);
  static_cast<void>(Proxies(networks));
  return networks;
} catch (const std::invalid_argument& error) {
  throw UsageError(error.what());
}

constexpr std::size_t kBytesMax = std::size_t{1} << 40;

constexpr Range<Duration> kTime{std::chrono::milliseconds(1), kDay};
constexpr Range<Duration> kTimeOrNone{Duration{}, kDay};

ProgramText program() {
  return {
      .name = "lanemq-gateway",
      .variables = "LANEMQ_GATEWAY_",
      .sentence =
          "Serves the APIs of OpenAI and Anthropic over HTTP: each request is a job of a LaneMQ "
          "broker, with its lanes, fairness and shared limits.",
      .config_sentence = "Read options, keys and models from this file, under the same names with _ for -.",
      .footer =
          "SIGHUP: read the file again; keys, models, lanes and times count at once.\n"
          "SIGTERM: finish what runs, then stop.\n"
          "Exit codes: 0 done, 2 usage, 3 the system refuses (a port, descriptors).",
      .blocks = {"key", "model"},
      .flags = {
          {"--stop-key", "NAME",
           "Have the running gateway, which has the same --state, end what that key has left there: calls, "
           "batches, jobs; and end."},
          {"--make-key", "",
           "Print a [[key]] for the file of --config, and its new secret to the standard error, and end."}}};
}

void apply_auth(Settings& settings, const std::string& text) {
  if (text != "keys" && text != "none" && !text.empty())
    throw UsageError("must be keys or none, not \"" + printable(text, 64) + '"');
  settings.auth = text == "keys" ? Auth::keys : Auth::none;
  settings.auth_said = !text.empty();
}

Option<Settings> service_row(const Api& api) {
  return {{.key = api.service_option, .kind = Kind::text, .unit = "name", .sentence = api.service_sentence},
          [&api](const Settings& settings) { return Values{settings.services[api]}; },
          [&api](Settings& settings, const Values& values) {
            settings.services[api] = parse_name(values.front());
          }};
}

/// All options: those of the APIs' services stand in front of `lanes`.
Options<Settings> with_services(Options<Settings> others) {
  Options<Settings> options = without_units_before(std::move(others));
  for (const Api* api : kApis)
    options.insert(std::find_if(options.begin(), options.end(),
                                [](const Option<Settings>& option) { return option.key == "lanes"; }),
                   service_row(*api));
  return options;
}

}  // namespace

const Options<Settings>& option_table() {
  using namespace rows;
  static const Options<Settings> kOptions = with_services({
      text("broker", "endpoint",
           "The broker's endpoint for clients; several, separated by commas, where another broker may go on "
           "in its "
           "place.",
           &Settings::broker),
      broker_key_row<Settings>(),
      secret_key_row<Settings>(),
      Option<Settings>{
          {.key = "listen",
           .kind = Kind::text,
           .unit = "address:port",
           .sentence =
               "Where HTTP is served; port 0 picks a free one; beyond this machine only with keys and "
               "TLS."},
          [](const Settings& s) { return Values{listen_of(s.server)}; },
          [](Settings& s, const Values& values) { set_listen(s.server, values.front()); }},
      rows::tls_certificate("tls_certificate", &Settings::tls_certificate),
      rows::tls_key("tls_key", &Settings::tls_key),
      list("lanes", "names", "The broker's lanes, the highest first.", &Settings::lanes),
      duration("commit", kTime,
               "How long a stream's status is held back for its first content; then keep-alives begin.",
               &Settings::commit),
      duration("keep_alive", {std::chrono::milliseconds(10), kDay},
               "Silence in a stream before a keep-alive.", &Settings::keep_alive),
      duration("broker_wait", kTime,
               "How long a request waits for a broker that is silent, as while another one takes its store "
               "over, until it is refused with 503; longer than the brokers' `store_lease`.",
               &Settings::broker_wait),
      duration("no_worker_wait", kTimeOrNone,
               "How long a request waits for a worker where none serves it, until it is refused with 503; 0: "
               "for as long as its time lasts.",
               &Settings::no_worker_wait),
      duration("detach", kTimeOrNone,
               "A job goes on when its caller hangs up, and its answer waits so long for the caller's next "
               "try; 0: it is cancelled.",
               &Settings::detach),
      duration("retry_grace", kTimeOrNone,
               "An SDK's job that is not streamed goes on so long after its caller hung up, for the SDK's "
               "next try; 0: it is cancelled at once.",
               &Settings::retry_grace),
      row({.key = "public_url",
           .unit = "URL",
           .sentence = "How callers reach this gateway: what links to the results of batches begin with; "
                       "without it they are paths, which SDKs take, too."},
          base_url, std::identity(), &Settings::public_url)
          .when_empty("none"),
      yes_or_no("forward_service_tier",
                "Pass `service_tier` on to the upstream, which bills by it; a [[key]] may say otherwise.",
                &Settings::forward_service_tier),
      duration("idempotency_retain", kTime,
               "How long the answer to a request with an Idempotency-Key is kept.",
               &Settings::idempotency_retain),
      duration("drain_delay", kTimeOrNone,
               "From SIGTERM, when /readyz says 503, until new connections and requests are refused.",
               &Settings::drain_delay),
      duration("drain_timeout", kTimeOrNone,
               "How long running requests get when the gateway is told to stop.", &Settings::drain_timeout),
      count("connections_max", "connections", {1, 1'000'000},
            "Of callers, at once; for one more the oldest is closed that has sent no whole header, else the "
            "new one.",
            &Settings::server, &ServerOptions::connections_max),
      count("connections_per_address_max", "connections", {0, 1'000'000},
            "Of one address, or one /64 of IPv6; 0: a quarter of connections_max.", &Settings::server,
            &ServerOptions::connections_per_address_max),
      Option<Settings>{
          {.key = "proxies",
           .kind = Kind::list,
           .unit = "addresses",
           .sentence = "Addresses or networks (10.0.0.0/8) of proxies in front: what they say in "
                       "x-forwarded-for counts as where a request comes from, read from the right.",
           .empty = "none"},
          [](const Settings& s) { return s.server.proxies; },
          [](Settings& s, const Values& values) { s.server.proxies = proxies(values); }},
      size("header_bytes_max", {1024, 1u << 20}, "Of a request's header.", &Settings::server,
           &ServerOptions::header_bytes_max),
      size("body_bytes_max", {1, limits::body_bytes_max}, "Of a request's body.", &Settings::server,
           &ServerOptions::body_bytes_max),
      size("job_body_bytes_max", {1, limits::body_bytes_max},
           "Of a job that is left at /v1/jobs, where body_bytes_max is not less.",
           &Settings::job_body_bytes_max),
      size("bodies_bytes_max", {1, kBytesMax},
           "Of all requests' bodies together, a quarter for one key and one address; one over it is told to "
           "wait.",
           &Settings::server, &ServerOptions::bodies_bytes_max),
      size("uploads_bytes_max", {1, kBytesMax},
           "Of all uploads over 1 MiB, which go to the disk, a quarter for one key and one address; one over "
           "it is told to wait.",
           &Settings::server, &ServerOptions::uploads_bytes_max),
      size("answers_bytes_max", {1, kBytesMax},
           "Of all answers that are not read yet; over it the largest are cut off.", &Settings::server,
           &ServerOptions::answers_bytes_max),
      duration("header_timeout", kTime, "For a request's header to come whole.", &Settings::server,
               &ServerOptions::header_timeout),
      duration("body_idle_timeout", kTime, "Without a byte of a body that is under way.", &Settings::server,
               &ServerOptions::body_idle_timeout),
      duration("body_timeout", kTime, "For a request's body to come whole.", &Settings::server,
               &ServerOptions::body_timeout),
      size("body_bytes_per_second_min", {0, 1'000'000'000},
           "Of a body that is under way, in each 10 s; a slower one is closed; 0: any.", &Settings::server,
           &ServerOptions::body_bytes_per_second_min),
      duration("idle_timeout", kTime, "Between the requests of a connection.", &Settings::server,
               &ServerOptions::idle_timeout),
      duration("write_timeout", kTime, "For a reader that takes no byte of its answer.", &Settings::server,
               &ServerOptions::write_timeout),
      Option<Settings>{
          {.key = "state",
           .unit = "folder",
           .sentence = "Where files and batches are kept; one gateway at a time has it.",
           .empty = "$STATE_DIRECTORY, else ~/.local/state/lanemq/gateway/BROKER"},
          [](const Settings& s) { return Values{s.batches.folder_named ? s.batches.folder : ""}; },
          [](Settings& s, const Values& values) {
            s.batches.folder = values.front();
            s.batches.folder_named = !s.batches.folder.empty();
          }},
      name("batch_lane", "lane", "In which the lines of batches run.", &Settings::batches,
           &BatchSettings::lane),
      count("batch_in_flight_max", "lines", {1, 10'000}, "Of all batches that are at the broker at once.",
            &Settings::batches, &BatchSettings::in_flight_max),
      size("batch_in_flight_bytes_max", {1, kBytesMax}, "The bodies of those lines.", &Settings::batches,
           &BatchSettings::in_flight_bytes_max),
      duration("batch_window", kTime, "How long a batch may take before it expires.", &Settings::batches,
               &BatchSettings::window),
      duration("batch_keep", {std::chrono::milliseconds(1), 366 * kDay},
               "How long files, and batches that are over, are kept.", &Settings::batches,
               &BatchSettings::keep),
      duration("batch_retain", kTime, "How long the broker keeps a line's answer for a gateway that is away.",
               &Settings::batches, &BatchSettings::retain),
      count("batch_lines_max", "lines", {1, 1'000'000}, "Of a batch of OpenAI's API.", &Settings::batches,
            &BatchSettings::lines_max),
      count("message_batch_requests_max", "requests", {1, 1'000'000}, "Of a batch of Anthropic's API.",
            &Settings::batches, &BatchSettings::message_requests_max),
      size("message_batch_bytes_max", {1, kBytesMax}, "Of the request that makes such a batch.",
           &Settings::batches, &BatchSettings::message_batch_bytes_max),
      count("batches_per_caller_max", "batches", {1, 1'000'000}, "That are not over.", &Settings::batches,
            &BatchSettings::batches_max),
      size("file_bytes_max", {1, kBytesMax}, "Of an uploaded file.", &Settings::batches,
           &BatchSettings::file_bytes_max),
      count("files_per_caller_max", "files", {1, 100'000'000}, "That are kept.", &Settings::batches,
            &BatchSettings::files_max),
      size("files_bytes_per_caller_max", {1, kBytesMax}, "Of a caller's files that are kept.",
           &Settings::batches, &BatchSettings::caller_files_bytes_max),
      size("files_total_bytes_max", {1, kBytesMax}, "Of all files that are kept.", &Settings::batches,
           &BatchSettings::files_bytes_max),
      Option<Settings>{{.key = "auth",
                        .unit = "keys|none",
                        .sentence = "Whether callers need a key; no reload goes from keys to none.",
                        .empty = "keys where there are [[key]]s, else none"},
                       [](const Settings& s) {
                         return Values{!s.auth_said ? "" : s.auth == Auth::keys ? "keys" : "none"};
                       },
                       [](Settings& s, const Values& values) { apply_auth(s, values.front()); }},
      list("hosts", "names",
           "Names besides this machine's own that it answers to without keys, with * and ?; pages of theirs "
           "are served.",
           &Settings::hosts)
          .when_empty("none"),
      yes_or_no("insecure", "Listen beyond this machine although there are no keys, or there is no TLS.",
                &Settings::insecure),
      yes_or_no("access_log", "A line of the log for each request (request.answered), 1000 a second at most.",
                &Settings::access_log),
      rows::otlp(&Settings::otlp, &trace::Collector::endpoint),
      rows::otlp_in_clear(&Settings::otlp, &trace::Collector::in_clear),
      rows::log_level(&Settings::log_level),
      rows::log_format(&Settings::log_format),
      rows::keep_cores(&Settings::keep_cores),
  });
  return kOptions;
}

namespace {

// ---- the file -----------------------------------------------------------------------------------------

const Options<KeySettings>& key_options() {
  using namespace rows;
  static const Options<KeySettings> kOptions = without_units_before<KeySettings>(
      {name("name", "text", "Its name.", &KeySettings::name),
       text("secret", "source", "Where it stands: env:VARIABLE, file:PATH or credential:NAME.",
            &KeySettings::secret),
       row({.key = "sha256", .unit = "digits", .sentence = "Of the secret, instead of it."}, parse_hash,
           std::identity(), &KeySettings::sha256),
       text("client", "name", "Whose share it takes at the broker.", &KeySettings::client)
           .when_empty("its name"),
       text("lane", "lane", "Where a request names none.", &KeySettings::lanes, &LaneRules::fallback)
           .when_empty("the broker's default"),
       texts("lanes", "names", "That it may use.", &KeySettings::lanes, &LaneRules::allowed)
           .when_empty("all"),
       texts("models", "patterns", "That it may use, with * and ?.", &KeySettings::models).when_empty("all"),
       texts("services", "patterns", "That it may use, with * and ?.", &KeySettings::services)
           .when_empty("those of the two APIs"),
       list("ops", "names",
            "What it is for: chat, responses, embeddings, jobs, files, batches; and metrics, which have to "
            "be named.",
            &KeySettings::ops)
           .when_empty("all"),
       moment("not_after",
              "A date, whose last second is the key's (UTC), or a date with a time: then it counts no more.",
              &KeySettings::not_after),
       duration("delay_max", kAnyDuration, "Of a job that is left.", &KeySettings::delay_max),
       duration("retain_max", kAnyDuration, "Of its answer.", &KeySettings::retain_max),
       row(
           {.key = "stored_responses", .unit = "own|any", .sentence = "Whose it may read."},
           [](const std::string& value) {
             if (value != "own" && value != "any") throw UsageError("must be own or any");
             return value == "any";
           },
           [](bool any) { return any ? "any" : "own"; }, &KeySettings::any_stored_response),
       row(
           {.key = "forward_service_tier",
            .unit = "true|false",
            .sentence = "The gateway's option of that name.",
            .empty = "the gateway's"},
           [](const std::string& value) {
             return value.empty() ? std::optional<bool>() : parse_switch(value);
           },
           [](std::optional<bool> said) { return said ? show_switch(*said) : ""; },
           &KeySettings::forward_service_tier),
       count("requests_per_minute", "requests", {0, kCountMax}, "0: no limit.",
             &KeySettings::requests_per_minute),
       count("tokens_per_minute", "tokens", {0, kCountMax}, "0: no limit.", &KeySettings::tokens_per_minute),
       count("concurrency", "requests", {0, kCountMax}, "0: no limit.", &KeySettings::concurrency),
       size("files_bytes_max", {0, kBytesMax},
            "Of its files that are kept, together; 0: files_bytes_per_caller_max.",
            &KeySettings::files_bytes_max)});
  return kOptions;
}

const Options<RouteStep>& step_options() {
  using namespace rows;
  static const Options<RouteStep> kOptions = without_units_before<RouteStep>(
      {text("model", "name", "The upstream's name.", &RouteStep::model).when_empty("the same"),
       text("service", "name", "Where it is.", &RouteStep::service).when_empty("the API's"),
       duration("max_wait", kAnyDuration, "No content by then counts as a timeout; 0: never.",
                &RouteStep::max_wait)});
  return kOptions;
}

constexpr std::string_view kReasonNames[kFallBackReasons] = {"rate", "timeout", "5xx", "context", "quota"};

Values show_reasons(const ModelSettings& model) {
  Values reasons;
  for (std::size_t i = 0; i < kFallBackReasons; ++i)
    if (model.falls_back_on[i]) reasons.emplace_back(kReasonNames[i]);
  return reasons;
}

void apply_reasons(ModelSettings& model, const Values& reasons) {
  std::fill(std::begin(model.falls_back_on), std::end(model.falls_back_on), false);
  for (const std::string& reason : reasons) {
    const auto* at = std::find(std::begin(kReasonNames), std::end(kReasonNames), reason);
    if (at == std::end(kReasonNames))
      throw UsageError("there is no reason \"" + printable(reason, 64) +
                       "\"; there are rate, timeout, 5xx, context, quota");
    model.falls_back_on[at - std::begin(kReasonNames)] = true;
  }
}

/// `last`: between the last two.
std::string api_names(std::string_view last, std::string_view others = ", ") {
  std::string names;
  for (std::size_t i = 0; i < kApiCount; ++i)
    names.append(i == 0 ? "" : i + 1 < kApiCount ? others : last).append(kApis[i]->name);
  return names;
}

const Options<ModelSettings>& model_options() {
  using namespace rows;
  static const std::string kUnit = api_names("|", "|");
  static const Options<ModelSettings> kOptions{
      name("name", "text", "What callers write.", &ModelSettings::name),
      row(
          {.key = "api", .unit = kUnit, .sentence = "What its requests speak."},
          [](const std::string& value) {
            if (const Api* const api = api_named(value)) return api;
            throw UsageError("must be " + api_names(" or "));
          },
          [](const Api* api) { return api->name; }, &ModelSettings::api),
      Option<ModelSettings>{{.key = "on",
                             .kind = Kind::list,
                             .unit = "reasons",
                             .sentence = "Why the next one is taken.",
                             .empty = "none"},
                            show_reasons,
                            apply_reasons}};
  return kOptions;
}

void require_op(const std::string& op) {
  const std::span<const std::string_view> names = op_names();
  if (std::find(names.begin(), names.end(), op) != names.end()) return;
  std::string known;
  for (const std::string_view name : names)
    known += (known.empty() ? "" : ", ") + std::string(name);
  throw UsageError("ops has \"" + printable(op, 64) + "\", and there are " + known);
}

KeySettings read_key(const std::string& path, const toml::table& table, const Environment& environment,
                     Heard& heard) {
  KeySettings key;
  refuse_empty(path, table);
  read_table(path, table, "", bound(key_options(), key), heard);
  if (key.name.empty()) throw UsageError("it needs a name");
  for (const std::string& op : key.ops)
    require_op(op);
  key.sha256 = hash_of_key(
      {.name = key.name, .secret = key.secret, .sha256 = key.sha256, .maker = "lanemq-gateway --make-key"},
      environment);
  return key;
}

ModelSettings read_model(const std::string& path, const toml::table& table, Heard& heard) {
  ModelSettings model;
  RouteStep first;
  std::vector<BoundOption> options = bound(model_options(), model);
  for (BoundOption& option : bound(step_options(), first))
    options.push_back(std::move(option));
  const auto read_steps = [&](std::string_view key, const toml::node& node) {
    if (key != "fallback") return false;
    at_place(place_of(path, node.source()) + ": fallback", [&] {
      for (const toml::node& item : list_in(node, "[[model.fallback]]")) {
        RouteStep step;
        read_table(path, table_in(item, "[[model.fallback]]"), "fallback.", bound(step_options(), step),
                   heard);
        if (step.model.empty()) throw UsageError("a fall-back needs a model");
        model.steps.push_back(std::move(step));
      }
    });
    return true;
  };
  read_table(path, table, "", options, {"fallback"}, read_steps, heard);
  if (model.name.empty()) throw UsageError("it needs a name");
  if (first.model.empty()) first.model = model.name;
  model.steps.insert(model.steps.begin(), std::move(first));
  if (model.steps.size() > ModelSettings::kStepsMax)
    throw UsageError("a model may have " + std::to_string(ModelSettings::kStepsMax - 1) + " fall-backs");
  return model;
}

template <class Item, class Read>
void read_list(const std::string& path, std::string_view key, const toml::node& node, std::size_t most,
               std::vector<Item>& items, Heard& heard, Read read) {
  const std::string block = "[[" + std::string(key) + "]]";
  at_place(printable(path), [&] { static_cast<void>(list_in(node, block)); });
  for (const toml::node& item : *node.as_array())
    at_place(place_of(path, item.source()) + ": " + block, [&] {
      items.push_back(read(table_in(item, block)));
      heard.places[std::string(key) + "." + items.back().name] = place_of(path, item.source());
      if (items.size() > most) throw UsageError("there may be " + std::to_string(most));
      for (std::size_t i = 0; i + 1 < items.size(); ++i)
        if (items[i].name == items.back().name)
          throw UsageError('"' + printable(items.back().name) + "\" stands there twice");
    });
}

/// Reads a key of the file that is no option; false: it is unknown.
bool read_node(const std::string& path, std::string_view key, const toml::node& node,
               const Environment& environment, Settings& settings, Heard& heard) {
  if (key == "key")
    read_list(path, key, node, kKeysMax, settings.keys, heard,
              [&](const toml::table& table) { return read_key(path, table, environment, heard); });
  else if (key == "model")
    read_list(path, key, node, kModelsMax, settings.models, heard,
              [&](const toml::table& table) { return read_model(path, table, heard); });
  else
    return false;
  return true;
}

/// All settings as a configuration file.
std::string print(Settings& settings) {
  std::string out =
      "# LaneMQ gateway. Every key is optional; durations and sizes carry their unit.\n"
      "# Of a [[key]] and a [[model]], what stands behind # is not set.\n" +
      print_options(bound(option_table(), settings));
  for (KeySettings key : settings.keys) {
    if (!key.secret.empty()) key.sha256.clear();
    out += "\n[[key]]\n" + print_table(key_options(), key);
  }
  for (const ModelSettings& model : settings.models) {
    out += "\n[[model]]\n" + print_table(model_options(), model) +
           print_table(step_options(), model.steps.front());
    for (std::size_t i = 1; i < model.steps.size(); ++i)
      out += "\n[[model.fallback]]\n" + print_table(step_options(), model.steps[i]);
  }
  return out;
}

// ---- the whole ----------------------------------------------------------------------------------------

/// The default folder of files and batches; empty: there is none. Each broker has its own, since batches are
/// jobs of one broker.
std::string usual_state_folder(const Environment& environment, const std::string& broker) {
  if (std::string service = settings::service_state_folder(environment); !service.empty()) return service;
  const std::string base = settings::user_state_folder(environment);
  if (base.empty()) return base;
  std::string name = broker;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '/' || c == ':' || c == '*'; }, '-');
  return base + "/lanemq/gateway/" + name;
}

/// Where the key stands in the file.
std::string place_of_key(const Heard& heard, const KeySettings& key) {
  const auto at = heard.places.find("key." + key.name);
  return (at == heard.places.end() ? "" : at->second + ": ") + "[[key]]";
}

std::string joined_with_spaces(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names)
    text += (text.empty() ? "" : ", ") + printable(name, 64);
  return text;
}

void check_lanes(const Settings& settings, const KeySettings& key) {
  const auto known = [&](const std::string& lane) {
    return std::find(settings.lanes.begin(), settings.lanes.end(), lane) != settings.lanes.end();
  };
  std::vector<std::string> named = key.lanes.allowed;
  if (!key.lanes.fallback.empty()) named.push_back(key.lanes.fallback);
  for (const std::string& lane : named)
    if (!known(lane))
      throw UsageError("key \"" + printable(key.name) + "\": lane \"" + printable(lane, 64) +
                       "\" is none of lanes; there are " + joined_with_spaces(settings.lanes));
  const std::vector<std::string>& allowed = key.lanes.allowed;
  if (!key.lanes.fallback.empty() && !allowed.empty() &&
      std::find(allowed.begin(), allowed.end(), key.lanes.fallback) == allowed.end())
    throw UsageError("key \"" + printable(key.name) + "\": its lane is none of its lanes");
}

void check(const Settings& settings, const Heard& heard) {
  if (settings.lanes.size() > kLanesMax)
    throw UsageError("there may be " + std::to_string(kLanesMax) + " lanes");
  for (auto lane = settings.lanes.begin(); lane != settings.lanes.end(); ++lane)
    if (std::find(settings.lanes.begin(), lane, *lane) != lane)
      throw UsageError("lanes names \"" + printable(*lane, 64) + "\" twice");
  std::map<std::string_view, std::string_view> name_of_hash;
  for (const KeySettings& key : settings.keys) {
    at_place(place_of_key(heard, key), [&] { check_lanes(settings, key); });
    const auto [at, is_new] = name_of_hash.emplace(key.sha256, key.name);
    if (!is_new)
      throw UsageError("keys \"" + printable(at->second) + "\" and \"" + printable(key.name) +
                       "\" have the same secret: nobody could tell who calls; give each one of its own");
  }
  if (settings.auth == Auth::keys && settings.keys.empty())
    throw UsageError(
        "auth is \"keys\" and there is none: add [[key]] to the file of --config, or say auth = "
        "\"none\"");
  if (settings.auth == Auth::none && !settings.keys.empty())
    throw UsageError(
        "auth is \"none\" and there are keys, which would mean nothing: leave out one of the two");
  if (settings.tls_certificate.empty() != settings.tls_key.empty())
    throw UsageError("tls_certificate and tls_key belong together; name both, or neither");
  if (settings.insecure || is_loopback(settings.server.address)) return;
  if (settings.keys.empty())
    throw UsageError(
        "listening on " + settings.server.address +
        " without keys would let anybody spend the upstream's; add [[key]] to the file of --config "
        "(--make-key prints one), listen on 127.0.0.1, or say --insecure true");
  if (settings.tls_certificate.empty())
    throw UsageError(
        "listening on " + settings.server.address +
        " without TLS would show keys and prompts to whoever is on the way; name tls_certificate "
        "and tls_key, listen on 127.0.0.1 behind a proxy that speaks TLS, or say --insecure true "
        "where the network is trusted");
}

}  // namespace

Request parse(int argc, const char* const* argv, const Environment& environment) {
  Request request;
  Settings& settings = request.settings;
  Asked asked =
      OptionReader(program(), bound(option_table(), settings))
          .read(argc, argv, environment,
                [&](const std::string& path, std::string_view key, const toml::node& node, Heard& heard) {
                  return read_node(path, key, node, environment, settings, heard);
                });
  request.what = asked.what;
  request.text = std::move(asked.text);
  request.file = std::move(asked.file);
  request.old = std::move(asked.heard.old);
  if (asked.flags.contains("--make-key")) {
    request.what = Asked::For::print;
    const std::string secret = fresh_secret();
    request.text = new_key_table("key", secret);
    request.aside = "the secret, for its holder; it is shown this once: " + secret + "\n";
  }
  if (request.what == Asked::For::print) return request;
  if (const auto stopped = asked.flags.find("--stop-key"); stopped != asked.flags.end())
    request.stop_keys = stopped->second;
  if (asked.what == Asked::For::print_config) request.text = print(settings);
  BatchSettings& batches = settings.batches;
  if (!batches.folder_named) batches.folder = usual_state_folder(environment, settings.broker);
  for (KeySettings& key : settings.keys)
    if (key.services.empty())
      for (const Api* api : kApis)
        key.services.push_back(settings.services[*api]);
  if (!settings.auth_said) settings.auth = settings.keys.empty() ? Auth::none : Auth::keys;
  about("tls_certificate",
        [&] { settings.tls_certificate_file = file_of(settings.tls_certificate, environment); });
  about("tls_key", [&] { settings.tls_key_file = file_of(settings.tls_key, environment); });
  settings::note_secret_file(settings.tls_key_file);
  about("broker", [&] { check_endpoints(settings.broker); });
  settings.curve = read_broker_keys(settings.broker_keys, environment);
  check(settings, asked.heard);
  return request;
}

}  // namespace lanemq::gateway
