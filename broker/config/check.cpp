// SPDX-License-Identifier: Apache-2.0
// Rules that span several options.
#include <algorithm>
#include <span>

#include <lanemq/endpoints.hpp>
#include <lanemq/text.hpp>

#include "broker/config/settings.hpp"
#include "broker/core/budgets/budgets.hpp"
#include "broker/core/jobs/gone_ids.hpp"
#include "broker/core/scheduler/workers.hpp"
#include "common/settings/start_check.hpp"

namespace lanemq {
namespace config {
namespace {

/// The largest limit of a budget: its window's sums stay in 64 bits.
constexpr std::int64_t kLimitMax = 1'000'000'000'000;

using core::BudgetOptions;
using core::ClientOptions;
using core::KeyOptions;
using core::LaneOptions;
using core::RateOptions;

template <class T>
void check_names(const std::vector<T>& entries, const std::string& what) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].name.empty() || entries[i].name.size() > limits::name_bytes_max)
      throw ConfigError("a " + what + " has no name, or one of more than 128 bytes");
    refuse_twice(std::span(entries).first(i), what, entries[i].name);
  }
}

/// Names and patterns have at most limits::name_bytes_max bytes.
void check_length(const std::string& text, const std::string& what) {
  if (text.size() > limits::name_bytes_max)
    throw ConfigError(what + " has " + std::to_string(text.size()) + " bytes; at most " +
                      std::to_string(limits::name_bytes_max));
}

void check_rates(const std::vector<RateOptions>& rates, core::WindowKind window, const std::string& where) {
  for (const RateOptions& rate : rates) {
    if (rate.limit == 0) throw ConfigError(where + " has a capacity for " + rate.name + " but no limit");
    if (rate.limit > kLimitMax)
      throw ConfigError(where + ": " + rate.name + " is over " + std::to_string(kLimitMax));
    const std::int64_t most =
        window != core::WindowKind::bucket ? std::max<std::int64_t>(rate.limit / 2, 1) : rate.limit;
    if (rate.capacity > most)
      throw ConfigError(where + ": capacity of " + rate.name + " is " + std::to_string(rate.capacity) +
                        "; at most " + std::to_string(most) +
                        " here (half the limit, but where window = \"bucket\")");
  }
}

/// `place`: where a key was set.
template <class Place>
void check_clients(const Config& config, Place place) {
  const auto& lanes = config.core.lanes;
  for (const ClientOptions& client : config.core.clients) {
    const bool known = client.lane_max.empty() ||
                       std::any_of(lanes.begin(), lanes.end(),
                                   [&](const LaneOptions& lane) { return lane.name == client.lane_max; });
    if (!known)
      throw ConfigError(place("clients." + client.name) + "clients." + client.name +
                        ".lane_max: there is no lane \"" + client.lane_max + '"');
  }
}

/// `place` tells the line of the file that set a key.
template <class Place>
void check_webhooks(const Config& config, Place place) {
  const auto& lanes = config.core.lanes;
  const std::string& service = config.core.webhook_service;
  check_length(service, place("webhook_service") + "webhook_service");
  // Each would be taken, and no worker be found: a number, a pattern, a name in a tenant's space.
  const auto is_of_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || static_cast<unsigned char>(c) >= 0x80;
  };
  const bool is_name =
      std::all_of(service.begin(), service.end(), is_of_name) &&
      !std::all_of(service.begin(), service.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!service.empty() && !is_name)
    throw ConfigError(place("webhook_service") + "webhook_service: \"" + printable(service) +
                      "\" is no name of a service; write letters, digits, _ - and ., as in \"ends\"");
  if (const std::string& name = config.core.webhook_lane;
      !name.empty() &&
      std::none_of(lanes.begin(), lanes.end(), [&](const LaneOptions& lane) { return lane.name == name; }))
    throw ConfigError(place("webhook_lane") + "webhook_lane: there is no lane \"" + name + '"');
}

void check_budget(const BudgetOptions& budget, const std::string& place) {
  if (budget.rates.empty() && budget.concurrency == 0 && budget.keys.empty())
    throw ConfigError(place + "budget \"" + budget.name +
                      "\" has no limits; write limits = { requests_per_minute = 500 }");
  const std::string where = place + "budget \"" + budget.name + '"';
  check_length(budget.service, where + ": match.service");
  check_length(budget.model, where + ": match.model");
  check_length(budget.client, where + ": match.client");
  check_length(budget.lane, where + ": match.lane");
  check_length(budget.tenant, where + ": match.tenant");
  check_rates(budget.rates, budget.window, where);
  if (budget.keys.size() > core::Budgets::kKeysMax)
    throw ConfigError(where + " has " + std::to_string(budget.keys.size()) + " keys; at most " +
                      std::to_string(core::Budgets::kKeysMax));
  check_names(budget.keys, where + ": key");
  if (const std::string why = core::cannot_set_aside(budget); !why.empty())
    throw ConfigError(where + ": offline_share: " + why);
  for (const KeyOptions& key : budget.keys) {
    check_rates(key.rates, budget.window, where + ": key \"" + key.name + '"');
    check_length(key.quota_group, where + ": key \"" + key.name + "\": quota_group");
  }
}

}  // namespace
}  // namespace config

using namespace config;

void check_config(const Config& config) {
  const auto& lanes = config.core.lanes;
  const auto place = [&](const std::string& key) { return place_of(config, key); };
  if (config.core.stream_kept_bytes_max < limits::stream_bytes_max)
    throw ConfigError(place("stream_kept_bytes_max") + "stream_kept_bytes_max is " +
                      settings::show_size(config.core.stream_kept_bytes_max) + "; at least " +
                      settings::show_size(limits::stream_bytes_max) + ", the window of a stream");
  check_names(lanes, "lane");
  check_names(config.core.budgets, "budget");
  for (const core::BudgetOptions& budget : config.core.budgets)
    if (budget.name.starts_with(core::LearntBudgets::kPrefix))
      throw ConfigError("budget \"" + budget.name + "\": names that begin with \"" +
                        std::string(core::LearntBudgets::kPrefix) + "\" are those of limits that are learnt");
  check_names(config.core.clients, "client");
  check_names(config.server.plugins, "plugin");
  if (config.server.plugins.size() > io::PluginOptions::kPluginsMax)
    throw ConfigError("there are " + std::to_string(config.server.plugins.size()) + " plugins; at most " +
                      std::to_string(io::PluginOptions::kPluginsMax));
  check_clients(config, place);
  if (lanes.empty() || lanes.size() > core::kLanesMax)
    throw ConfigError("there are " + std::to_string(lanes.size()) + " lanes; there must be 1 to " +
                      std::to_string(core::kLanesMax));
  const auto defaults =
      std::count_if(lanes.begin(), lanes.end(), [](const auto& lane) { return lane.is_default; });
  if (defaults != 1)
    throw ConfigError(place("lane") + "there are " + std::to_string(defaults) +
                      " default lanes; mark exactly one with default = true" +
                      (config.heard.places.contains("lane")
                           ? ". [[lane]] replaces all lanes that are there without it (--print-config prints "
                             "them); [lane.NAME] changes one of those"
                           : ", and the other with default = false"));
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
  for (const BudgetOptions& budget : config.core.budgets)
    check_budget(budget, place("budget." + budget.name));
  check_webhooks(config, place);
  check_shards(config);
  if (config.core.jobs_max > 16'000'000) throw ConfigError(place("jobs_max") + "jobs_max is over 16000000");
  if (config.core.gone_max > core::GoneIds::kIdsMax)
    throw ConfigError(place("gone_max") + "gone_max is over " + std::to_string(core::GoneIds::kIdsMax));
  if (config.core.heartbeat < std::chrono::milliseconds(10))
    throw ConfigError(place("heartbeat") + "heartbeat is under 10ms");
}

}  // namespace lanemq
