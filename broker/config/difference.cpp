// SPDX-License-Identifier: Apache-2.0
// The differences between two configurations.
#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_map>

#include "broker/config/key_files.hpp"
#include "broker/config/settings.hpp"
#include "common/settings/option_reader.hpp"

namespace lanemq {
namespace config {
namespace {

using core::BudgetOptions;
using core::ClientOptions;
using core::KeyOptions;
using core::LaneOptions;
using How = io::OptionChange::How;

/// Collects the changes between two configurations.
class Differences {
 public:
  template <class Thing>
  void add_options(const std::string& prefix, const settings::Options<Thing>& table, const Thing& before,
                   const Thing& after) {
    for (settings::Changed& change : settings::changed(table, before, after))
      found_.push_back({.what = prefix + change.key,
                        .before = std::move(change.before),
                        .after = std::move(change.after)});  // without URLs' secrets they may look the same
  }

  void add_value(std::string what, std::string before, std::string after) {
    if (before != after)
      found_.push_back({.what = std::move(what), .before = std::move(before), .after = std::move(after)});
  }

  /// Things with names: those that are new or gone, then calls `compare(name, before, after)` for each of the
  /// others.
  template <class Things, class Compare>
  void add_things(const std::string& prefix, const Things& before, const Things& after, Compare compare) {
    const auto known_before = by_name(before), known_after = by_name(after);
    for (const auto& thing : before)
      if (!known_after.contains(thing.name))
        found_.push_back({.what = prefix + thing.name, .how = How::removed});
    for (const auto& thing : after) {
      const auto known = known_before.find(thing.name);
      if (known == known_before.end())
        found_.push_back({.what = prefix + thing.name, .how = How::added});
      else
        compare(prefix + thing.name + ".", *known->second, thing);
    }
  }

  std::vector<io::OptionChange> take() { return std::move(found_); }

 private:
  /// There may be thousands of keys.
  template <class Things>
  static std::unordered_map<std::string_view, const typename Things::value_type*> by_name(
      const Things& things) {
    std::unordered_map<std::string_view, const typename Things::value_type*> found;
    for (const auto& thing : things)
      found.emplace(thing.name, &thing);
    return found;
  }

  std::vector<io::OptionChange> found_;
};

/// A limit, or a capacity, as the file writes it; empty: there is none.
std::string amount(std::int64_t value) {
  return value > 0 ? std::to_string(value) : std::string();
}

template <class Limited>
void add_limits(Differences& differences, const std::string& prefix, const Limited& before,
                const Limited& after) {
  const auto rate_of = [](const Limited& limited, std::string_view name) {
    const auto at = std::find_if(limited.rates.begin(), limited.rates.end(),
                                 [&](const core::RateOptions& rate) { return rate.name == name; });
    return at == limited.rates.end() ? core::RateOptions{} : *at;
  };
  for (const core::RateKind& kind : core::rate_kinds()) {
    const std::string name(kind.name);
    const core::RateOptions one = rate_of(before, name), other = rate_of(after, name);
    differences.add_value(prefix + "limits." + name, amount(one.limit), amount(other.limit));
    differences.add_value(prefix + "capacity." + name, amount(one.capacity), amount(other.capacity));
  }
  differences.add_value(prefix + "limits.concurrency", amount(before.concurrency), amount(after.concurrency));
}

/// The names in their order, where that alone differs: it says which lane is higher, and which entry counts
/// for a client that several match.
template <class Things>
void add_order(Differences& differences, const std::string& what, const Things& before, const Things& after) {
  settings::Values one, other;
  const auto name_of = [](const auto& thing) { return thing.name; };
  std::transform(before.begin(), before.end(), std::back_inserter(one), name_of);
  std::transform(after.begin(), after.end(), std::back_inserter(other), name_of);
  if (std::is_permutation(one.begin(), one.end(), other.begin(), other.end()))
    differences.add_value(what + " (the order)", settings::joined(one), settings::joined(other));
}

/// A peer's key with what its file says, except for the limits: those are an entry of the clients.
struct NamedKey {
  std::string name;
  KeyFile file;
};

std::vector<NamedKey> named_keys(const Config& config) {
  std::vector<NamedKey> keys;
  keys.reserve(config.server.keys.size());
  for (const io::PeerKey& key : config.server.keys)
    keys.push_back({key.identity.name, file_of(key)});
  return keys;
}

}  // namespace
}  // namespace config

using namespace config;

std::vector<io::OptionChange> difference(const Config& before, const Config& after) {
  Differences differences;
  differences.add_options("", option_table(), before, after);
  // The same source, but another secret. No change ever shows the secret.
  if (before.secret_key == after.secret_key && before.server.secret_key != after.server.secret_key)
    differences.add_value("secret_key (its content)", "the key in use", "another key");
  add_order(differences, "lane", before.core.lanes, after.core.lanes);
  differences.add_things("lane.", before.core.lanes, after.core.lanes,
                         [&](const std::string& prefix, const LaneOptions& one, const LaneOptions& other) {
                           differences.add_options(prefix, lane_table(), one, other);
                         });
  differences.add_things(
      "budget.", before.core.budgets, after.core.budgets,
      [&](const std::string& prefix, const BudgetOptions& one, const BudgetOptions& other) {
        differences.add_options(prefix, budget_table(), one, other);
        add_limits(differences, prefix, one, other);
        differences.add_things(
            prefix + "keys.", one.keys, other.keys,
            [&](const std::string& of_key, const KeyOptions& key, const KeyOptions& other_key) {
              differences.add_options(of_key, key_table(), key, other_key);
              add_limits(differences, of_key, key, other_key);
            });
      });
  add_order(differences, "clients", before.core.clients, after.core.clients);
  differences.add_things(
      "clients.", before.core.clients, after.core.clients,
      [&](const std::string& prefix, const ClientOptions& one, const ClientOptions& other) {
        differences.add_options(prefix, client_table(), one, other);
      });
  add_order(differences, "shard", before.core.shards, after.core.shards);
  differences.add_things(
      "shard.", before.core.shards, after.core.shards,
      [&](const std::string& prefix, const core::ShardOptions& one, const core::ShardOptions& other) {
        differences.add_options(prefix, shard_table(), one, other);
      });
  differences.add_things(
      "plugin.", before.server.plugins, after.server.plugins,
      [&](const std::string& prefix, const io::PluginOptions& one, const io::PluginOptions& other) {
        differences.add_options(prefix, plugin_table(), one, other);
        differences.add_value(prefix + "settings", settings::print_flat(one.settings),
                              settings::print_flat(other.settings));
      });
  differences.add_things(
      "http_key.", before.http.keys, after.http.keys,
      [&](const std::string& prefix, const admin::HttpKey& one, const admin::HttpKey& other) {
        differences.add_options(prefix, http_key_table(), one, other);
      });
  differences.add_things("keys_folder/", named_keys(before), named_keys(after),
                         [&](const std::string& prefix, const NamedKey& one, const NamedKey& other) {
                           differences.add_options(prefix, key_file_table(), one.file, other.file);
                         });
  return differences.take();
}

}  // namespace lanemq
