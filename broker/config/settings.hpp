// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>

#include "broker/config.hpp"

/// Set a configuration key from the file, the command line or an operator. All throw ConfigError: for an
/// unknown key, with the nearest known one, and for a value that cannot be read.
namespace lanemq::config {

const settings::Options<core::LaneOptions>& lane_table();
const settings::Options<core::ClientOptions>& client_table();
const settings::Options<core::ShardOptions>& shard_table();
const settings::Options<io::PluginOptions>& plugin_table();
const settings::Options<admin::HttpKey>& http_key_table();
/// The keys of a budget, and of one of its keys, without limits and capacities.
const settings::Options<core::BudgetOptions>& budget_table();
const settings::Options<core::KeyOptions>& key_table();

void set_lane_key(core::LaneOptions& lane, const std::string& key, const std::string& text);

void set_client_key(core::ClientOptions& client, const std::string& key, const std::string& text);
/// The entry of a client; adds one where there is none.
core::ClientOptions& client_of(Config& config, const std::string& name);

/// Sets `limits.requests_per_minute`, `capacity.requests_per_minute`, `match.service`, `window` or a bare
/// limit's name.
void set_budget_key(core::BudgetOptions& budget, const std::string& key, const std::string& text);
/// Sets the same of one of the budget's keys.
void set_key_key(core::KeyOptions& key, const std::string& name, const std::string& text);

/// Set `requests_per_minute` or `concurrency` of `Limited`: a budget, or one of its keys.
template <class Limited>
void set_limit(Limited& limited, const std::string& key, const std::string& text);
template <class Limited>
void set_capacity(Limited& limited, const std::string& key, const std::string& text);

/// Refuses what peers cannot be told of where brokers are. `where` begins the message.
void check_told_endpoints(const std::vector<std::string>& endpoints, const std::string& where);
/// The shards whose jobs the budget counts, by their names.
std::vector<std::string> shards_of(const core::BudgetOptions& budget,
                                   const std::vector<core::ShardOptions>& shards);
/// Rules of the shards, and of budgets that count jobs of several. Throws ConfigError.
void check_shards(const Config& config);

/// Marks the budgets that shards share by the bank.
void share_budgets(Config& config);
/// Names the schema after the shard, where nobody has said one.
void name_schema(Config& config);

/// The part of a rule's match that the rules before it have taken already.
struct TakenBefore {
  bool all = false;                     ///< so that it never takes a job
  std::vector<std::string> by{};        ///< the rules that have, by their names
  std::vector<std::string> patterns{};  ///< of the match, that never fit a job which is left
};
/// As far as patterns tell: what is not found here may be so all the same. Requires: index < shards.size().
TakenBefore taken_before(const std::vector<core::ShardOptions>& shards, std::size_t index);

/// The line of the file that set the key, for a message; empty where the file did not.
std::string place_of(const Config& config, const std::string& key);
/// `a, b and c`.
std::string listed(const std::vector<std::string>& names);

/// Throws ConfigError where an entry has that name already.
template <class Entries>
void refuse_twice(const Entries& entries, const std::string& what, const std::string& name) {
  if (std::any_of(entries.begin(), entries.end(), [&](const auto& entry) { return entry.name == name; }))
    throw ConfigError(what + " \"" + name + "\" is there twice; each needs a name of its own");
}

}  // namespace lanemq::config
