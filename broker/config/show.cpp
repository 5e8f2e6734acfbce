// SPDX-License-Identifier: Apache-2.0
// The configuration as rows, for operators.
#include <utility>

#include "broker/config/settings.hpp"
#include "common/settings/option_reader.hpp"

namespace lanemq {
namespace config {
namespace {

using core::BudgetOptions;
using core::ClientOptions;
using core::KeyOptions;
using core::LaneOptions;

/// Collects rows. What an operator has changed shows in the difference to what was configured.
class Rows {
 public:
  explicit Rows(const settings::Heard& heard) : heard_(heard) {}

  /// `of`: the thing's name in Heard; empty for the options beside things.
  template <class Thing>
  void add(const std::string& prefix, const std::string& of, const settings::Options<Thing>& table,
           const Thing& configured, const Thing& running) {
    const Thing defaults{};
    for (const settings::Option<Thing>& option : table) {
      const std::string key = prefix + std::string(option.key);
      const settings::Values values = option.get(running);
      add_value(key, settings::joined(values), values != option.get(configured),
                place_of(key, of, values == option.get(defaults)));
    }
  }

  template <class Limited>
  void add_limits(const std::string& prefix, const std::string& of, const Limited& configured,
                  const Limited& running) {
    for (const core::RateOptions& rate : running.rates) {
      std::int64_t before = 0;
      for (const core::RateOptions& one : configured.rates)
        if (one.name == rate.name) before = one.limit;
      add_value(prefix + "limits." + rate.name, std::to_string(rate.limit), rate.limit != before,
                place_of("", of, false));
      if (rate.capacity > 0)
        add_value(prefix + "capacity." + rate.name, std::to_string(rate.capacity), false,
                  place_of("", of, false));
    }
    if (running.concurrency > 0)
      add_value(prefix + "limits.concurrency", std::to_string(running.concurrency),
                running.concurrency != configured.concurrency, place_of("", of, false));
  }

  std::vector<io::ShownOption> take() { return std::move(rows_); }

 private:
  void add_value(std::string key, std::string value, bool changed, std::string place) {
    value = settings::without_url_secrets(value);
    rows_.push_back({std::move(key), std::move(value), changed ? "operator" : std::move(place)});
  }

  /// Where the option was set, or the thing that it is of. What nobody has set is a default, also where that
  /// is chosen at the start, or differs from lane to lane.
  std::string place_of(const std::string& key, const std::string& of, bool is_default) const {
    if (const auto at = heard_.places.find(key); at != heard_.places.end()) return at->second;
    if (const auto at = heard_.places.find(of); !is_default && at != heard_.places.end()) return at->second;
    return "default";
  }

  const settings::Heard& heard_;
  std::vector<io::ShownOption> rows_;
};

/// The thing of that name; the other one where there is none.
template <class Things>
const typename Things::value_type& named(const Things& things, const std::string& name,
                                         const typename Things::value_type& otherwise) {
  for (const auto& thing : things)
    if (thing.name == name) return thing;
  return otherwise;
}

void add_budget(Rows& rows, const BudgetOptions& configured, const BudgetOptions& budget) {
  const std::string of = "budget." + budget.name, prefix = of + ".";
  rows.add(prefix, of, budget_table(), configured, budget);
  rows.add_limits(prefix, of, configured, budget);
  for (const KeyOptions& key : budget.keys) {
    const KeyOptions& before = named(configured.keys, key.name, key);
    rows.add(prefix + "keys." + key.name + ".", of, key_table(), before, key);
    rows.add_limits(prefix + "keys." + key.name + ".", of, before, key);
  }
}

}  // namespace
}  // namespace config

using namespace config;

std::vector<io::ShownOption> shown_config(const Config& config, const core::Options& running) {
  Rows rows(config.heard);
  rows.add("", "", option_table(), config, config);
  for (const LaneOptions& lane : running.lanes)
    rows.add("lane." + lane.name + ".", "lane." + lane.name, lane_table(),
             named(config.core.lanes, lane.name, lane), lane);
  for (const BudgetOptions& budget : running.budgets)
    add_budget(rows, named(config.core.budgets, budget.name, budget), budget);
  for (const ClientOptions& client : running.clients)
    rows.add("clients." + client.name + ".", "clients." + client.name, client_table(), client, client);
  for (const core::ShardOptions& shard : config.core.shards)
    rows.add("shard." + shard.name + ".", "shard." + shard.name, shard_table(), shard, shard);
  for (const io::PluginOptions& plugin : config.server.plugins)
    rows.add("plugin." + plugin.name + ".", "plugin." + plugin.name, plugin_table(), plugin, plugin);
  for (const admin::HttpKey& key : config.http.keys) {
    admin::HttpKey shown = key;
    if (!key.secret.empty()) shown.sha256.clear();  // it was made of the secret, and nobody has said it
    rows.add("http_key." + key.name + ".", "http_key." + key.name, http_key_table(), shown, shown);
  }
  return rows.take();
}

}  // namespace lanemq
