// SPDX-License-Identifier: Apache-2.0
// Settings that are allowed, but hardly meant.
#include <algorithm>
#include <chrono>
#include <string_view>

#include "broker/config/settings.hpp"
#include "common/settings/start_check.hpp"
#include "common/settings/values.hpp"

namespace lanemq {
namespace config {
namespace {

using core::ShardOptions;
using settings::kIpc;
using settings::kTcp;

/// A gateway refuses requests after 20 s without a broker, by default (broker_wait), and a new owner loads
/// its jobs first.
constexpr core::Duration kGatewaysWait = std::chrono::seconds(15);

/// An endpoint's host and port; of ipc:// the whole is its port.
struct Address {
  std::string_view host, port;
};
Address address_of(std::string_view endpoint) {
  if (!endpoint.starts_with(kTcp)) return {.host = {}, .port = endpoint};
  const std::size_t colon = endpoint.rfind(':');
  return {.host = endpoint.substr(kTcp.size(), colon - kTcp.size()), .port = endpoint.substr(colon + 1)};
}

/// Whether only this machine reaches it.
bool is_loopback(std::string_view host) {
  return host.starts_with("127.") || host == "localhost" || host == "[::1]";
}

/// Whether a broker that binds `bound` may be reached at `told`. Names are not looked up.
bool serves(std::string_view bound, std::string_view told) {
  const Address here = address_of(bound), there = address_of(told);
  return here.port == there.port && (!is_loopback(here.host) || is_loopback(there.host));
}

/// The address to bind, for a peer that is told `told`.
std::string to_bind(const std::string& told) {
  const Address there = address_of(told);
  if (told.starts_with(kIpc) || is_loopback(there.host)) return told;
  return std::string(kTcp) + "0.0.0.0:" + std::string(there.port);
}

/// One of the two endpoints that peers of a shard connect to.
struct Bind {
  const char* option;  ///< `clients`
  const std::string& bound;
  const std::vector<std::string>& told;  ///< by the shard's rule

  bool fits() const {
    return std::any_of(told.begin(), told.end(), [&](const auto& one) { return serves(bound, one); });
  }
  std::string problem(const std::string& shard) const {
    return "peers are told that " + std::string(option) + " of shard \"" + shard + "\" are served at " +
           listed(told) + ", and this broker binds " + bound + ", which is none of these";
  }
};

/// Those that do not fit. `said`: whether somebody has chosen what is bound.
std::vector<Bind> misfits(const Config& config, bool said) {
  std::vector<Bind> found;
  for (const ShardOptions& shard : config.core.shards)
    if (shard.name == config.core.shard)
      for (const Bind& bind : {Bind{"clients", config.server.clients, shard.clients},
                               Bind{"workers", config.server.workers, shard.workers}})
        if (config.heard.places.contains(std::string(bind.option) + "_endpoint") == said && !bind.fits())
          found.push_back(bind);
  return found;
}

/// Lanes that are there without [[lane]], and are gone by it, where others of them are kept: hardly all were
/// to go.
std::vector<std::string> lanes_gone(const Config& config) {
  std::vector<std::string> gone;
  if (!config.heard.places.contains("lane")) return gone;
  bool any_kept = false;
  for (const core::LaneOptions& usual : core::default_lanes()) {
    const bool kept = std::any_of(config.core.lanes.begin(), config.core.lanes.end(),
                                  [&](const core::LaneOptions& lane) { return lane.name == usual.name; });
    any_kept = any_kept || kept;
    if (!kept) gone.push_back(usual.name);
  }
  return any_kept ? gone : std::vector<std::string>();
}

}  // namespace
}  // namespace config

using namespace config;

void check_binds(const Config& config) {
  for (const Bind& bind : misfits(config, false))
    throw ConfigError(bind.problem(config.core.shard) + "; say --" + bind.option + ' ' +
                      to_bind(bind.told.front()) + ", or where else it is to listen");
}

std::vector<std::string> doubts(const Config& config) {
  std::vector<std::string> found;
  if (const std::vector<std::string> gone = lanes_gone(config); !gone.empty())
    found.push_back(place_of(config, "lane") + "[[lane]] replaces all lanes: " + listed(gone) + " are gone" +
                    "; to change one of those that are there without it write [lane.NAME]");
  const std::vector<ShardOptions>& shards = config.core.shards;
  for (const ShardOptions& shard : shards)
    if (shard.name == config.core.shard && shard.clients.size() > 1 && !config.store.starts_with("postgres:"))
      found.push_back(place_of(config, "shard." + shard.name) + "shard \"" + shard.name + "\" has " +
                      std::to_string(shard.clients.size()) +
                      " endpoints for clients, and this broker's store is its own: no other broker of the "
                      "shard has its jobs, and each has an offline_share of its own; for a broker that goes "
                      "on with them name a store in PostgreSQL, and else one endpoint");
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const TakenBefore taken = taken_before(shards, i);
    for (const std::string& pattern : taken.patterns)
      found.push_back(place_of(config, "shard." + shards[i].name) + "shard \"" + shards[i].name +
                      "\": the pattern \"" + pattern + "\" of its match takes no job, since " +
                      listed(taken.by) + (taken.by.size() > 1 ? " stand" : " stands") +
                      " before it; take it out, or put it before");
  }
  const auto& budgets = config.core.budgets;
  if (!config.bank.empty() &&
      std::none_of(budgets.begin(), budgets.end(), [](const auto& budget) { return budget.shared; }))
    found.push_back(place_of(config, "bank") +
                    "the bank is used by no budget: none counts jobs of several shards, but for those that "
                    "say per_shard");
  if (config.store.starts_with("postgres:") && config.store_lease > kGatewaysWait)
    found.push_back(place_of(config, "store_lease") + "store_lease is " + settings::show(config.store_lease) +
                    ", and takeovers last so long: a gateway refuses requests that wait longer than its "
                    "broker_wait, 20 s by default; raise that as well, or lower store_lease");
  if (config.store == "memory")
    for (const core::BudgetOptions& budget : budgets)
      if (budget.offline_share > 0)
        found.push_back(place_of(config, "budget." + budget.name) + "budget \"" + budget.name +
                        "\" has an offline_share, and a store in memory forgets what was used of it: after "
                        "a restart all of this shard's part counts as unused; name a file");
  for (const Bind& bind : misfits(config, true))
    found.push_back(place_of(config, std::string(bind.option) + "_endpoint") +
                    bind.problem(config.core.shard) + "; where no port is mapped, mend one of the two");
  return found;
}

}  // namespace lanemq
