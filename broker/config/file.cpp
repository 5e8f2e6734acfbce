// SPDX-License-Identifier: Apache-2.0
// The configuration file.
#include <algorithm>
#include <functional>

#include <toml++/toml.h>

#include "broker/config/settings.hpp"
#include "common/http/server/access/caller_key.hpp"
#include "common/http/server/access/secret.hpp"
#include "common/settings/option_reader.hpp"
#include "common/settings/secrets/exposed_files.hpp"

namespace lanemq {
namespace config {
namespace {

using core::BudgetOptions;
using core::ClientOptions;
using core::KeyOptions;
using core::LaneOptions;
using core::RateOptions;
using settings::at_place;
using settings::Heard;
using settings::list_in;
using settings::place_of;
using settings::scalar;
using settings::table_in;

std::string name_in(const toml::table& table, const char* what) {
  const auto* node = table.get("name");
  if (node == nullptr || !node->is_string() || node->as_string()->get().empty())
    throw ConfigError(std::string("a ") + what + " needs a name");
  return node->as_string()->get();
}

constexpr std::string_view kLaneOrLanes =
    "changes one of the lanes that are there, and [[lane]] replaces them all; write one of both";

std::vector<std::string> names_of(const std::vector<LaneOptions>& lanes) {
  std::vector<std::string> names;
  for (const LaneOptions& lane : lanes)
    names.push_back(lane.name);
  return names;
}

void read_lane(const std::string& path, const toml::table& table, bool in_list, LaneOptions& lane,
               Heard& heard) {
  const std::string place = place_of(path, table.source());
  heard.places["lane." + lane.name] = place;
  const auto is_name = [&](std::string_view key, const toml::node& node) {
    // After [[lane]], TOML reads a [lane.NAME] as a table in that lane.
    if (in_list && node.is_table())
      at_place(place_of(path, node.source()) + ": lane",
               [&] { throw ConfigError("[lane." + printable(key, 64) + "] " + std::string(kLaneOrLanes)); });
    return key == "name";
  };
  read_table(path, table, "lane." + lane.name + ".", bound(lane_table(), lane), {"name"}, is_name, heard);
}

/// [lane.NAME]: what is said of a lane that is there.
void change_lanes(const std::string& path, const toml::table& lanes, Config& config, Heard& heard) {
  for (const auto& [key, node] : lanes) {
    const std::string name(key.str());
    at_place(place_of(path, node.source()) + ": lane", [&, &entry = node] {
      const auto lane = std::find_if(config.core.lanes.begin(), config.core.lanes.end(),
                                     [&](const LaneOptions& one) { return one.name == name; });
      if (lane == config.core.lanes.end()) settings::unknown_key("lane", name, names_of(config.core.lanes));
      const toml::table& said = table_in(entry, "[lane." + name + "]");
      if (said.contains("name")) throw ConfigError("[lane." + name + "] has its name already; take name out");
      read_lane(path, said, false, *lane, heard);
    });
  }
}

void read_lanes(const std::string& path, const toml::node& node, Config& config, Heard& heard) {
  if (const toml::table* const changed = node.as_table()) return change_lanes(path, *changed, config, heard);
  const std::string place = place_of(path, node.source());
  config.core.lanes.clear();
  heard.places["lane"] = place;
  at_place(place + ": lane", [&] {
    for (const toml::node& entry : list_in(node, "[[lane]] or [lane.NAME]")) {
      LaneOptions lane;
      at_place(place_of(path, entry.source()) + ": lane", [&] {
        lane.name = name_in(table_in(entry, "[[lane]]"), "lane");
        refuse_twice(config.core.lanes, "lane", lane.name);
      });
      read_lane(path, *entry.as_table(), true, lane, heard);
      config.core.lanes.push_back(lane);
    }
  });
}

/// Calls `set` with each key of a budget, or of one of its keys; those of nested tables are `limits.NAME`.
/// `what` names the table in messages.
void read_limited(const std::string& path, const toml::table& table, const std::string& what,
                  const std::string& prefix,
                  const std::function<void(const std::string& key, const toml::node& node)>& set) {
  for (const auto& [key, value] : table) {
    const std::string name = prefix + std::string(key.str());
    if (name == "name") continue;
    if (const auto* nested = value.as_table())
      read_limited(path, *nested, what, name + ".", set);
    else
      at_place(place_of(path, value.source()) + ": " + what + "." + name,
               [&, &node = value] { set(name, node); });
  }
}

bool same_limits(const KeyOptions& a, const KeyOptions& b) {
  return a.concurrency == b.concurrency &&
         std::equal(a.rates.begin(), a.rates.end(), b.rates.begin(), b.rates.end(),
                    [](const RateOptions& x, const RateOptions& y) {
                      return x.name == y.name && x.limit == y.limit && x.capacity == y.capacity;
                    });
}

/// Keys of one account share limits: those that one key states go to all.
void share_limits_of_accounts(std::vector<KeyOptions>& keys) {
  for (KeyOptions& key : keys) {
    if (key.rates.empty() && key.concurrency == 0) continue;
    for (KeyOptions& other : keys) {
      if (other.account() != key.account() || same_limits(other, key)) continue;
      if (other.name == key.name) continue;  // refused with all names that are there twice
      if (!other.rates.empty() || other.concurrency > 0)
        throw ConfigError("keys " + key.name + " and " + other.name + " are of quota_group \"" +
                          key.account() + "\" and say different limits; say them with one");
      other.rates = key.rates;
      other.concurrency = key.concurrency;
    }
  }
}

void read_keys(const std::string& path, const toml::array& keys, BudgetOptions& budget) {
  budget.keys.clear();
  for (const toml::node& entry : keys) {
    at_place(place_of(path, entry.source()) + ": key", [&] {
      KeyOptions key;
      if (const auto* name = entry.as_string()) {
        key.name = name->get();
      } else {
        const toml::table& table = table_in(entry, "{ name = \"k1\", weight = 2 }");
        key.name = name_in(table, "key");
        read_limited(
            path, table, "key " + key.name, "",
            [&](const std::string& said, const toml::node& node) { set_key_key(key, said, scalar(node)); });
      }
      refuse_twice(budget.keys, "key", key.name);
      budget.keys.push_back(std::move(key));
    });
  }
  share_limits_of_accounts(budget.keys);
}

void read_budgets(const std::string& path, const toml::node& node, Config& config, Heard& heard) {
  at_place(place_of(path, node.source()) + ": budget", [&] {
    for (const toml::node& entry : list_in(node, "[[budget]]")) {
      const std::string place = place_of(path, entry.source());
      at_place(place + ": budget", [&] {
        const toml::table& table = table_in(entry, "[[budget]]");
        BudgetOptions budget;
        budget.name = name_in(table, "budget");
        refuse_twice(config.core.budgets, "budget", budget.name);
        heard.places["budget." + budget.name] = place;
        read_limited(path, table, "budget." + budget.name, "",
                     [&](const std::string& name, const toml::node& value) {
                       if (const auto* list = value.as_array(); list != nullptr && name == "keys")
                         return read_keys(path, *list, budget);
                       set_budget_key(budget, name, scalar(value));
                     });
        config.core.budgets.push_back(budget);
      });
    }
  });
}

void read_clients(const std::string& path, const toml::node& node, Config& config, Heard& heard) {
  at_place(place_of(path, node.source()) + ": clients", [&] {
    for (const auto& [name, entry] : table_in(node, "[clients.NAME]")) {
      const std::string place = place_of(path, entry.source()), prefix = "clients." + std::string(name.str());
      at_place(place + ": " + prefix, [&, &e = entry] { static_cast<void>(table_in(e, "[clients.NAME]")); });
      heard.places[prefix] = place;
      read_table(path, *entry.as_table(), prefix + ".",
                 bound(client_table(), client_of(config, std::string(name.str()))), heard);
    }
  });
}

/// The rows of `match.NAME`, as they are called in the table `match`.
std::vector<settings::BoundOption> in_match(std::vector<settings::BoundOption> rows) {
  constexpr std::string_view kMatch = "match.";
  std::erase_if(rows, [&](const auto& row) { return !row.key.starts_with(kMatch); });
  for (auto& row : rows)
    row.key.remove_prefix(kMatch.size());
  return rows;
}

void read_shards(const std::string& path, const toml::node& node, Config& config, Heard& heard) {
  at_place(place_of(path, node.source()) + ": shard", [&] {
    for (const toml::node& entry : list_in(node, "[[shard]]")) {
      const std::string place = place_of(path, entry.source());
      at_place(place + ": shard", [&] {
        const toml::table& table = table_in(entry, "[[shard]]");
        settings::refuse_empty(path, table);
        core::ShardOptions shard{.name = name_in(table, "shard")};
        refuse_twice(config.core.shards, "shard", shard.name);
        const std::string prefix = "shard." + shard.name + ".";
        const auto rows = bound(shard_table(), shard);
        const auto read_own = [&](std::string_view key, const toml::node& value) {
          if (key == "match")
            read_table(path, table_in(value, "match = { tenant = \"acme*\" }"), prefix + "match.",
                       in_match(rows), heard);
          return key == "name" || key == "match";
        };
        read_table(path, table, prefix, rows, {"name", "match"}, read_own, heard);
        heard.places["shard." + shard.name] = place;
        config.core.shards.push_back(std::move(shard));
      });
    }
  });
}

void read_plugins(const std::string& path, const toml::node& node, Config& config, Heard& heard) {
  at_place(place_of(path, node.source()) + ": plugin", [&] {
    for (const toml::node& entry : list_in(node, "[[plugin]]")) {
      const std::string place = place_of(path, entry.source());
      at_place(place + ": plugin", [&] {
        io::PluginOptions plugin;
        const auto read_own = [&](std::string_view key, const toml::node& value) {
          if (key == "settings")
            plugin.settings = settings::flat_table(path, table_in(value, "[plugin.settings]"));
          return key == "settings";
        };
        read_table(path, table_in(entry, "[[plugin]] with name and file"), "plugin.",
                   bound(plugin_table(), plugin), {"settings"}, read_own, heard);
        if (plugin.name.empty() || plugin.file.empty()) throw ConfigError("a plugin needs name and file");
        refuse_twice(config.server.plugins, "plugin", plugin.name);
        heard.places["plugin." + plugin.name] = place;
        config.server.plugins.push_back(std::move(plugin));
      });
    }
  });
}

void read_http_keys(const std::string& path, const toml::node& node, Config& config, Heard& heard) {
  at_place(place_of(path, node.source()) + ": http_key", [&] {
    for (const toml::node& entry : list_in(node, "[[http_key]]")) {
      const std::string place = place_of(path, entry.source());
      at_place(place + ": http_key", [&] {
        admin::HttpKey key;
        const toml::table& table = table_in(entry, "[[http_key]]");
        settings::refuse_empty(path, table);
        read_table(path, table, "http_key.", bound(http_key_table(), key), heard);
        if (key.name.empty()) throw ConfigError("it needs a name");
        refuse_twice(config.http.keys, "http_key", key.name);
        if (config.http.keys.size() >= admin::HttpKey::kKeysMax)
          throw ConfigError("there may be " + std::to_string(admin::HttpKey::kKeysMax) + " of them");
        heard.places["http_key." + key.name] = place;
        config.http.keys.push_back(std::move(key));
      });
    }
  });
}

/// [store] is another spelling of `store = "sqlite:PATH"`.
struct StoreTable {
  std::string kind{}, path{};
};

const settings::Options<StoreTable>& store_table() {
  using settings::rows::text;
  static const settings::Options<StoreTable> kTable{
      text("kind", "sqlite|memory", "What it is.", &StoreTable::kind),
      text("path", "path", "The file of sqlite.", &StoreTable::path)};
  return kTable;
}

void read_store(const std::string& path, const toml::table& table, Config& config, Heard& heard) {
  StoreTable said;
  const auto read_reserve = [&](std::string_view key, const toml::node& node) {
    if (key != "reserve") return false;
    const std::string place = place_of(path, node.source());
    std::string text;
    at_place(place + ": store.reserve", [&] { text = scalar(node); });
    set_key(bound(option_table(), config), place, "", "store_reserve", text, heard);
    return true;
  };
  read_table(path, table, "store.", bound(store_table(), said), {"reserve"}, read_reserve, heard);
  std::string& kind = said.kind;
  if (kind.empty() && !said.path.empty()) kind = "sqlite";
  at_place(place_of(path, table.source()) + ": store", [&] {
    if ((kind == "sqlite") != !said.path.empty() || (!kind.empty() && kind != "sqlite" && kind != "memory"))
      throw ConfigError("a store is kind = \"sqlite\" with a path, or kind = \"memory\" without one");
  });
  if (!kind.empty()) config.store = kind == "memory" ? kind : "sqlite:" + said.path;
}

/// Reads a lane, a budget, a client or [store]; false for any other key.
bool read_node(const std::string& path, std::string_view key, const toml::node& node, Config& config,
               Heard& heard) {
  if (key == "lane")
    read_lanes(path, node, config, heard);
  else if (key == "budget")
    read_budgets(path, node, config, heard);
  else if (key == "plugin")
    read_plugins(path, node, config, heard);
  else if (key == "http_key")
    read_http_keys(path, node, config, heard);
  else if (key == "shard" && !node.is_string())
    read_shards(path, node, config, heard);
  else if (key == "store" && node.is_table())
    read_store(path, *node.as_table(), config, heard);
  else if (key == "clients" && !node.is_string())
    read_clients(path, node, config, heard);
  else
    return false;
  return true;
}

settings::ProgramText program() {
  return {
      .name = "lanemq-broker",
      .variables = "LANEMQ_",
      .sentence = "Queues AI jobs in priority lanes and hands them to workers under one shared quota.",
      .config_sentence = "Read options, lanes, budgets and clients from this file.",
      .footer =
          "Exit codes: 0 done, 2 usage or configuration, 3 cannot bind, 4 the store cannot be used,\n"
          "74 the store has failed, 75 another broker has taken it over, or is to.\n"
          "SIGHUP reads the configuration again: lanes' bounds and guards, limits and keys of budgets, "
          "clients.\n"
          "SIGTERM drains: queued jobs are handed back, running ones may finish within drain_timeout.",
      .blocks = {"lane", "budget", "clients", "plugin", "http_key", "shard"},
      .flags =
          {{"--set", "KEY=VALUE",
            "Set one key: drain_timeout=5s, lane.batch.depth_max=2000000, "
            "budget.api.requests_per_minute=500; may be repeated, and wins over the other flags."},
           {"--make-http-key", "",
            "Print an [[http_key]] for the file of --config, and its new secret to the standard error, "
            "and end."},
           {"--check-store", "", "Read the store from end to end, say what it holds, and exit."},
           {"--copy-store", "STORE",
            "Copy the store to this one, sqlite:PATH or postgres:CONNINFO, which must hold nothing, and "
            "exit."},
           {"--move", "WHAT",
            "Move the jobs, results and groups of tenant=NAME or service=NAME, with * and ?, to the store "
            "of --to, and exit; no broker may serve either store."},
           {"--to", "STORE", "Where --move moves to: sqlite:PATH or postgres:CONNINFO."},
           {"--to-schema", "SCHEMA", "Its store_schema, where it is another one."},
           {"--fence", "",
            "Let no broker from before commit to the store in PostgreSQL any more, say what its epoch "
            "was and "
            "is, and exit: after a restore of the database, before a broker starts."}},
      // Those of lanemq, and of examples.
      .foreign = {"LANEMQ_BROKER", "LANEMQ_BROKER_KEY", "LANEMQ_CLIENT", "LANEMQ_CLIENT_KEY", "LANEMQ_ADMIN",
                  "LANEMQ_CLUSTER_HTTP", "LANEMQ_CONNECT_TIMEOUT", "LANEMQ_CONNECT_TIMEOUT_MS",
                  "LANEMQ_PUBLIC_KEY"}};
}

settings::OptionReader::ReadFileNode reader_of(Config& config) {
  return [&config](const std::string& path, std::string_view key, const toml::node& node, Heard& heard) {
    return read_node(path, key, node, config, heard);
  };
}

}  // namespace
}  // namespace config

using namespace config;

void load_config_file(const std::string& path, Config& config) {
  settings::OptionReader(program(), bound(option_table(), config))
      .read_file(path, reader_of(config), config.heard);
}

settings::Asked read_config(int argc, const char* const* argv, const settings::Environment& environment,
                            Config& config) {
  using settings::Asked;
  Asked asked = settings::OptionReader(program(), bound(option_table(), config))
                    .read(argc, argv, environment, reader_of(config));
  if (settings::is_everybodys(asked.file))
    throw ConfigError(printable(asked.file) +
                      " may be written by everybody on this machine, who could open this broker to himself; "
                      "chmod o-w it");
  config.heard = std::move(asked.heard);
  if (asked.flags.contains("--make-http-key")) {
    asked.what = Asked::For::print;
    const std::string secret = http::fresh_secret();
    asked.text = http::new_key_table("http_key", secret, "role = \"viewer\"   # or \"operator\"\n");
    asked.aside = "the secret, for its holder; it is shown this once: " + secret + "\n";
  }
  if (asked.what == Asked::For::print) return asked;
  if (const auto assignments = asked.flags.find("--set"); assignments != asked.flags.end())
    for (const std::string& assignment : assignments->second)
      set_config(assignment, config);
  share_budgets(config);
  check_config(config);
  name_schema(config);
  if (asked.what == Asked::For::print_config) asked.text = print_config(config);
  return asked;
}

}  // namespace lanemq
