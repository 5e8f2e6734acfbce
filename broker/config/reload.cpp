// SPDX-License-Identifier: Apache-2.0
// The options that may change without a restart: when the file is read again, and by an operator.
#include <algorithm>

#include "broker/config/settings.hpp"

namespace lanemq {
namespace config {
namespace {

using core::BudgetOptions;
using core::KeyOptions;
using core::LaneOptions;

void edit_lane(LaneOptions& lane, const std::string& setting, const std::string& text) {
  const LaneOptions before = lane;
  set_lane_key(lane, setting, text);
  if (lane.reserved_slots != before.reserved_slots || lane.is_default != before.is_default)
    throw ConfigError("needs a restart; change it in the file");
}

/// Sets `requests_per_minute`, `concurrency` or `capacity.requests_per_minute` of a budget or one of its
/// keys.
template <class Limited>
void edit_limit(Limited& limited, const std::string& setting, const std::string& text) {
  constexpr std::string_view kCapacity = "capacity.";
  if (setting.starts_with(kCapacity)) return set_capacity(limited, setting.substr(kCapacity.size()), text);
  set_limit(limited, setting, text);
}

const KeyOptions* find_key(const std::vector<KeyOptions>& keys, const std::string& name) {
  const auto key =
      std::find_if(keys.begin(), keys.end(), [&](const KeyOptions& one) { return one.name == name; });
  return key == keys.end() ? nullptr : &*key;
}

/// All keys of an account share its limits, so a change goes to each.
void edit_key(BudgetOptions& budget, const std::string& name, const std::string& setting,
              const std::string& text) {
  const KeyOptions* const key = find_key(budget.keys, name);
  if (key == nullptr) throw ConfigError("the budget has no key of that name; lanemq limits shows them");
  for (KeyOptions& other : budget.keys)
    if (other.account() == key->account()) edit_limit(other, setting, text);
}

/// The wanted keys. Each known key keeps its account until a restart, since counts and running calls are kept
/// by account. The account gets the limits wanted of keys that are to stay in it, or else keeps its own.
std::vector<KeyOptions> keys_of_their_accounts(const std::vector<KeyOptions>& running,
                                               const std::vector<KeyOptions>& wanted) {
  const auto stays = [&](const KeyOptions& key) {
    const KeyOptions* const known = find_key(running, key.name);
    return known != nullptr && known->account() == key.account();
  };
  std::vector<KeyOptions> keys = wanted;
  for (KeyOptions& key : keys) {
    const KeyOptions* const known = find_key(running, key.name);
    if (known == nullptr || known->account() == key.account()) continue;
    const auto limits = std::find_if(wanted.begin(), wanted.end(), [&](const KeyOptions& other) {
      return stays(other) && other.account() == known->account();
    });
    const KeyOptions& limited = limits == wanted.end() ? *known : *limits;
    key.quota_group = known->quota_group;
    key.rates = limited.rates;
    key.concurrency = limited.concurrency;
  }
  return keys;
}

}  // namespace
}  // namespace config

using namespace config;

Config reloaded(const Config& running, const Config& wanted) {
  Config config = running;
  config.log_level = wanted.log_level;
  const auto same_names = [](const auto& a, const auto& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const auto& x, const auto& y) { return x.name == y.name; });
  };
  if (same_names(running.core.lanes, wanted.core.lanes)) {
    for (std::size_t i = 0; i < running.core.lanes.size(); ++i) {
      const LaneOptions& before = running.core.lanes[i];
      LaneOptions& lane = config.core.lanes[i] = wanted.core.lanes[i];
      lane.reserved_slots = before.reserved_slots;
      lane.is_default = before.is_default;
    }
  }
  for (BudgetOptions& budget : config.core.budgets) {
    const auto place = std::find_if(wanted.core.budgets.begin(), wanted.core.budgets.end(),
                                    [&](const BudgetOptions& other) { return other.name == budget.name; });
    if (place == wanted.core.budgets.end()) continue;
    budget.rates = place->rates;
    budget.concurrency = place->concurrency;
    budget.keys = keys_of_their_accounts(budget.keys, place->keys);
  }
  config.core.clients = wanted.core.clients;
  config.server.keys = wanted.server.keys;
  config.http.keys = wanted.http.keys;
  return config;
}

Result<core::Options> edited(const core::Options& running, const core::OptionEdit& edit) {
  const std::string name(edit.name), key(edit.key), setting(edit.setting), text(edit.value);
  const bool of_lane = edit.of == core::OptionEdit::Of::lane;
  std::string what = (of_lane ? "lane " : "budget ") + name;
  if (!key.empty()) what += " key " + key;
  try {
    Config config;
    config.core = running;
    if (of_lane) {
      for (LaneOptions& lane : config.core.lanes)
        if (lane.name == name) edit_lane(lane, setting, text);
    } else {
      for (BudgetOptions& budget : config.core.budgets)
        if (budget.name == name)
          key.empty() ? edit_limit(budget, setting, text) : edit_key(budget, key, setting, text);
    }
    // The start has filled them in from the shard's own entry, and read that the bank shares what it marks.
    if (!running.shards.empty()) config.core.client_endpoints = config.core.worker_endpoints = {};
    check_config(config);
    config.core.client_endpoints = running.client_endpoints;
    config.core.worker_endpoints = running.worker_endpoints;
    return config.core;
  } catch (const ConfigError& error) {
    return failure(ErrorCode::bad_request, what + " " + setting + ": " + error.what());
  }
}

}  // namespace lanemq
