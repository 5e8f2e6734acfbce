// SPDX-License-Identifier: Apache-2.0
#include "broker/config.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>

#include <toml++/toml.h>

namespace lanemq {
namespace {

using core::BudgetOptions;
using core::ClientOptions;
using core::Duration;
using core::KeyOptions;
using core::LaneOptions;
using core::RateOptions;
using core::Resource;

// ---- values with units --------------------------------------------------------------------------------

struct Unit {
  std::string_view name;
  std::int64_t factor;
};
constexpr Unit kDurationUnits[] = {{"ms", 1000},         {"us", 1},
                                   {"s", 1'000'000},     {"m", 60'000'000},
                                   {"h", 3'600'000'000}, {"d", 86'400'000'000}};
constexpr Unit kSizeUnits[] = {{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1}};

std::int64_t parse_unit(const std::string& text, std::span<const Unit> units, const char* example) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view suffix(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (error == std::errc{} && number >= 0)
    for (const Unit& unit : units)
      if (unit.name == suffix && number <= INT64_MAX / unit.factor) return number * unit.factor;
  throw ConfigError("\"" + text + "\" is not understood; write a whole number with its unit, like " +
                    example);
}

Duration parse_duration(const std::string& text) {
  return Duration(parse_unit(text, kDurationUnits, "\"30s\" or \"500ms\""));
}

std::size_t parse_size(const std::string& text) {
  return static_cast<std::size_t>(parse_unit(text, kSizeUnits, "\"64MiB\" or \"4096B\""));
}

std::int64_t parse_count(const std::string& text, std::int64_t min = 0,
                         std::int64_t max = std::numeric_limits<std::int64_t>::max()) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < min || number > max)
    throw ConfigError(
        "\"" + text + "\" is not understood; write a whole number of at least " + std::to_string(min) +
        (max < std::numeric_limits<std::int64_t>::max() ? " and at most " + std::to_string(max) : ""));
  return number;
}

/// Thousandths.
int parse_share(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && std::string_view(end) == "%")
    value /= 100;
  else if (error != std::errc() || *end != '\0')
    value = -1;
  if (!(value >= 0 && value <= 1))
    throw ConfigError("\"" + text + "\" is no share; write 0 to 1, as in 0.2, or 0% to 100%");
  return static_cast<int>(std::lround(value * 1000));
}
std::string show_share(int thousandths) {
  std::string text = std::to_string(thousandths);
  text.insert(0, text.size() < 4 ? 4 - text.size() : 0, '0');
  return text.insert(text.size() - 3, ".");
}

bool parse_switch(const std::string& text) {
  if (text == "true") return true;
  if (text == "false") return false;
  throw ConfigError("\"" + text + "\" is not understood; write true or false");
}

template <std::size_t N>
std::string with_unit(std::int64_t value, const Unit (&units)[N]) {
  const Unit* best = &units[N - 1];
  for (const Unit& unit : units)
    if (value % unit.factor == 0 && (value % best->factor != 0 || unit.factor > best->factor) &&
        (value != 0 || unit.factor == 1))
      best = &unit;
  return std::to_string(value / best->factor) + std::string(best->name);
}
std::string show(Duration duration) {
  return duration.count() == 0 ? "0s" : with_unit(duration.count(), kDurationUnits);
}
std::string show_size(std::size_t size) {
  return with_unit(static_cast<std::int64_t>(size), kSizeUnits);
}

// ---- the options table --------------------------------------------------------------------------------

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
    LANEMQ_NAME("store", store, "Where accepted jobs are kept: memory (they end with the broker)."),
    LANEMQ_NAME("log_level", log_level, "The lowest level that is logged: debug, info, warn, error or off."),
    OptionRow{"insecure", "switch", "Allows endpoints beyond this machine without encryption or keys.",
              [](const Config& c) { return std::string(c.insecure ? "true" : "false"); },
              [](Config& c, const std::string& text) { c.insecure = parse_switch(text); }},
    LANEMQ_DURATION("drain_timeout", core.drain_timeout, "How long running jobs may finish after SIGTERM."),
    LANEMQ_DURATION("heartbeat", core.heartbeat,
                    "Interval of heartbeats; a worker silent for three is gone."),
    LANEMQ_COUNT("attempts_max", core.attempts_max, "Hand-overs of a job that states no maximum."),
    LANEMQ_COUNT("crash_max", core.crash_max, "Workers that may die under a job before it fails."),
    LANEMQ_DURATION("backoff_base", core.backoff_base,
                    "Bound of the first random pause before a retry; doubles each time."),
    LANEMQ_DURATION("backoff_max", core.backoff_max, "Bound of every pause before a retry."),
    OptionRow{"breaker", "switch", "Leaves an upstream alone for a time when half of its calls fail.",
              [](const Config& c) { return std::string(c.core.breaker ? "true" : "false"); },
              [](Config& c, const std::string& text) { c.core.breaker = parse_switch(text); }},
    LANEMQ_SIZE("body_bytes_max", core.body_bytes_max, "The largest body of a request or an answer."),
    LANEMQ_COUNT("jobs_max", core.jobs_max, "Jobs of all lanes and kept results."),
    LANEMQ_SIZE("memory_max", core.memory_max, "Bytes of all jobs and kept results."),
    LANEMQ_DURATION("retain", core.retain, "How long a result stays fetchable where a job states nothing."),
    LANEMQ_COUNT("results_max", core.results_max, "Results that are kept; the oldest go first."),
    LANEMQ_SIZE("results_bytes_max", core.results_bytes_max, "Bytes of kept results; the oldest go first."),
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
                 "Ids remembered whose results are no longer kept: a fetch of one is told so."),
    LANEMQ_COUNT("media_tokens", core.media_tokens,
                 "Tokens that an image, a sound or a file in a body is taken to cost."),
    LANEMQ_COUNT("output_tokens_default", core.output_default,
                 "Tokens of an answer, of a model that has not answered yet."),
    LANEMQ_COUNT("services_max", core.services_max, "Distinct services."),
    LANEMQ_COUNT("workers_max", core.workers_max, "Connected workers."),
    LANEMQ_COUNT("clients_idle_max", core.clients_idle_max,
                 "Connections, and queues of clients, remembered without a job."),
    LANEMQ_COUNT("client_receive_hwm", server.client_receive_hwm,
                 "Messages of one client that wait to be read."),
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

/// One key of a lane or a budget, by the same idea.
template <class T>
struct KeyRow {
  std::string_view key;
  std::string_view sentence;
  void (*set)(T&, const std::string& text);
};

const KeyRow<LaneOptions> kLaneKeys[] = {
    {"timeout", "how long a job may take, queueing included",
     [](LaneOptions& lane, const std::string& text) { lane.timeout = parse_duration(text); }},
    {"depth_max", "jobs that may wait",
     [](LaneOptions& lane, const std::string& text) {
       lane.depth_max = static_cast<std::size_t>(parse_count(text, 1));
     }},
    {"bytes_max", "bytes that may wait",
     [](LaneOptions& lane, const std::string& text) { lane.bytes_max = parse_size(text); }},
    {"reserved_slots", "places of each service held for this lane and those above",
     [](LaneOptions& lane, const std::string& text) {
       lane.reserved_slots = static_cast<std::size_t>(parse_count(text));
     }},
    {"reserve", "share of each budget's burst that lower lanes leave",
     [](LaneOptions& lane, const std::string& text) { lane.reserve = parse_share(text); }},
    {"share_min", "share of what a service hands over that this lane gets at least",
     [](LaneOptions& lane, const std::string& text) { lane.share_min = parse_share(text); }},
    {"boost_after", "a job that waited so long competes a lane higher",
     [](LaneOptions& lane, const std::string& text) { lane.boost_after = parse_duration(text); }},
    {"default", "takes jobs that name no lane",
     [](LaneOptions& lane, const std::string& text) { lane.is_default = parse_switch(text); }},
};
const KeyRow<ClientOptions> kClientKeys[] = {
    {"weight", "its share of what the clients of a lane get, to that of others",
     [](ClientOptions& client, const std::string& text) {
       client.weight = static_cast<std::uint32_t>(parse_count(text, 1, ClientOptions::kWeightMax));
     }},
    {"in_flight_max", "jobs that may be at workers at once",
     [](ClientOptions& client, const std::string& text) {
       client.in_flight_max = static_cast<std::size_t>(parse_count(text, 1));
     }},
    {"depth_max", "jobs that may wait",
     [](ClientOptions& client, const std::string& text) {
       client.depth_max = static_cast<std::size_t>(parse_count(text, 1));
     }},
    {"lane_max", "the highest lane that it may use",
     [](ClientOptions& client, const std::string& text) { client.lane_max = text; }},
};
/// Part of the documented lane table that a later version enforces.
constexpr std::string_view kLaneKeysLater[] = {"durable"};

RateOptions& rate_of(std::vector<RateOptions>& rates, const core::RateKind& kind) {
  for (RateOptions& rate : rates)
    if (rate.name == kind.name) return rate;
  return rates.emplace_back(RateOptions{std::string(kind.name), 0, kind.period, 0, kind.resource});
}

/// `Limited` is a budget, or one of its keys.
template <class Limited>
void set_limit(Limited& limited, const std::string& key, const std::string& text) {
  if (key == "concurrency") {
    limited.concurrency = parse_count(text, 1);
  } else if (const core::RateKind* rate = core::rate_kind(key)) {
    rate_of(limited.rates, *rate).limit = parse_count(text, 1);
  } else {
    throw ConfigError("limit \"" + key +
                      "\" is not known; there are concurrency, and requests, tokens, input_tokens and "
                      "output_tokens each _per_second, _per_minute and _per_day");
  }
}

template <class Limited>
void set_capacity(Limited& limited, const std::string& key, const std::string& text) {
  const core::RateKind* rate = core::rate_kind(key);
  if (rate == nullptr)
    throw ConfigError("capacity \"" + key + "\" belongs to no limit; name one of those that are given");
  rate_of(limited.rates, *rate).capacity = parse_count(text, 1);
}

void set_window(BudgetOptions& budget, const std::string& text) {
  if (text == "sliding")
    budget.window = core::WindowKind::sliding;
  else if (text == "bucket")
    budget.window = core::WindowKind::bucket;
  else
    throw ConfigError("window \"" + text + "\" is not known; write sliding or bucket");
}

void set_output(BudgetOptions& budget, const std::string& text) {
  if (text == "used")
    budget.output = core::OutputCount::used;
  else if (text == "max_tokens")
    budget.output = core::OutputCount::bound;
  else
    throw ConfigError("output \"" + text + "\" is not known; write used or max_tokens");
}

/// Names, separated by commas.
void set_keys(BudgetOptions& budget, const std::string& text) {
  budget.keys.clear();
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    budget.keys.push_back({.name = text.substr(begin, end - begin)});
    begin = end + 1;
  }
}

void set_match(BudgetOptions& budget, const std::string& key, const std::string& text) {
  if (key == "service")
    budget.service = text;
  else if (key == "model")
    budget.model = text;
  else if (key == "client")
    budget.client = text;
  else if (key == "lane")
    budget.lane = text;
  else
    throw ConfigError("match \"" + key +
                      "\" is not known; this version matches service, model, client and lane");
}

// ---- saying what was meant ----------------------------------------------------------------------------

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

[[noreturn]] void unknown_key(const std::string& what, const std::string& key,
                              const std::vector<std::string>& known) {
  const auto nearest = std::min_element(known.begin(), known.end(), [&](const auto& a, const auto& b) {
    return edit_distance(a, key) < edit_distance(b, key);
  });
  std::string message = "unknown " + what + " \"" + key + "\"";
  if (nearest != known.end() && edit_distance(*nearest, key) <= 3)
    message += "; did you mean \"" + *nearest + "\"?";
  throw ConfigError(message);
}

void set_lane_key(LaneOptions& lane, const std::string& key, const std::string& text, Config& config) {
  for (const auto& row : kLaneKeys)
    if (row.key == key) return row.set(lane, text);
  if (std::find(std::begin(kLaneKeysLater), std::end(kLaneKeysLater), key) != std::end(kLaneKeysLater)) {
    config.without_effect.push_back("lane." + lane.name + "." + key);
    return;
  }
  std::vector<std::string> known{"name"};
  for (const auto& row : kLaneKeys)
    known.emplace_back(row.key);
  unknown_key("key of a lane", key, known);
}

void set_client_key(ClientOptions& client, const std::string& key, const std::string& text) {
  std::vector<std::string> known;
  for (const auto& row : kClientKeys) {
    if (row.key == key) return row.set(client, text);
    known.emplace_back(row.key);
  }
  unknown_key("key of a client", key, known);
}

ClientOptions& client_of(Config& config, const std::string& name) {
  for (ClientOptions& client : config.core.clients)
    if (client.name == name) return client;
  return config.core.clients.emplace_back(ClientOptions{.name = name});
}

/// `limits.requests_per_minute`, `capacity.requests_per_minute`, `match.service`, `window`; a bare limit's
/// name too.
void set_budget_key(BudgetOptions& budget, const std::string& key, const std::string& text) {
  const std::size_t dot = key.find('.');
  const std::string group = key.substr(0, dot);
  const std::string rest = dot == std::string::npos ? "" : key.substr(dot + 1);
  if (key == "window") return set_window(budget, text);
  if (key == "output") return set_output(budget, text);
  if (key == "keys") return set_keys(budget, text);
  if (key == "concurrency" || core::rate_kind(key) != nullptr) return set_limit(budget, key, text);
  if (group == "limits" && !rest.empty()) return set_limit(budget, rest, text);
  if (group == "capacity" && !rest.empty()) return set_capacity(budget, rest, text);
  if (group == "match" && !rest.empty()) return set_match(budget, rest, text);
  unknown_key("key of a budget", key, {"name", "window", "output", "match", "limits", "capacity", "keys"});
}

// ---- the file -----------------------------------------------------------------------------------------

std::string text_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* number = node.as_floating_point()) return std::to_string(number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  throw ConfigError("a text, a number, true or false is expected here");
}

/// Of a node of the file, or of what is wrong with the file.
template <class Sourced>
std::string place_of(const std::string& path, const Sourced& sourced) {
  const auto& place = sourced.source().begin;
  return path + ":" + std::to_string(place.line) + ":" + std::to_string(place.column);
}

/// Runs `read`, and puts the place in the file in front of what goes wrong.
void at_place(const std::string& path, const toml::node& node, const std::string& key,
              const std::function<void()>& read) {
  try {
    read();
  } catch (const ConfigError& error) {
    throw ConfigError(place_of(path, node) + ": " + key + ": " + error.what());
  }
}

const toml::table& table_of(const toml::node& node) {
  if (const auto* table = node.as_table()) return *table;
  throw ConfigError("a table is expected here");
}

template <class Entries>
void refuse_twice(const Entries& entries, const std::string& what, const std::string& name) {
  if (std::any_of(entries.begin(), entries.end(), [&](const auto& entry) { return entry.name == name; }))
    throw ConfigError(what + " \"" + name + "\" is there twice; each needs a name of its own");
}

std::string name_in(const toml::table& table, const char* what) {
  const auto* node = table.get("name");
  if (node == nullptr || !node->is_string() || node->as_string()->get().empty())
    throw ConfigError(std::string("a ") + what + " needs a name");
  return node->as_string()->get();
}

void read_lanes(const std::string& path, const toml::node& node, Config& config) {
  const auto* lanes = node.as_array();
  if (lanes == nullptr) throw ConfigError("lanes are written as [[lane]] blocks");
  config.core.lanes.clear();  // naming any lane replaces the default set
  for (const toml::node& entry : *lanes) {
    at_place(path, entry, "lane", [&] {
      const toml::table& table = table_of(entry);
      LaneOptions lane;
      lane.name = name_in(table, "lane");
      refuse_twice(config.core.lanes, "lane", lane.name);
      config.places["lane." + lane.name] = place_of(path, entry);
      for (const auto& [key, value] : table) {
        if (key == "name") continue;
        config.places["lane." + lane.name + "." + std::string(key.str())] = place_of(path, value);
        at_place(path, value, "lane." + lane.name + "." + std::string(key.str()),
                 [&, k = std::string(key.str()), &v = value] { set_lane_key(lane, k, text_of(v), config); });
      }
      config.core.lanes.push_back(lane);
    });
  }
}

void read_key(const std::string& path, const toml::table& table, KeyOptions& key, const std::string& prefix) {
  for (const auto& [name, value] : table) {
    const std::string k = prefix + std::string(name.str());
    at_place(path, value, "key " + key.name + " " + k, [&, &v = value] {
      if (k == "name") return;
      if (const auto* nested = v.as_table(); nested != nullptr && prefix.empty())
        return read_key(path, *nested, key, k + ".");
      if (k == "weight")
        key.weight = static_cast<std::uint32_t>(parse_count(text_of(v), 1, KeyOptions::kWeightMax));
      else if (k == "quota_group")
        key.quota_group = text_of(v);
      else if (k == "draining")
        key.draining = parse_switch(text_of(v));
      else if (k.starts_with("limits."))
        set_limit(key, k.substr(7), text_of(v));
      else if (k.starts_with("capacity."))
        set_capacity(key, k.substr(9), text_of(v));
      else
        unknown_key("key of an upstream's key", k,
                    {"name", "weight", "quota_group", "draining", "limits", "capacity"});
    });
  }
}

bool same_limits(const KeyOptions& a, const KeyOptions& b) {
  return a.concurrency == b.concurrency &&
         std::equal(a.rates.begin(), a.rates.end(), b.rates.begin(), b.rates.end(),
                    [](const RateOptions& x, const RateOptions& y) {
                      return x.name == y.name && x.limit == y.limit && x.capacity == y.capacity;
                    });
}

/// The limits of a group are said with one of its keys, and are those of all.
void share_limits_of_groups(std::vector<KeyOptions>& keys) {
  for (KeyOptions& key : keys) {
    if (key.quota_group.empty() || (key.rates.empty() && key.concurrency == 0)) continue;
    for (KeyOptions& other : keys) {
      if (other.quota_group != key.quota_group || same_limits(other, key)) continue;
      if (!other.rates.empty() || other.concurrency > 0)
        throw ConfigError("keys " + key.name + " and " + other.name + " are of quota_group \"" +
                          key.quota_group + "\" and say different limits; say them with one");
      other.rates = key.rates;
      other.concurrency = key.concurrency;
    }
  }
}

void read_keys(const std::string& path, const toml::array& keys, BudgetOptions& budget) {
  budget.keys.clear();
  for (const toml::node& entry : keys) {
    at_place(path, entry, "key", [&] {
      KeyOptions key;
      if (const auto* name = entry.as_string()) {
        key.name = name->get();
      } else {
        key.name = name_in(table_of(entry), "key");
        read_key(path, table_of(entry), key, "");
      }
      refuse_twice(budget.keys, "key", key.name);
      budget.keys.push_back(std::move(key));
    });
  }
  share_limits_of_groups(budget.keys);
}

void read_budget_table(const std::string& path, const toml::table& table, BudgetOptions& budget,
                       const std::string& prefix) {
  for (const auto& [key, value] : table) {
    if (prefix.empty() && key == "name") continue;
    const std::string name = prefix + std::string(key.str());
    at_place(path, value, "budget." + budget.name + "." + name, [&, &v = value] {
      if (const auto* nested = v.as_table()) return read_budget_table(path, *nested, budget, name + ".");
      if (const auto* list = v.as_array(); list != nullptr && name == "keys")
        return read_keys(path, *list, budget);
      set_budget_key(budget, name, text_of(v));
    });
  }
}

void read_budgets(const std::string& path, const toml::node& node, Config& config) {
  const auto* budgets = node.as_array();
  if (budgets == nullptr) throw ConfigError("budgets are written as [[budget]] blocks");
  for (const toml::node& entry : *budgets) {
    at_place(path, entry, "budget", [&] {
      const toml::table& table = table_of(entry);
      BudgetOptions budget;
      budget.name = name_in(table, "budget");
      refuse_twice(config.core.budgets, "budget", budget.name);
      config.places["budget." + budget.name] = place_of(path, entry);
      read_budget_table(path, table, budget, "");
      config.core.budgets.push_back(budget);
    });
  }
}

void read_clients(const std::string& path, const toml::node& node, Config& config) {
  const auto* clients = node.as_table();
  if (clients == nullptr) throw ConfigError("clients are written as [clients.NAME] tables");
  for (const auto& [name, entry] : *clients) {
    at_place(path, entry, "clients." + std::string(name.str()), [&, &n = name, &e = entry] {
      ClientOptions& client = client_of(config, std::string(n.str()));
      config.places["clients." + client.name] = place_of(path, e);
      for (const auto& [key, value] : table_of(e))
        at_place(path, value, std::string(key.str()),
                 [&, k = std::string(key.str()), &v = value] { set_client_key(client, k, text_of(v)); });
    });
  }
}

/// Short for an endpoint, as the flags say it. In a file `clients` may be a table as well.
constexpr std::pair<std::string_view, std::string_view> kShortKeys[] = {
    {"clients", "clients_endpoint"}, {"workers", "workers_endpoint"}, {"admin", "admin_endpoint"}};

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

template <class T>
void check_names(const std::vector<T>& entries, const std::string& what) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].name.empty() || entries[i].name.size() > limits::name_bytes_max)
      throw ConfigError("a " + what + " has no name, or one of more than 128 bytes");
    refuse_twice(std::span(entries).first(i), what, entries[i].name);
  }
}

void check_rates(const std::vector<RateOptions>& rates, core::WindowKind window, const std::string& where) {
  for (const RateOptions& rate : rates) {
    if (rate.limit == 0) throw ConfigError(where + " has a capacity for " + rate.name + " but no limit");
    if (rate.limit > 1'000'000'000) throw ConfigError(where + ": " + rate.name + " is over 1000000000");
    const std::int64_t most =
        window == core::WindowKind::sliding ? std::max<std::int64_t>(rate.limit / 2, 1) : rate.limit;
    if (rate.capacity > most)
      throw ConfigError(where + ": capacity of " + rate.name + " is " + std::to_string(rate.capacity) +
                        "; at most " + std::to_string(most) +
                        " here (half the limit where window = \"sliding\")");
  }
}

/// `limits = { ... }` and `capacity = { ... }`, as far as there are any.
std::vector<std::string> show_limits(const std::vector<RateOptions>& rates, std::int64_t concurrency) {
  std::string limit, capacity;
  const auto add = [](std::string& list, const std::string& name, std::int64_t value) {
    list += (list.empty() ? "" : ", ") + name + " = " + std::to_string(value);
  };
  for (const RateOptions& rate : rates) {
    add(limit, rate.name, rate.limit);
    if (rate.capacity > 0) add(capacity, rate.name, rate.capacity);
  }
  if (concurrency > 0) add(limit, "concurrency", concurrency);
  std::vector<std::string> parts;
  if (!limit.empty()) parts.push_back("limits = { " + limit + " }");
  if (!capacity.empty()) parts.push_back("capacity = { " + capacity + " }");
  return parts;
}

std::string show_key(const KeyOptions& key) {
  std::string text = "{ name = \"" + key.name + '"';
  if (key.weight != 1) text += ", weight = " + std::to_string(key.weight);
  if (!key.quota_group.empty()) text += ", quota_group = \"" + key.quota_group + '"';
  if (key.draining) text += ", draining = true";
  for (const std::string& part : show_limits(key.rates, key.concurrency))
    text += ", " + part;
  return text + " }";
}

}  // namespace

std::span<const OptionRow> option_table() {
  return kOptions;
}

void load_config_file(const std::string& path, Config& config) {
  toml::table file;
  try {
    file = toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    throw ConfigError(place_of(path, error) + ": " + std::string(error.description()));
  }
  for (const auto& [key, value] : file) {
    at_place(path, value, std::string(key.str()), [&, k = std::string(key.str()), &v = value] {
      if (k == "lane")
        read_lanes(path, v, config);
      else if (k == "budget")
        read_budgets(path, v, config);
      else if (k == "clients" && !v.is_string())
        read_clients(path, v, config);
      else
        set_option(k, text_of(v), config);
    });
  }
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
      if (lane.name == name) return set_lane_key(lane, rest, text, config);
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

void check_config(const Config& config) {
  const auto& lanes = config.core.lanes;
  // Where the file says it, if it does.
  const auto place = [&](const std::string& key) {
    const auto known = config.places.find(key);
    return known == config.places.end() ? std::string() : known->second + ": ";
  };
  check_names(lanes, "lane");
  check_names(config.core.budgets, "budget");
  check_names(config.core.clients, "client");
  for (const ClientOptions& client : config.core.clients) {
    const bool known = client.lane_max.empty() ||
                       std::any_of(lanes.begin(), lanes.end(),
                                   [&](const LaneOptions& lane) { return lane.name == client.lane_max; });
    if (!known)
      throw ConfigError(place("clients." + client.name) + "clients." + client.name +
                        ".lane_max: there is no lane \"" + client.lane_max + '"');
  }
  if (lanes.empty() || lanes.size() > core::kLanesMax)
    throw ConfigError("there are " + std::to_string(lanes.size()) + " lanes; there must be 1 to " +
                      std::to_string(core::kLanesMax));
  const auto defaults =
      std::count_if(lanes.begin(), lanes.end(), [](const LaneOptions& lane) { return lane.is_default; });
  if (defaults != 1)
    throw ConfigError("there are " + std::to_string(defaults) +
                      " default lanes; mark exactly one with default = true");
  int reserves = 0, shares = 0;
  for (const LaneOptions& lane : lanes) {
    if (lane.timeout.count() == 0)
      throw ConfigError(place("lane." + lane.name + ".timeout") + "lane." + lane.name +
                        ".timeout is 0; a job needs some time");
    reserves += lane.reserve;
    shares += lane.share_min;
    if (reserves > 1000)
      throw ConfigError(place("lane." + lane.name + ".reserve") + "lane." + lane.name +
                        ".reserve: the reserves of all lanes add up to more than 1");
    if (shares > 1000)
      throw ConfigError(place("lane." + lane.name + ".share_min") + "lane." + lane.name +
                        ".share_min: the shares of all lanes add up to more than 1");
  }
  for (const BudgetOptions& budget : config.core.budgets) {
    if (budget.rates.empty() && budget.concurrency == 0 && budget.keys.empty())
      throw ConfigError(place("budget." + budget.name) + "budget \"" + budget.name +
                        "\" has no limits; write limits = { requests_per_minute = 500 }");
    const std::string where = place("budget." + budget.name) + "budget \"" + budget.name + '"';
    check_rates(budget.rates, budget.window, where);
    if (budget.keys.size() > core::Budgets::kKeysMax)
      throw ConfigError(where + " has " + std::to_string(budget.keys.size()) + " keys; at most " +
                        std::to_string(core::Budgets::kKeysMax));
    check_names(budget.keys, where + ": key");
    for (const KeyOptions& key : budget.keys)
      check_rates(key.rates, budget.window, where + ": key \"" + key.name + '"');
  }
  if (config.core.jobs_max > 16'000'000) throw ConfigError("jobs_max is over 16000000");
  if (config.core.heartbeat < std::chrono::milliseconds(10)) throw ConfigError("heartbeat is under 10ms");
}

Config reloaded(const Config& running, const Config& wanted, std::vector<std::string>& cold) {
  Config config = running;
  for (const OptionRow& row : kOptions) {
    if (row.get(wanted) == row.get(running)) continue;
    if (row.key == "log_level")
      config.log_level = wanted.log_level;
    else
      cold.emplace_back(row.key);
  }
  const auto same_names = [](const auto& a, const auto& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const auto& x, const auto& y) { return x.name == y.name; });
  };
  if (same_names(running.core.lanes, wanted.core.lanes)) {
    for (std::size_t i = 0; i < running.core.lanes.size(); ++i) {
      const LaneOptions& before = running.core.lanes[i];
      LaneOptions& lane = config.core.lanes[i] = wanted.core.lanes[i];
      if (lane.reserved_slots != before.reserved_slots)
        cold.push_back("lane." + lane.name + ".reserved_slots");
      if (lane.is_default != before.is_default) cold.push_back("lane." + lane.name + ".default");
      lane.reserved_slots = before.reserved_slots;
      lane.is_default = before.is_default;
    }
  } else {
    cold.emplace_back("lane (their names and order)");
  }
  for (BudgetOptions& budget : config.core.budgets) {
    const auto place = std::find_if(wanted.core.budgets.begin(), wanted.core.budgets.end(),
                                    [&](const BudgetOptions& other) { return other.name == budget.name; });
    if (place == wanted.core.budgets.end()) {
      cold.push_back("budget." + budget.name + " (it is gone)");
      continue;
    }
    if (std::tie(budget.service, budget.model, budget.client, budget.lane) !=
        std::tie(place->service, place->model, place->client, place->lane))
      cold.push_back("budget." + budget.name + ".match");
    if (budget.window != place->window) cold.push_back("budget." + budget.name + ".window");
    if (budget.output != place->output) cold.push_back("budget." + budget.name + ".output");
    budget.rates = place->rates;
    budget.concurrency = place->concurrency;
    budget.keys = place->keys;
  }
  for (const BudgetOptions& budget : wanted.core.budgets)
    if (std::none_of(running.core.budgets.begin(), running.core.budgets.end(),
                     [&](const BudgetOptions& other) { return other.name == budget.name; }))
      cold.push_back("budget." + budget.name + " (it is new)");
  config.core.clients = wanted.core.clients;
  return config;
}

namespace {

void edit_lane(Config& config, LaneOptions& lane, const std::string& setting, const std::string& text) {
  const LaneOptions before = lane;
  set_lane_key(lane, setting, text, config);
  if (!config.without_effect.empty()) throw ConfigError("understood, but without effect in this version");
  if (lane.reserved_slots != before.reserved_slots || lane.is_default != before.is_default)
    throw ConfigError("needs a restart; change it in the file");
}

/// `requests_per_minute`, `concurrency` or `capacity.requests_per_minute`, of a budget or one of its keys.
template <class Limited>
void edit_limit(Limited& limited, const std::string& setting, const std::string& text) {
  constexpr std::string_view kCapacity = "capacity.";
  if (setting.starts_with(kCapacity)) return set_capacity(limited, setting.substr(kCapacity.size()), text);
  set_limit(limited, setting, text);
}

/// The limits of a key are those of its whole group.
void edit_key(BudgetOptions& budget, const std::string& name, const std::string& setting,
              const std::string& text) {
  const auto key = std::find_if(budget.keys.begin(), budget.keys.end(),
                                [&](const KeyOptions& other) { return other.name == name; });
  if (key == budget.keys.end())
    throw ConfigError("the budget has no key of that name; lanemq limits shows them");
  for (KeyOptions& other : budget.keys)
    if (&other == &*key || (!key->quota_group.empty() && other.quota_group == key->quota_group))
      edit_limit(other, setting, text);
}

}  // namespace

Result<core::Options> edited(const core::Options& running, const core::OptionEdit& edit) {
  const std::string name(edit.name), key(edit.key), setting(edit.setting), text(edit.value);
  const bool of_lane = edit.of == core::OptionEdit::Of::lane;
  std::string what = (of_lane ? "lane " : "budget ") + name;
  if (!key.empty()) what += " key " + key;
  try {
    Config config;
    config.core = running;
    if (of_lane) {
      for (LaneOptions& lane : config.core.lanes)
        if (lane.name == name) edit_lane(config, lane, setting, text);
    } else {
      for (BudgetOptions& budget : config.core.budgets)
        if (budget.name == name)
          key.empty() ? edit_limit(budget, setting, text) : edit_key(budget, key, setting, text);
    }
    check_config(config);
    return config.core;
  } catch (const ConfigError& error) {
    return failure(ErrorCode::bad_request, what + " " + setting + ": " + error.what());
  }
}

std::string print_config(const Config& config) {
  std::string out = "# LaneMQ broker. Every key is optional; durations and sizes carry their unit.\n";
  for (const OptionRow& row : kOptions) {
    const bool bare = row.unit == "count" || row.unit == "switch";
    const std::string value = row.get(config);
    out += "\n# " + std::string(row.sentence) + "\n" + std::string(row.key) + " = " +
           (bare ? value : '"' + value + '"') + "\n";
  }
  out += "\n# Lanes, highest first. Naming any lane replaces the whole set.\n";
  for (const LaneOptions& lane : config.core.lanes) {
    out += "\n[[lane]]\nname = \"" + lane.name + "\"\ntimeout = \"" + show(lane.timeout) +
           "\"\ndepth_max = " + std::to_string(lane.depth_max) + "\n";
    if (lane.bytes_max > 0) out += "bytes_max = \"" + show_size(lane.bytes_max) + "\"\n";
    if (lane.reserved_slots > 0) out += "reserved_slots = " + std::to_string(lane.reserved_slots) + "\n";
    if (lane.reserve > 0) out += "reserve = " + show_share(lane.reserve) + "\n";
    if (lane.share_min > 0) out += "share_min = " + show_share(lane.share_min) + "\n";
    if (lane.boost_after.count() > 0) out += "boost_after = \"" + show(lane.boost_after) + "\"\n";
    if (lane.is_default) out += "default = true\n";
  }
  if (config.core.clients.empty())
    out +=
        "\n# Whom jobs are for, by name or glob:\n# [clients.\"team-a*\"]\n# weight = 4\n# in_flight_max = "
        "20\n"
        "# depth_max = 1000\n# lane_max = \"normal\"\n";
  for (const ClientOptions& client : config.core.clients) {
    out += "\n[clients.\"" + client.name + "\"]\nweight = " + std::to_string(client.weight) + "\n";
    if (client.in_flight_max > 0) out += "in_flight_max = " + std::to_string(client.in_flight_max) + "\n";
    if (client.depth_max > 0) out += "depth_max = " + std::to_string(client.depth_max) + "\n";
    if (!client.lane_max.empty()) out += "lane_max = \"" + client.lane_max + "\"\n";
  }
  if (config.core.budgets.empty())
    out +=
        "\n# What an upstream allows, shared by all workers:\n# [[budget]]\n# name = \"openai\"\n# match = { "
        "service = \"openai\" }\n"
        "# limits = { requests_per_minute = 500, tokens_per_minute = 30000, concurrency = 40 }\n# window = "
        "\"sliding\"   # or "
        "\"bucket\"\n";
  for (const BudgetOptions& budget : config.core.budgets) {
    out += "\n[[budget]]\nname = \"" + budget.name + "\"\n";
    std::string match;
    const std::pair<const char*, const std::string*> patterns[] = {{"service", &budget.service},
                                                                   {"model", &budget.model},
                                                                   {"client", &budget.client},
                                                                   {"lane", &budget.lane}};
    for (const auto& [key, value] : patterns)
      if (!value->empty()) match += (match.empty() ? "" : ", ") + std::string(key) + " = \"" + *value + "\"";
    if (!match.empty()) out += "match = { " + match + " }\n";
    for (const std::string& part : show_limits(budget.rates, budget.concurrency))
      out += part + "\n";
    if (!budget.keys.empty()) {
      out += "keys = [\n";
      for (const KeyOptions& key : budget.keys)
        out += "  " + show_key(key) + ",\n";
      out += "]\n";
    }
    if (budget.output == core::OutputCount::bound) out += "output = \"max_tokens\"\n";
    out += std::string("window = \"") + (budget.window == core::WindowKind::sliding ? "sliding" : "bucket") +
           "\"\n";
  }
  return out;
}

}  // namespace lanemq
