// SPDX-License-Identifier: Apache-2.0
#include "broker/config/settings.hpp"

#include <numeric>
#include <string_view>

#include "broker/config/values.hpp"

namespace lanemq::config {

using core::BudgetOptions;
using core::ClientOptions;
using core::LaneOptions;
using core::RateOptions;

namespace {

/// One key of a lane or a budget, by the same idea.
template <class T>
struct KeyRow {
  std::string_view key;
  std::string_view sentence;
  void (*set)(T&, const std::string& text);
};

const KeyRow<LaneOptions> kLaneKeys[] = {
    {"timeout",
     "how long a job may take, queueing included; a stream until its first piece, then between two",
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
    {"durable", "its jobs outlive the broker, where the store does",
     [](LaneOptions& lane, const std::string& text) { lane.durable = parse_switch(text); }},
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
    {"tenant", "whose it is, for budgets of several clients together",
     [](ClientOptions& client, const std::string& text) { client.tenant = text; }},
};

RateOptions& rate_of(std::vector<RateOptions>& rates, const core::RateKind& kind) {
  for (RateOptions& rate : rates)
    if (rate.name == kind.name) return rate;
  return rates.emplace_back(RateOptions{std::string(kind.name), 0, kind.period, 0, kind.resource});
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
  else if (key == "tenant")
    budget.tenant = text;
  else
    throw ConfigError("match \"" + key +
                      "\" is not known; there are service, model, client, tenant and lane");
}

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

}  // namespace

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

template void set_limit(core::BudgetOptions&, const std::string&, const std::string&);
template void set_limit(core::KeyOptions&, const std::string&, const std::string&);
template void set_capacity(core::BudgetOptions&, const std::string&, const std::string&);
template void set_capacity(core::KeyOptions&, const std::string&, const std::string&);

void unknown_key(const std::string& what, const std::string& key, const std::vector<std::string>& known) {
  const auto nearest = std::min_element(known.begin(), known.end(), [&](const auto& a, const auto& b) {
    return edit_distance(a, key) < edit_distance(b, key);
  });
  std::string message = "unknown " + what + " \"" + key + "\"";
  if (nearest != known.end() && edit_distance(*nearest, key) <= 3)
    message += "; did you mean \"" + *nearest + "\"?";
  throw ConfigError(message);
}

void set_lane_key(LaneOptions& lane, const std::string& key, const std::string& text) {
  for (const auto& row : kLaneKeys)
    if (row.key == key) return row.set(lane, text);
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

}  // namespace lanemq::config
