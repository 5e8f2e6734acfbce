// SPDX-License-Identifier: Apache-2.0
// The configuration as a file.
#include "broker/config/settings.hpp"
#include "common/settings/option_reader.hpp"
#include "common/settings/secrets/secret_shapes.hpp"

namespace lanemq {
namespace config {
namespace {

using core::BudgetOptions;
using core::ClientOptions;
using core::KeyOptions;
using core::LaneOptions;
using core::RateOptions;
using settings::print_table;
using settings::toml_text;

/// `limits = { ... }` and `capacity = { ... }`; nothing where there are none.
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
  std::string text = "{ name = " + toml_text(key.name);
  if (key.weight != 1) text += ", weight = " + std::to_string(key.weight);
  if (!key.quota_group.empty()) text += ", quota_group = " + toml_text(key.quota_group);
  if (key.draining) text += ", draining = true";
  for (const std::string& part : show_limits(key.rates, key.concurrency))
    text += ", " + part;
  return text + " }";
}

}  // namespace
}  // namespace config

using namespace config;

std::string print_config(const Config& config) {
  std::string out =
      "# LaneMQ broker. Every key is optional; durations and sizes carry their unit.\n# Of a table, what "
      "stands behind # is not set: its default, with 0 and \"\" for none.\n";
  Config shown = config;
  shown.store = settings::without_passwords(config.store);  // a start refuses one that has any
  out += settings::print_options(bound(option_table(), shown));
  out += "\n# Lanes, highest first. Naming any lane replaces the whole set.\n";
  for (const LaneOptions& lane : config.core.lanes)
    out += "\n[[lane]]\nname = " + toml_text(lane.name) + "\n" + print_table(lane_table(), lane);
  if (config.core.clients.empty())
    out +=
        "\n# Whom jobs are for, by name or glob:\n# [clients.\"team-a*\"]\n# weight = 1\n# in_flight_max = "
        "0\n"
        "# depth_max = 0\n# lane_max = \"\"\n# tenant = \"\"\n";
  for (const ClientOptions& client : config.core.clients)
    out += "\n[clients." + toml_text(client.name) + "]\n" + print_table(client_table(), client);
  if (config.core.budgets.empty())
    out +=
        "\n# What an upstream allows, shared by all workers:\n# [[budget]]\n# name = \"openai\"\n"
        "# match = { service = \"openai\" }   # also model, client, tenant, lane, as globs; without it every "
        "job\n"
        "# limits = { requests_per_minute = 500, tokens_per_minute = 30000, concurrency = 40 }\n"
        "# capacity = { requests_per_minute = 50, tokens_per_minute = 3000 }   # a tenth of the limits\n"
        "# keys = []           # of a pool: { name = \"k1\", weight = 1, quota_group = \"\", draining = "
        "false,\n"
        "#                     # limits = { … }, capacity = { … } }\n"
        "# output = \"used\"     # or \"max_tokens\"\n# window = \"auto\"     # or \"sliding\", \"bucket\"\n";
  for (const BudgetOptions& budget : config.core.budgets) {
    out += "\n[[budget]]\nname = " + toml_text(budget.name) + "\n" + print_table(budget_table(), budget);
    for (const std::string& part : show_limits(budget.rates, budget.concurrency))
      out += part + "\n";
    if (budget.keys.empty()) {
      out += "# keys = []\n";
    } else {
      out += "keys = [\n";
      for (const KeyOptions& key : budget.keys)
        out += "  " + show_key(key) + ",\n";
      out += "]\n";
    }
  }
  if (config.core.shards.empty())
    out +=
        "\n# Several owners side by side; the first whose match fits takes a job, and shard_name says which "
        "this is:\n"
        "# [[shard]]\n# name = \"acme\"\n# match = { tenant = \"acme*\" }   # and service: globs; the last "
        "one has none\n"
        "# clients = []        # endpoints of its brokers\n# workers = []\n";
  for (const core::ShardOptions& shard : config.core.shards)
    out += "\n[[shard]]\nname = " + toml_text(shard.name) + "\n" + print_table(shard_table(), shard);
  if (config.server.plugins.empty())
    out +=
        "\n# What judges submits or counts their tokens, one behind the other:\n# [[plugin]]\n# name = "
        "\"guard\"\n"
        "# file = \"\"            # a shared library, made with lanemq/broker_plugin.h\n# when_off = "
        "\"accept\"  # or "
        "\"refuse\": submits, while it is switched off\n# settings = {}        # what the plugin is told\n";
  for (const io::PluginOptions& plugin : config.server.plugins) {
    out += "\n[[plugin]]\n" + print_table(plugin_table(), plugin, settings::Shown::all);
    if (!plugin.settings.empty()) out += "[plugin.settings]\n" + settings::print_flat(plugin.settings);
  }
  if (config.http.keys.empty())
    out +=
        "\n# Who may ask over HTTP (lanemq-broker --make-http-key makes one):\n# [[http_key]]\n# name = "
        "\"grafana\"\n# sha256 = \"\"          # or secret = \"file:PATH\"\n# role = \"viewer\"      # or "
        "\"operator\"\n# not_after = \"\"       # a date\n";
  for (const admin::HttpKey& key : config.http.keys)
    out += "\n[[http_key]]\n" + print_table(http_key_table(), key);
  return out;
}

}  // namespace lanemq
