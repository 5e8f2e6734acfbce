// SPDX-License-Identifier: Apache-2.0
// The settings that may change while the program runs.
#include <map>
#include <utility>

#include <lanemq/text.hpp>

#include "client/gateway/door/settings.hpp"

namespace lanemq::gateway {
namespace {

/// Settings that need a restart.
struct Fixed {
  std::string_view what;
  bool (*same)(const Settings& a, const Settings& b);
  void (*keep)(const Settings& running, Settings& changed);
};
template <auto Member>
constexpr Fixed fixed(std::string_view what) {
  return {what, [](const Settings& a, const Settings& b) { return a.*Member == b.*Member; },
          [](const Settings& running, Settings& changed) { changed.*Member = running.*Member; }};
}
constexpr Fixed kFixed[] = {fixed<&Settings::broker>("broker"),
                            fixed<&Settings::server>("listen and the bounds and timeouts of HTTP"),
                            fixed<&Settings::job_body_bytes_max>("job_body_bytes_max"),
                            {"whether TLS is spoken (tls_certificate)",
                             [](const Settings& a, const Settings& b) {
                               return a.tls_certificate.empty() == b.tls_certificate.empty();
                             },
                             [](const Settings& running, Settings& changed) {
                               if (running.tls_certificate.empty() == changed.tls_certificate.empty()) return;
                               changed.tls_certificate = running.tls_certificate;
                               changed.tls_key = running.tls_key;
                               changed.tls_certificate_file = running.tls_certificate_file;
                               changed.tls_key_file = running.tls_key_file;
                             }},
                            fixed<&Settings::batches>("state and the bounds of files and batches"),
                            fixed<&Settings::otlp>("otlp"),
                            fixed<&Settings::log_level>("log_level"),
                            fixed<&Settings::log_format>("log_format"),
                            fixed<&Settings::keep_cores>("keep_cores")};

/// Names of items of `some` for which `counts` is true, and which `others` does not have.
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

ByApi<std::string> usual_services() {
  ByApi<std::string> services;
  for (const Api* api : kApis)
    services[*api] = api->service;
  return services;
}

std::vector<NamedChange> named_changes(const Settings& before, const Settings& after) {
  std::vector<NamedChange> changes;
  add_changes("key", before.keys, after.keys, changes);
  add_changes("model", before.models, after.models, changes);
  return changes;
}

std::vector<std::string> take_over(const Settings& wanted, Settings& running) {
  // A file that is cut or not complete yet has no keys.
  if (running.auth == Auth::keys && wanted.auth == Auth::none)
    throw UsageError(
        "callers need a key since the start (auth), and the file has none; to open the gateway to "
        "everybody, restart it");
  std::vector<std::string> left;
  Settings changed = wanted;
  for (const Fixed& one : kFixed) {
    if (!one.same(wanted, running)) left.emplace_back(one.what);
    one.keep(running, changed);
  }
  running = std::move(changed);
  return left;
}

}  // namespace lanemq::gateway
