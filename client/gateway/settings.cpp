// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/settings.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

#include <toml++/toml.h>

#include <lanemq/limits.hpp>
#include <lanemq/text.hpp>

#include "client/gateway/http/proxies.hpp"
#include "client/gateway/secret.hpp"
#include "settings/option_reader.hpp"
#include "settings/secret_source.hpp"
#include "settings/values.hpp"

namespace lanemq::gateway {
namespace {

using namespace lanemq::settings;
using std::chrono::milliseconds;

constexpr std::size_t kSecretBytesMin = 16;  ///< of a key
constexpr std::size_t kKeysMax = 10'000, kModelsMax = 1'000, kLanesMax = 64;

void apply_listen(Settings& settings, const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0)
    throw UsageError("must be ADDRESS:PORT, like 127.0.0.1:8080 or [::1]:8080, not \"" + printable(text, 64) +
                     '"');
  std::string address = text.substr(0, colon);
  if (address.size() > 2 && address.front() == '[' && address.back() == ']')
    address = address.substr(1, address.size() - 2);
  if (address == "*") address = "0.0.0.0";
  if (address == "localhost") address = "127.0.0.1";
  settings.server.address = address;
  const std::string port = text.substr(colon + 1);
  settings.server.port = static_cast<std::uint16_t>(port == "*" ? 0 : number(port, 0, 65535));
}

constexpr std::size_t kUrlBytesMax = 512;

std::string base_url(std::string text) {
  const bool is_url = text.starts_with("http://") || text.starts_with("https://");
  const bool fits = text.size() <= kUrlBytesMax &&
                    std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7F; });
  if (!text.empty() && !(is_url && fits))
    throw UsageError("must be a URL like https://ai.example.com, not \"" + printable(text, 64) + '"');
  while (text.ends_with('/'))
    text.pop_back();
  return text;
}

std::vector<std::string> proxies(const Values& values) try {
  std::vector<std::string> networks = words(values);
  static_cast<void>(Proxies(networks));
  return networks;
} catch (const std::invalid_argument& error) {
  throw UsageError(error.what());
}

constexpr std::int64_t kBytesMax = std::int64_t{1} << 40;

constexpr ProgramText kProgram{
    .name = "lanemq-gateway",
    .sentence =
        "Serves the APIs of OpenAI and Anthropic over HTTP: each request is a job of a LaneMQ broker, with "
        "its "
        "lanes, fairness and shared limits.",
    .config_sentence = "read options, keys and models from this file, under the same names with _ for -",
    .footer =
        "SIGHUP: read the file again; keys, models, lanes and times count at once.\n"
        "SIGTERM: finish what runs, then stop.\n"
        "Exit codes: 0 done, 2 usage, 3 the system refuses (a port, descriptors)."};

constexpr Option<Settings> kOptions[] =
    {
        {"broker", "endpoint", "tcp://127.0.0.1:5570", "the broker's endpoint for clients",
         [](Settings& s, const std::string& v) { s.broker = v; }},
        {"listen", "address:port", "127.0.0.1:8080",
         "where HTTP is served; port 0 picks a free one; beyond this machine only with keys", apply_listen},
        {"openai_service", "name", "openai", "the broker's service for requests of OpenAI's API",
         [](Settings& s, const std::string& v) { s.openai_service = name(v); }},
        {"anthropic_service", "name", "anthropic", "the broker's service for requests of Anthropic's API",
         [](Settings& s, const std::string& v) { s.anthropic_service = name(v); }},
        {"lanes", "names", "critical,high,normal,low,batch", "the broker's lanes, the highest first",
         [](Settings& s, const Values& v) { s.lanes = words(v); }},
        {"commit_ms", "milliseconds", "8000",
         "how long a stream's status is held back for its first content; then keep-alives begin",
         [](Settings& s, const std::string& v) { s.commit = duration(v, 1); }},
        {"keep_alive_ms", "milliseconds", "10000", "silence in a stream before a keep-alive",
         [](Settings& s, const std::string& v) { s.keep_alive = duration(v, 10); }},
        {"detach_ms", "milliseconds", "0",
         "a job goes on when its caller hangs up, and its answer waits so long for the caller's next try; 0: "
         "it "
         "is "
         "cancelled",
         [](Settings& s, const std::string& v) { s.detach = duration(v, 0); }},
        {"retry_grace_ms", "milliseconds", "1500",
         "an SDK's job that is not streamed goes on so long after its caller hung up, for the SDK's next "
         "try; 0: "
         "it is cancelled at once",
         [](Settings& s, const std::string& v) { s.retry_grace = duration(v, 0); }},
        {"public_url", "URL", "",
         "how callers reach this gateway: what links to the results of batches begin with; without it they "
         "are "
         "paths, which SDKs take, too",
         [](Settings& s, const std::string& v) { s.public_url = base_url(v); }},
        {"forward_service_tier", "true|false", "false",
         "pass `service_tier` on to the upstream, which bills by it; a [[key]] may say otherwise",
         [](Settings& s, const std::string& v) { s.forward_service_tier = yes_or_no(v); }},
        {"idempotency_retain_ms", "milliseconds", "86400000",
         "how long the answer to a request with an Idempotency-Key is kept",
         [](Settings& s, const std::string& v) { s.idempotency_retain = duration(v, 1); }},
        {"drain_delay_ms", "milliseconds", "1000",
         "from SIGTERM, when /readyz says 503, until new connections and requests are refused",
         [](Settings& s, const std::string& v) { s.drain_delay = duration(v, 0); }},
        {"drain_timeout_ms", "milliseconds", "10000",
         "how long running requests get when the gateway is told to stop",
         [](Settings& s, const std::string& v) { s.drain_timeout = duration(v, 0); }},
        {"connections_max", "connections", "16384",
         "of callers, at once; for one more the oldest is closed that has sent no whole header, else the new "
         "one",
         [](Settings& s, const std::string& v) { s.server.connections_max = count(v, 1, 1'000'000); }},
        {"connections_per_address_max", "connections", "a quarter of connections_max",
         "of one address, or one /64 of IPv6",
         [](Settings& s, const std::string& v) {
           s.server.connections_per_address_max = count(v, 1, 1'000'000);
         }},
        {"proxies", "addresses", "",
         "addresses or networks (10.0.0.0/8) of proxies in front: what they say in x-forwarded-for counts as "
         "where a request comes from, read from the right",
         [](Settings& s, const Values& v) { s.server.proxies = proxies(v); }},
        {"header_bytes_max", "bytes", "32768", "of a request's header",
         [](Settings& s, const std::string& v) { s.server.header_bytes_max = count(v, 1024, 1 << 20); }},
        {"body_bytes_max", "bytes", "33554432", "of a request's body",
         [](Settings& s, const std::string& v) {
           s.server.body_bytes_max = count(v, 1, static_cast<std::int64_t>(limits::body_bytes_max));
         }},
        {"job_body_bytes_max", "bytes", "8388608",
         "of a job that is left at /v1/jobs, where body_bytes_max is not less",
         [](Settings& s, const std::string& v) {
           s.job_body_bytes_max = count(v, 1, static_cast<std::int64_t>(limits::body_bytes_max));
         }},
        {"bodies_bytes_max", "bytes", "536870912",
         "of all requests' bodies together, a quarter for one key and one address; one over it is told to "
         "wait",
         [](Settings& s, const std::string& v) { s.server.bodies_bytes_max = count(v, 1, kBytesMax); }},
        {"uploads_bytes_max", "bytes", "2147483648",
         "of all uploads over 1 MiB, which go to the disk, a quarter for one key and one address; one over "
         "it is "
         "told to wait",
         [](Settings& s, const std::string& v) { s.server.uploads_bytes_max = count(v, 1, kBytesMax); }},
        {"answers_bytes_max", "bytes", "536870912",
         "of all answers that are not read yet; over it the largest are cut off",
         [](Settings& s, const std::string& v) { s.server.answers_bytes_max = count(v, 1, kBytesMax); }},
        {"header_timeout_ms", "milliseconds", "10000", "for a request's header to come whole",
         [](Settings& s, const std::string& v) { s.server.header_timeout = duration(v, 1); }},
        {"body_idle_timeout_ms", "milliseconds", "30000", "without a byte of a body that is under way",
         [](Settings& s, const std::string& v) { s.server.body_idle_timeout = duration(v, 1); }},
        {"body_timeout_ms", "milliseconds", "600000", "for a request's body to come whole",
         [](Settings& s, const std::string& v) { s.server.body_timeout = duration(v, 1); }},
        {"body_bytes_per_second_min", "bytes", "1000",
         "of a body that is under way, in each 10 s; a slower one is closed; 0: any",
         [](Settings& s, const std::string& v) {
           s.server.body_bytes_per_second_min = count(v, 0, 1'000'000'000);
         }},
        {"idle_timeout_ms", "milliseconds", "75000", "between the requests of a connection",
         [](Settings& s, const std::string& v) { s.server.idle_timeout = duration(v, 1); }},
        {"write_timeout_ms", "milliseconds", "30000", "for a reader that takes no byte of its answer",
         [](Settings& s, const std::string& v) { s.server.write_timeout = duration(v, 1); }},
        {"state", "folder", "$STATE_DIRECTORY, else ~/.local/state/lanemq/gateway/BROKER",
         "where files and batches are kept; one gateway at a time has it",
         [](Settings& s, const std::string& v) {
           s.batches.folder = v;
           s.batches.folder_named = true;
         }},
        {"batch_lane", "lane", "batch", "in which the lines of batches run",
         [](Settings& s, const std::string& v) { s.batches.lane = name(v); }},
        {"batch_in_flight_max", "lines", "256", "of all batches that are at the broker at once",
         [](Settings& s, const std::string& v) { s.batches.in_flight_max = count(v, 1, 10'000); }},
        {"batch_in_flight_bytes_max", "bytes", "67108864", "the bodies of those lines",
         [](Settings& s, const std::string& v) { s.batches.in_flight_bytes_max = count(v, 1, kBytesMax); }},
        {"batch_window_ms", "milliseconds", "86400000", "how long a batch may take before it expires",
         [](Settings& s, const std::string& v) { s.batches.window = duration(v, 1); }},
        {"batch_keep_ms", "milliseconds", "2592000000", "how long files, and batches that are over, are kept",
         [](Settings& s, const std::string& v) {
           s.batches.keep = milliseconds(number(v, 1, 366 * kDayMs));
         }},
        {"batch_retain_ms", "milliseconds", "3600000",
         "how long the broker keeps a line's answer for a gateway that is away",
         [](Settings& s, const std::string& v) { s.batches.retain = duration(v, 1); }},
        {"batch_lines_max", "lines", "50000", "of a batch of OpenAI's API",
         [](Settings& s, const std::string& v) { s.batches.lines_max = number(v, 1, 1'000'000); }},
        {"message_batch_requests_max", "requests", "100000", "of a batch of Anthropic's API",
         [](Settings& s, const std::string& v) { s.batches.message_requests_max = number(v, 1, 1'000'000); }},
        {"message_batch_bytes_max", "bytes", "268435456", "of the request that makes such a batch",
         [](Settings& s, const std::string& v) {
           s.batches.message_batch_bytes_max = count(v, 1, kBytesMax);
         }},
        {"batches_per_caller_max", "batches", "100", "that are not over",
         [](Settings& s, const std::string& v) { s.batches.batches_max = number(v, 1, 1'000'000); }},
        {"file_bytes_max", "bytes", "209715200", "of an uploaded file",
         [](Settings& s, const std::string& v) { s.batches.file_bytes_max = count(v, 1, kBytesMax); }},
        {"files_per_caller_max", "files", "10000", "that are kept",
         [](Settings& s, const std::string& v) { s.batches.files_max = number(v, 1, 100'000'000); }},
        {"files_total_bytes_max", "bytes", "21474836480", "of all files that are kept",
         [](Settings& s, const std::string& v) { s.batches.files_bytes_max = number(v, 1, kBytesMax); }},
        {"auth", "keys|none", "keys where there are [[key]]s, else none",
         "whether callers need a key; no reload goes from keys to none",
         [](Settings& s, const std::string& v) {
           if (v != "keys" && v != "none")
             throw UsageError("must be keys or none, not \"" + printable(v, 64) + '"');
           s.auth = v == "keys" ? Auth::keys : Auth::none;
           s.auth_said = true;
         }},
        {"hosts", "names", "",
         "names besides this machine's own that it answers to without keys, with * and ?; "
         "pages of theirs are served",
         [](Settings& s, const Values& v) { s.hosts = words(v); }},
        {"insecure", "true|false", "false", "listen beyond this machine although there are no keys",
         [](Settings& s, const std::string& v) { s.insecure = yes_or_no(v); }},
        {"log_level", "level", "info", "debug, info, warning or error; the log goes to standard error",
         [](Settings& s, const std::string& v) { s.log_level = log_level(v); }},
};

// ---- the file -----------------------------------------------------------------------------------------

/// A table of the file that is read key by key; a key that nobody asked for is a mistake.
class Table {
 public:
  Table(std::string path, const toml::node& node, std::string what)
      : path_(std::move(path)),
        what_(std::move(what)),
        line_(node.source().begin.line),
        table_(node.as_table()) {
    if (!table_) fail("must be a table");
  }

  std::optional<std::string> text(std::string_view key) {
    const toml::node* node = get(key);
    if (!node) return std::nullopt;
    if (const auto* value = node->as_string()) return value->get();
    fail(std::string(key) + " must be a string");
  }
  std::optional<bool> truth(std::string_view key) {
    const toml::node* node = get(key);
    if (!node) return std::nullopt;
    if (const auto* value = node->as_boolean()) return value->get();
    fail(std::string(key) + " must be true or false");
  }
  std::int64_t whole(std::string_view key) {
    const toml::node* node = get(key);
    if (!node) return 0;
    const auto* value = node->as_integer();
    if (!value || value->get() < 0) fail(std::string(key) + " must be a whole number, 0 or more");
    return value->get();
  }
  std::vector<std::string> texts(std::string_view key) {
    std::vector<std::string> values;
    const toml::node* node = get(key);
    if (!node) return values;
    const toml::array* list = node->as_array();
    if (!list) fail(std::string(key) + " must be a list of strings");
    for (const toml::node& item : *list) {
      const auto* value = item.as_string();
      if (!value) fail(std::string(key) + " must be a list of strings");
      values.push_back(value->get());
    }
    return values;
  }
  const toml::node* get(std::string_view key) {
    known_.emplace(key);
    return table_->get(key);
  }
  /// To be called when all keys were asked for.
  void check_keys() const {
    for (const auto& [key, value] : *table_) {
      if (known_.contains(std::string(key.str()))) continue;
      std::string message = "there is no " + printable(key.str(), 64) + "; there are";
      for (const std::string& other : known_)
        message += " " + other;
      fail(message);
    }
  }
  [[noreturn]] void fail(const std::string& message) const {
    throw UsageError(printable(path_) + ":" + std::to_string(line_) + ": " + what_ + ": " + message);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_, what_;
  std::size_t line_;
  const toml::table* table_;
  std::set<std::string> known_;
};

KeySettings read_key(const std::string& path, const toml::node& node, const Environment& environment) {
  Table table(path, node, "[[key]]");
  KeySettings key;
  try {
    key.name = name(table.text("name").value_or(""));
  } catch (const UsageError& error) {
    table.fail(std::string("name ") + error.what());
  }
  const std::optional<std::string> source = table.text("secret"), hash = table.text("sha256");
  if (source.has_value() == hash.has_value())
    table.fail("key \"" + printable(key.name) + "\" needs either secret or sha256");
  if (hash) {
    if (hash->size() != 64 || hash->find_first_not_of("0123456789abcdef") != std::string::npos)
      table.fail("sha256 must be 64 hexadecimal digits in lower case");
    key.sha256 = *hash;
  } else {
    try {
      const std::string secret = read_secret(*source, environment);
      if (secret.size() < kSecretBytesMin)
        throw UsageError("it must have " + std::to_string(kSecretBytesMin) +
                         " bytes or more, so that nobody guesses it; `openssl rand -hex 24` makes one");
      key.sha256 = sha256_hex(secret);
    } catch (const UsageError& error) {
      table.fail("secret of key \"" + printable(key.name) + "\": " + error.what());
    }
  }
  key.client = table.text("client").value_or("");
  key.lanes.fallback = table.text("lane").value_or("");
  key.lanes.allowed = table.texts("lanes");
  key.models = table.texts("models");
  key.services = table.texts("services");
  if (table.get("delay_max_ms")) key.delay_max = milliseconds(table.whole("delay_max_ms"));
  if (table.get("retain_max_ms")) key.retain_max = milliseconds(table.whole("retain_max_ms"));
  const std::string stored = table.text("stored_responses").value_or("own");
  if (stored != "own" && stored != "any") table.fail("stored_responses must be \"own\" or \"any\"");
  key.any_stored_response = stored == "any";
  key.forward_service_tier = table.truth("forward_service_tier");
  key.requests_per_minute = table.whole("requests_per_minute");
  key.tokens_per_minute = table.whole("tokens_per_minute");
  key.concurrency = table.whole("concurrency");
  table.check_keys();
  return key;
}

RouteStep read_step(Table& table) {
  RouteStep step{.service = table.text("service").value_or(""), .model = table.text("model").value_or("")};
  step.max_wait = milliseconds(table.whole("max_wait_ms"));
  return step;
}

constexpr std::string_view kReasonNames[kFallBackReasons] = {"rate", "timeout", "5xx", "context", "quota"};

void read_reasons(Table& table, ModelSettings& model) {
  if (!table.get("on")) return;
  std::fill(std::begin(model.falls_back_on), std::end(model.falls_back_on), false);
  for (const std::string& reason : table.texts("on")) {
    const auto* at = std::find(std::begin(kReasonNames), std::end(kReasonNames), reason);
    if (at == std::end(kReasonNames))
      table.fail("on: there is no reason \"" + printable(reason, 64) +
                 "\"; there are rate, timeout, 5xx, context, quota");
    model.falls_back_on[at - std::begin(kReasonNames)] = true;
  }
}

ModelSettings read_model(const std::string& path, const toml::node& node) {
  Table table(path, node, "[[model]]");
  ModelSettings model;
  try {
    model.name = name(table.text("name").value_or(""));
  } catch (const UsageError& error) {
    table.fail(std::string("name ") + error.what());
  }
  const std::string api = table.text("api").value_or("openai");
  if (api != "openai" && api != "anthropic") table.fail("api must be \"openai\" or \"anthropic\"");
  model.api = api == "openai" ? Api::openai : Api::anthropic;
  model.steps.push_back(read_step(table));
  if (model.steps.front().model.empty()) model.steps.front().model = model.name;
  read_reasons(table, model);
  if (const toml::node* list = table.get("fallback")) {
    if (!list->as_array()) table.fail("fallback must be a list of tables, as in [[model.fallback]]");
    for (const toml::node& item : *list->as_array()) {
      Table step(path, item, "[[model.fallback]]");
      model.steps.push_back(read_step(step));
      if (model.steps.back().model.empty()) step.fail("a fall-back needs a model");
      step.check_keys();
    }
  }
  if (model.steps.size() > ModelSettings::kStepsMax)
    table.fail("a model may have " + std::to_string(ModelSettings::kStepsMax - 1) + " fall-backs");
  table.check_keys();
  return model;
}

template <class Item, class Read>
void read_list(const std::string& path, std::string_view key, const toml::node& node, std::size_t most,
               std::vector<Item>& items, Read read) {
  const toml::array* list = node.as_array();
  if (!list)
    throw UsageError(printable(path) + ": write [[" + std::string(key) + "]] for each " + std::string(key));
  for (const toml::node& item : *list) {
    items.push_back(read(item));
    if (items.size() > most)
      throw UsageError(printable(path) + ": there may be " + std::to_string(most) + " of [[" +
                       std::string(key) + "]]");
    for (std::size_t i = 0; i + 1 < items.size(); ++i)
      if (items[i].name == items.back().name)
        throw UsageError(printable(path) + ": " + std::string(key) + " \"" + printable(items.back().name) +
                         "\" stands there twice");
  }
}

/// What the file has besides options.
bool read_node(const std::string& path, std::string_view key, const toml::node& node,
               const Environment& environment, Settings& settings) {
  if (key == "key")
    read_list(path, key, node, kKeysMax, settings.keys,
              [&](const toml::node& item) { return read_key(path, item, environment); });
  else if (key == "model")
    read_list(path, key, node, kModelsMax, settings.models,
              [&](const toml::node& item) { return read_model(path, item); });
  else
    return false;
  return true;
}

// ---- the whole ----------------------------------------------------------------------------------------

bool is_loopback(const std::string& address) {
  return address == "::1" || address.starts_with("127.");
}

/// Where files and batches are kept when nobody says it; empty: nobody knows. Batches are jobs of one broker,
/// so that another one has a folder of its own.
std::string usual_state_folder(const Environment& environment, const std::string& broker) {
  const auto folder = [&](const char* variable) {
    const char* const value = environment(variable);
    return std::string(value != nullptr ? value : "");
  };
  // The service manager's may be several, with colons.
  if (const std::string given = folder("STATE_DIRECTORY"); !given.empty())
    return given.substr(0, given.find(':'));
  std::string base = folder("XDG_STATE_HOME");
  if (base.empty()) base = folder("HOME").empty() ? "" : folder("HOME") + "/.local/state";
  if (base.empty()) return base;
  std::string name = broker;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '/' || c == ':' || c == '*'; }, '-');
  return base + "/lanemq/gateway/" + name;
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
                       "\" is none of lanes");
  const std::vector<std::string>& allowed = key.lanes.allowed;
  if (!key.lanes.fallback.empty() && !allowed.empty() &&
      std::find(allowed.begin(), allowed.end(), key.lanes.fallback) == allowed.end())
    throw UsageError("key \"" + printable(key.name) + "\": its lane is none of its lanes");
}

void check(const Settings& settings) {
  if (settings.lanes.size() > kLanesMax)
    throw UsageError("there may be " + std::to_string(kLanesMax) + " lanes");
  std::map<std::string_view, std::string_view> name_of_hash;
  for (const KeySettings& key : settings.keys) {
    check_lanes(settings, key);
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
  if (settings.keys.empty() && !settings.insecure && !is_loopback(settings.server.address))
    throw UsageError(
        "listening on " + settings.server.address +
        " without keys would let anybody spend the upstream's; add [[key]] to the file of --config, "
        "listen on 127.0.0.1, or say --insecure true");
}

}  // namespace

Request parse(int argc, const char* const* argv, const Environment& environment) {
  Request request;
  request.settings.server.port = 8080;
  const OptionReader reader(kProgram, kOptions, request.settings);
  const auto printed = reader.read(
      argc, argv, environment, "[[key]], [[model]]",
      [&](const std::string& path, std::string_view key, const toml::node& node) {
        return read_node(path, key, node, environment, request.settings);
      },
      &request.file);
  if (printed) return {.kind = Request::Kind::print, .text = *printed};
  BatchSettings& batches = request.settings.batches;
  if (!batches.folder_named) batches.folder = usual_state_folder(environment, request.settings.broker);
  for (KeySettings& key : request.settings.keys)
    if (key.services.empty())
      key.services = {request.settings.openai_service, request.settings.anthropic_service};
  if (!request.settings.auth_said)
    request.settings.auth = request.settings.keys.empty() ? Auth::none : Auth::keys;
  check(request.settings);
  return request;
}

}  // namespace lanemq::gateway
