// SPDX-License-Identifier: Apache-2.0
// The configuration as a file.
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

/// A key of a table; where it is not set, its default as a comment: not every default can be written down.
std::string line(std::string_view key, bool set, const std::string& value) {
  return (set ? "" : "# ") + std::string(key) + " = " + value + "\n";
}
std::string quoted(const std::string& text) {
  return '"' + text + '"';
}

}  // namespace
}  // namespace config

using namespace config;

std::string print_config(const Config& config) {
  std::string out =
      "# LaneMQ broker. Every key is optional; durations and sizes carry their unit.\n# Of a table, what "
      "stands behind # is not set: its default, with 0 and \"\" for none.\n";
  for (const OptionRow& row : option_table()) {
    const bool bare = row.unit == "count" || row.unit == "switch";
    const std::string value = row.get(config);
    out += "\n# " + std::string(row.sentence) + "\n" + std::string(row.key) + " = " +
           (bare ? value : '"' + value + '"') + "\n";
  }
  out += "\n# Lanes, highest first. Naming any lane replaces the whole set.\n";
  for (const LaneOptions& lane : config.core.lanes) {
    out += "\n[[lane]]\nname = \"" + lane.name + "\"\ntimeout = \"" + show(lane.timeout) +
           "\"\ndepth_max = " + std::to_string(lane.depth_max) + "\n";
    out += line("bytes_max", lane.bytes_max > 0, quoted(show_size(lane.bytes_max)));
    out += line("reserved_slots", lane.reserved_slots > 0, std::to_string(lane.reserved_slots));
    out += line("reserve", lane.reserve > 0, show_share(lane.reserve));
    out += line("share_min", lane.share_min > 0, show_share(lane.share_min));
    out += line("boost_after", lane.boost_after.count() > 0, quoted(show(lane.boost_after)));
    out += line("durable", !lane.durable, lane.durable ? "true" : "false");
    out += line("default", lane.is_default, lane.is_default ? "true" : "false");
  }
  if (config.core.clients.empty())
    out +=
        "\n# Whom jobs are for, by name or glob:\n# [clients.\"team-a*\"]\n# weight = 1\n# in_flight_max = "
        "0\n"
        "# depth_max = 0\n# lane_max = \"\"\n# tenant = \"\"\n";
  for (const ClientOptions& client : config.core.clients) {
    out += "\n[clients.\"" + client.name + "\"]\nweight = " + std::to_string(client.weight) + "\n";
    out += line("in_flight_max", client.in_flight_max > 0, std::to_string(client.in_flight_max));
    out += line("depth_max", client.depth_max > 0, std::to_string(client.depth_max));
    out += line("lane_max", !client.lane_max.empty(), quoted(client.lane_max));
    out += line("tenant", !client.tenant.empty(), quoted(client.tenant));
  }
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
        "# output = \"used\"     # or \"max_tokens\"\n# window = \"sliding\"  # or \"bucket\"\n";
  for (const BudgetOptions& budget : config.core.budgets) {
    out += "\n[[budget]]\nname = \"" + budget.name + "\"\n";
    std::string match;
    const std::pair<const char*, const std::string*> patterns[] = {{"service", &budget.service},
                                                                   {"model", &budget.model},
                                                                   {"client", &budget.client},
                                                                   {"tenant", &budget.tenant},
                                                                   {"lane", &budget.lane}};
    for (const auto& [key, value] : patterns)
      if (!value->empty()) match += (match.empty() ? "" : ", ") + std::string(key) + " = \"" + *value + "\"";
    out += line("match", !match.empty(), match.empty() ? "{}" : "{ " + match + " }");
    for (const std::string& part : show_limits(budget.rates, budget.concurrency))
      out += part + "\n";
    if (budget.keys.empty()) {
      out += line("keys", false, "[]");
    } else {
      out += "keys = [\n";
      for (const KeyOptions& key : budget.keys)
        out += "  " + show_key(key) + ",\n";
      out += "]\n";
    }
    const bool bound = budget.output == core::OutputCount::bound;
    out += line("output", bound, bound ? "\"max_tokens\"" : "\"used\"");
    out += std::string("window = \"") + (budget.window == core::WindowKind::sliding ? "sliding" : "bucket") +
           "\"\n";
  }
  return out;
}

}  // namespace lanemq
