// SPDX-License-Identifier: Apache-2.0
#include "broker/io/peers/key_ring.hpp"

#include <utility>

namespace lanemq::io {
namespace {

/// Whether what a connection has done so far would not be allowed to it now. What a client may is asked with
/// each job; a worker said once what it serves.
bool is_another(const core::Identity& before, const core::Identity& now) {
  if (now.role == core::Identity::Role::worker) return now != before;
  return now.name != before.name || now.role != before.role || now.space != before.space;
}

}  // namespace

std::vector<std::string> KeyRing::replace(std::vector<PeerKey> keys) {
  auto table = std::make_shared<Table>();
  for (PeerKey& key : keys) {
    const auto known = table_->find(key.public_key);
    const bool expired =
        known != table_->end() && known->second.expired && known->second.not_after == key.not_after;
    table->insert_or_assign(key.public_key, Entry{std::move(key.identity), key.not_after, expired});
  }
  std::vector<std::string> gone;
  for (const auto& [public_key, before] : *table_) {
    const auto now = table->find(public_key);
    if (now == table->end() || is_another(before.identity, now->second.identity))
      gone.push_back(before.identity.name);
  }
  const std::lock_guard lock(mutex_);
  table_ = std::move(table);
  return gone;
}

std::vector<std::string> KeyRing::take_expired(WallTime now) {
  std::vector<std::string> names;
  bool changed = false;
  for (const auto& [public_key, entry] : *table_) {
    const bool is_over = entry.not_after < now;
    changed = changed || is_over != entry.expired;
    if (is_over && !entry.expired) names.push_back(entry.identity.name);
  }
  if (!changed) return names;
  auto table = std::make_shared<Table>(*table_);
  // Not for ever: a clock that ran ahead may have been set right.
  for (auto& [public_key, entry] : *table)
    entry.expired = entry.not_after < now;
  const std::lock_guard lock(mutex_);
  table_ = std::move(table);
  return names;
}

const core::Identity* KeyRing::find(std::string_view public_key) const {
  const auto place = table_->find(public_key);
  return place == table_->end() || place->second.expired ? nullptr : &place->second.identity;
}

std::string KeyRing::why_shut(std::string_view public_key, Door door, WallTime now) const {
  std::shared_ptr<const Table> table;
  {
    const std::lock_guard lock(mutex_);
    table = table_;
  }
  const auto place = table->find(public_key);
  if (place == table->end()) return "no such key";
  const core::Identity& identity = place->second.identity;
  if (place->second.not_after < now) return "the time of key \"" + identity.name + "\" is over";
  if (opens(identity, door)) return {};
  return "key \"" + identity.name + "\" is " + (door == Door::clients ? "a worker's" : "no worker's");
}

}  // namespace lanemq::io
