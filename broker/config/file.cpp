// SPDX-License-Identifier: Apache-2.0
// The configuration file.
#include <algorithm>
#include <functional>

#include <toml++/toml.h>

#include "broker/config/settings.hpp"
#include "broker/config/values.hpp"

namespace lanemq {
namespace config {
namespace {

using core::BudgetOptions;
using core::ClientOptions;
using core::KeyOptions;
using core::LaneOptions;
using core::RateOptions;

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
                 [&, k = std::string(key.str()), &v = value] { set_lane_key(lane, k, text_of(v)); });
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

/// `store = "sqlite:PATH"` in other words.
void read_store(const std::string& path, const toml::table& table, Config& config) {
  std::string kind, file;
  for (const auto& [key, value] : table) {
    at_place(path, value, "store." + std::string(key.str()), [&, k = std::string(key.str()), &v = value] {
      if (k == "kind")
        kind = text_of(v);
      else if (k == "path")
        file = text_of(v);
      else if (k == "reserve")
        set_option("store_reserve", text_of(v), config);
      else
        unknown_key("key of the store", k, {"kind", "path", "reserve"});
    });
  }
  if (kind.empty() && !file.empty()) kind = "sqlite";
  if ((kind == "sqlite") != !file.empty() || (!kind.empty() && kind != "sqlite" && kind != "memory"))
    throw ConfigError("a store is kind = \"sqlite\" with a path, or kind = \"memory\" without one");
  if (!kind.empty()) config.store = kind == "memory" ? kind : "sqlite:" + file;
}

}  // namespace
}  // namespace config

using namespace config;

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
      else if (k == "store" && v.is_table())
        read_store(path, *v.as_table(), config);
      else if (k == "clients" && !v.is_string())
        read_clients(path, v, config);
      else
        set_option(k, text_of(v), config);
    });
  }
}

}  // namespace lanemq
