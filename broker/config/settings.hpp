// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>

#include "broker/config.hpp"

/// What a key sets, whoever says it: the file, the command line or an operator. All throw ConfigError: for a
/// key that there is not, with the nearest one that there is, and for a value that is not understood.
namespace lanemq::config {

const settings::Options<core::LaneOptions>& lane_table();
const settings::Options<core::ClientOptions>& client_table();
/// Of a budget and of its keys, but for limits and capacities.
const settings::Options<core::BudgetOptions>& budget_table();
const settings::Options<core::KeyOptions>& key_table();

void set_lane_key(core::LaneOptions& lane, const std::string& key, const std::string& text);

void set_client_key(core::ClientOptions& client, const std::string& key, const std::string& text);
/// The entry of a client; makes one if there is none.
core::ClientOptions& client_of(Config& config, const std::string& name);

/// `limits.requests_per_minute`, `capacity.requests_per_minute`, `match.service`, `window`; a bare limit's
/// name too.
void set_budget_key(core::BudgetOptions& budget, const std::string& key, const std::string& text);
/// The same of one of its keys.
void set_key_key(core::KeyOptions& key, const std::string& name, const std::string& text);

/// `requests_per_minute`, `concurrency`. `Limited` is a budget, or one of its keys.
template <class Limited>
void set_limit(Limited& limited, const std::string& key, const std::string& text);
template <class Limited>
void set_capacity(Limited& limited, const std::string& key, const std::string& text);

/// Each of the entries must have a name of its own: `name` may not be among them yet.
template <class Entries>
void refuse_twice(const Entries& entries, const std::string& what, const std::string& name) {
  if (std::any_of(entries.begin(), entries.end(), [&](const auto& entry) { return entry.name == name; }))
    throw ConfigError(what + " \"" + name + "\" is there twice; each needs a name of its own");
}

}  // namespace lanemq::config
