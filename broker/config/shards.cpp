// SPDX-License-Identifier: Apache-2.0
// The rules of shards, and the budgets that count jobs of several.
#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include <lanemq/endpoints.hpp>
#include <lanemq/limits.hpp>
#include <lanemq/shards.hpp>
#include <lanemq/text.hpp>

#include "broker/config/settings.hpp"
#include "broker/core/base/identity.hpp"
#include "broker/core/budgets/shared/bank.hpp"
#include "common/settings/start_check.hpp"

namespace lanemq::config {
namespace {

using core::BudgetOptions;
using core::ShardOptions;

/// A schema of PostgreSQL and a file are named after it.
constexpr std::size_t kNameBytesMax = 40;

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kNameBytesMax && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

/// How the patterns of a rule stand to one of a budget, of which an empty one is any.
struct Reach {
  bool meets, covers;
};
Reach reach(const std::vector<std::string>& rule, std::string_view budget) {
  if (rule.empty()) return {true, true};
  const std::string_view wanted = budget.empty() ? "*" : budget;
  const auto any = [&](auto holds) { return std::any_of(rule.begin(), rule.end(), holds); };
  return {any([&](const std::string& pattern) { return globs_meet(pattern, wanted); }),
          any([&](const std::string& pattern) { return glob_covers(pattern, wanted); })};
}

/// The tenants that the budget counts: a client's name may say it, too.
std::string_view tenant_in(const BudgetOptions& budget) {
  if (!budget.tenant.empty() || budget.client.find('/') == std::string::npos) return budget.tenant;
  return core::tenant_of(budget.client);
}

void check_shard(const ShardOptions& shard, bool last, const std::string& where) {
  if (!is_name(shard.name))
    throw ConfigError(where + ": a shard's name has 1 to " + std::to_string(kNameBytesMax) +
                      " letters a to z, digits, - and _: its store is named after it");
  if (last && !(shard.services.empty() && shard.tenants.empty()))
    throw ConfigError(where + ": the last shard takes what no rule before it matches; leave its match out");
  if (!last && reach(shard.services, "").covers && reach(shard.tenants, "").covers)
    throw ConfigError(where +
                      ": it takes every job, and the shards behind it none; give it a match, as in "
                      "match = { tenant = \"acme*\" }, or put it last");
  for (const auto* patterns : {&shard.services, &shard.tenants})
    for (const std::string& pattern : *patterns)
      if (pattern.empty() || pattern.size() > limits::name_bytes_max)
        throw ConfigError(where + ": a pattern of its match has " + std::to_string(pattern.size()) +
                          " bytes; 1 to " + std::to_string(limits::name_bytes_max));
  if (shard.clients.empty() || shard.workers.empty())
    throw ConfigError(where +
                      ": say with clients and workers where its brokers are, as in clients = "
                      "[\"tcp://a:5570\", \"tcp://b:5570\"]");
  check_told_endpoints(shard.clients, where + ": clients");
  check_told_endpoints(shard.workers, where + ": workers");
}

std::string place_of(const Config& config, const ShardOptions& shard) {
  return config::place_of(config, "shard." + shard.name);
}

/// A pattern for each job, where a rule has none.
std::vector<std::string> or_any(const std::vector<std::string>& patterns) {
  return patterns.empty() ? std::vector<std::string>{"*"} : patterns;
}

/// For each of `patterns`, whether one of the rule's patterns covers it.
std::vector<bool> covered(const std::vector<std::string>& rule, const std::vector<std::string>& patterns) {
  std::vector<bool> covers;
  for (const std::string& pattern : patterns)
    covers.push_back(reach(rule, pattern).covers);
  return covers;
}

/// A rule that never takes a job was meant to take some.
void check_reached(const Config& config) {
  const std::vector<ShardOptions>& shards = config.core.shards;
  for (std::size_t i = 0; i < shards.size(); ++i)
    if (const TakenBefore taken = taken_before(shards, i); taken.all)
      throw ConfigError(place_of(config, shards[i]) + "shard \"" + shards[i].name +
                        "\": it never takes a job, since " + listed(taken.by) +
                        (taken.by.size() > 1 ? " take" : " takes") +
                        " all of its before: the first rule that fits counts; put it before, or narrow what "
                        "stands before it");
}

/// Peers of one shard, and of one kind, are at an endpoint.
void check_apart(const Config& config) {
  std::map<std::string, std::string> whose;
  for (const ShardOptions& shard : config.core.shards)
    for (const auto& [kind, endpoints] : {std::pair{"clients", &shard.clients}, {"workers", &shard.workers}})
      for (const std::string& endpoint : *endpoints) {
        const std::string own = std::string(kind) + " of shard \"" + shard.name + '"';
        if (const auto known = whose.emplace(endpoint, own).first; known->second != own)
          throw ConfigError(place_of(config, shard) + "endpoint " + endpoint + " is named for " +
                            known->second + " and for " + own + "; one broker alone can be there");
      }
}

void check_own(const Config& config) {
  const core::Options& core = config.core;
  if (core.shards.empty() && !config.bank.empty())
    throw ConfigError(config::place_of(config, "bank") +
                      "there is a bank, and no [[shard]] whose budgets it could share; write all shards into "
                      "the file of --config, or leave the bank out");
  if (core.shards.empty() && core.shard.empty()) return;
  if (core.shards.empty())
    throw ConfigError(
        "shard_name is \"" + printable(core.shard) +
        "\", and the configuration has no [[shard]]; write all of them into the file of --config");
  std::vector<std::string> names;
  for (const ShardOptions& shard : core.shards)
    names.push_back(shard.name);
  if (std::find(names.begin(), names.end(), core.shard) == names.end())
    throw ConfigError((core.shard.empty()
                           ? "there are shards, and no --shard says which of them this broker owns"
                           : "shard_name is \"" + printable(core.shard) + "\", and there is no such shard") +
                      "; there are " + listed(names));
  if (!core.client_endpoints.empty() || !core.worker_endpoints.empty())
    throw ConfigError(
        "where there are shards, each [[shard]] says where its brokers are; leave cluster_clients and "
        "cluster_workers out");
}

void check_spans(const Config& config, const BudgetOptions& budget) {
  using config::place_of;
  if (budget.per_shard) return;
  const std::vector<std::string> shards = shards_of(budget, config.core.shards);
  if (shards.size() < 2) return;
  if (!config.bank.empty() || budget.shared) {
    if (const std::string why = core::Bank::cannot_share(budget); !why.empty())
      throw ConfigError(place_of(config, "budget." + budget.name) + "budget \"" + budget.name +
                        "\" counts jobs of the shards " + listed(shards) +
                        ", and no bank can share it: " + why);
    return;
  }
  throw ConfigError(
      place_of(config, "budget." + budget.name) + "budget \"" + budget.name +
      "\" counts jobs of the shards " + listed(shards) +
      ", and each of them would grant all of it: let its match name a tenant or a service of one shard, "
      "let one shard take all of its jobs, or write a part of the limit and per_shard = true; or name a "
      "bank, by which they share it");
}

}  // namespace

std::string place_of(const Config& config, const std::string& key) {
  const auto known = config.heard.places.find(key);
  return known == config.heard.places.end() ? "" : known->second + ": ";
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

TakenBefore taken_before(const std::vector<ShardOptions>& shards, std::size_t index) {
  const std::vector<std::string> services = or_any(shards[index].services),
                                 tenants = or_any(shards[index].tenants);
  std::vector<std::vector<bool>> of_services, of_tenants;  // by the rules before it
  for (std::size_t rule = 0; rule < index; ++rule) {
    of_services.push_back(covered(shards[rule].services, services));
    of_tenants.push_back(covered(shards[rule].tenants, tenants));
  }
  std::vector<bool> takes(index), service_left(services.size()), tenant_left(tenants.size());
  for (std::size_t i = 0; i < services.size(); ++i)
    for (std::size_t j = 0; j < tenants.size(); ++j) {
      std::size_t rule = 0;
      while (rule < index && !(of_services[rule][i] && of_tenants[rule][j]))
        ++rule;
      if (rule < index)
        takes[rule] = true;
      else
        service_left[i] = tenant_left[j] = true;
    }
  TakenBefore taken;
  for (std::size_t rule = 0; rule < index; ++rule)
    if (takes[rule]) taken.by.push_back(shards[rule].name);
  for (std::size_t i = 0; i < services.size(); ++i)
    if (!service_left[i]) taken.patterns.push_back(services[i]);
  taken.all = taken.patterns.size() == services.size();
  for (std::size_t j = 0; j < tenants.size(); ++j)
    if (!tenant_left[j]) taken.patterns.push_back(tenants[j]);
  return taken;
}

void check_told_endpoints(const std::vector<std::string>& endpoints, const std::string& where) {
  if (endpoints.size() > Endpoints::kEndpointsMax)
    throw ConfigError(where + " names " + std::to_string(endpoints.size()) + " endpoints; at most " +
                      std::to_string(Endpoints::kEndpointsMax));
  for (const std::string& endpoint : endpoints) {
    if (endpoint.size() > limits::name_bytes_max)
      throw ConfigError(where + " has an endpoint of " + std::to_string(endpoint.size()) +
                        " bytes; at most " + std::to_string(limits::name_bytes_max));
    try {
      settings::check_endpoint(endpoint, settings::Port::named);
    } catch (const settings::UsageError& error) {
      throw ConfigError(where + ": " + error.what());
    }
  }
}

std::vector<std::string> shards_of(const BudgetOptions& budget, const std::vector<ShardOptions>& shards) {
  std::vector<std::string> found;
  for (const ShardOptions& shard : shards) {
    const Reach service = reach(shard.services, budget.service),
                tenant = reach(shard.tenants, tenant_in(budget));
    if (service.meets && tenant.meets) found.push_back(shard.name);
    if (service.covers && tenant.covers) break;  // no job is left for later rules
  }
  return found;
}

void check_shards(const Config& config) {
  check_told_endpoints(config.core.client_endpoints, place_of(config, "cluster_clients") + "cluster_clients");
  check_told_endpoints(config.core.worker_endpoints, place_of(config, "cluster_workers") + "cluster_workers");
  check_own(config);
  const std::vector<ShardOptions>& shards = config.core.shards;
  if (shards.empty()) return;
  if (shards.size() > ShardMap::kShardsMax)
    throw ConfigError("there are " + std::to_string(shards.size()) + " shards; at most " +
                      std::to_string(ShardMap::kShardsMax));
  for (const ShardOptions& shard : shards) {
    check_shard(shard, &shard == &shards.back(),
                place_of(config, shard) + "shard \"" + printable(shard.name) + '"');
  }
  const std::size_t told = std::max(encode_shards(core::shards_for_clients(config.core)).size(),
                                    encode_shards(core::shards_for_workers(config.core)).size());
  if (told > ShardMap::kBytesMax)
    throw ConfigError("what peers are told of the shards has " + std::to_string(told) + " bytes; at most " +
                      std::to_string(ShardMap::kBytesMax) + ": write fewer endpoints or patterns");
  check_reached(config);
  check_apart(config);
  for (const BudgetOptions& budget : config.core.budgets)
    check_spans(config, budget);
}

void share_budgets(Config& config) {
  for (BudgetOptions& budget : config.core.budgets) {
    budget.shared_by = shards_of(budget, config.core.shards).size();
    budget.shared = !config.bank.empty() && !budget.per_shard && budget.shared_by > 1;
  }
}

void name_schema(Config& config) {
  auto& places = config.heard.places;
  if (config.core.shard.empty() || places.contains("store_schema")) return;
  config.store_schema += '_' + config.core.shard;
  if (const auto place = places.find("shard_name"); place != places.end())
    places.emplace("store_schema", place->second);
}

}  // namespace lanemq::config
