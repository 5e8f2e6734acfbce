// SPDX-License-Identifier: Apache-2.0
// What may change of the settings while the program runs.
#include <map>
#include <utility>

#include <lanemq/text.hpp>

#include "client/gateway/settings.hpp"

namespace lanemq::gateway {
namespace {

/// What a program holds from its start on.
struct Fixed {
  std::string_view what;
  bool (*same)(const Settings& a, const Settings& b);
};
constexpr Fixed kFixed[] = {
    {"broker", [](const Settings& a, const Settings& b) { return a.broker == b.broker; }},
    {"listen and the bounds and timeouts of HTTP",
     [](const Settings& a, const Settings& b) { return a.server == b.server; }},
    {"job_body_bytes_max",
     [](const Settings& a, const Settings& b) { return a.job_body_bytes_max == b.job_body_bytes_max; }},
    {"state and the bounds of files and batches",
     [](const Settings& a, const Settings& b) { return a.batches == b.batches; }},
    {"log_level", [](const Settings& a, const Settings& b) { return a.log_level == b.log_level; }},
    {"log_format", [](const Settings& a, const Settings& b) { return a.log_format == b.log_format; }}};

/// The names of those of `some` that have none in `others` for which `counts` is true.
template <class Item, class Counts>
std::string names_without(const std::vector<Item>& some, const std::vector<Item>& others, Counts counts) {
  std::map<std::string_view, const Item*> by_name;
  for (const Item& other : others)
    by_name.emplace(other.name, &other);
  std::string names;
  std::size_t found = 0;
  for (const Item& item : some) {
    const auto other = by_name.find(item.name);
    if (!counts(item, other == by_name.end() ? nullptr : other->second)) continue;
    if (++found <= NamedChange::kNamesTold) names += (found > 1 ? ", " : "") + printable(item.name);
  }
  if (found > NamedChange::kNamesTold)
    names += " and " + std::to_string(found - NamedChange::kNamesTold) + " more";
  return names;
}

template <class Item>
void add_changes(std::string_view what, const std::vector<Item>& before, const std::vector<Item>& after,
                 std::vector<NamedChange>& changes) {
  const auto is_missing = [](const Item&, const Item* other) { return other == nullptr; };
  const auto is_other = [](const Item& item, const Item* other) {
    return other != nullptr && !(item == *other);
  };
  for (NamedChange change : {NamedChange{what, "removed", names_without(before, after, is_missing)},
                             NamedChange{what, "added", names_without(after, before, is_missing)},
                             NamedChange{what, "changed", names_without(after, before, is_other)}})
    if (!change.names.empty()) changes.push_back(std::move(change));
}

}  // namespace

std::vector<NamedChange> named_changes(const Settings& before, const Settings& after) {
  std::vector<NamedChange> changes;
  add_changes("key", before.keys, after.keys, changes);
  add_changes("model", before.models, after.models, changes);
  return changes;
}

std::vector<std::string> take_over(const Settings& wanted, Settings& running) {
  // A file that is cut while it is written, or not there yet, has no keys.
  if (running.auth == Auth::keys && wanted.auth == Auth::none)
    throw UsageError(
        "callers need a key since the start (auth), and the file has none; to open the gateway to "
        "everybody, restart it");
  std::vector<std::string> left;
  for (const Fixed& fixed : kFixed)
    if (!fixed.same(wanted, running)) left.emplace_back(fixed.what);
  running.insecure = wanted.insecure;
  running.openai_service = wanted.openai_service;
  running.anthropic_service = wanted.anthropic_service;
  running.lanes = wanted.lanes;
  running.commit = wanted.commit;
  running.keep_alive = wanted.keep_alive;
  running.drain_delay = wanted.drain_delay;
  running.drain_timeout = wanted.drain_timeout;
  running.idempotency_retain = wanted.idempotency_retain;
  running.detach = wanted.detach;
  running.retry_grace = wanted.retry_grace;
  running.public_url = wanted.public_url;
  running.forward_service_tier = wanted.forward_service_tier;
  running.auth = wanted.auth;
  running.hosts = wanted.hosts;
  running.keys = wanted.keys;
  running.models = wanted.models;
  return left;
}

}  // namespace lanemq::gateway
