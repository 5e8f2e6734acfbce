// SPDX-License-Identifier: Apache-2.0
#include "broker/core/base/placement.hpp"

#include <utility>
#include <vector>

namespace lanemq::core {

ShardMap shards_for_clients(const Options& options) {
  std::vector<Shard> shards;
  for (const ShardOptions& shard : options.shards)
    shards.push_back({shard.name, shard.services, shard.tenants, shard.clients});
  return ShardMap(std::move(shards));
}

ShardMap shards_for_workers(const Options& options) {
  std::vector<Shard> shards;
  for (const ShardOptions& shard : options.shards)
    shards.push_back({.name = shard.name, .endpoints = shard.workers});
  return ShardMap(std::move(shards));
}

Placement::Placement(const Options& options) : own_(options.shard), shards_(shards_for_clients(options)) {
  if (shards_.empty()) return;
  told_clients_ = encode_shards(shards_);
  told_workers_ = encode_shards(shards_for_workers(options));
}

const Shard* Placement::elsewhere(std::string_view service, std::string_view tenant) const {
  if (shards_.empty()) return nullptr;
  const Shard* const shard = shards_.of(service, tenant);
  return shard != nullptr && shard->name != own_ ? shard : nullptr;
}

}  // namespace lanemq::core
