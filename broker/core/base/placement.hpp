// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <lanemq/shards.hpp>

#include "broker/core/base/options.hpp"

namespace lanemq::core {

/// Which shard this broker owns, which jobs belong to others, and what peers are told of all that. Immutable:
/// rules that change need a restart.
class Placement {
 public:
  explicit Placement(const Options& options);

  /// Empty: there are no shards.
  const std::string& own() const { return own_; }
  /// The shard that takes such jobs, if it is another one; null: this broker does. `tenant`: of the client.
  const Shard* elsewhere(std::string_view service, std::string_view tenant) const;

  /// `shards` of a pong, and of a welcome; empty: there are none.
  std::string_view told_clients() const { return told_clients_; }
  std::string_view told_workers() const { return told_workers_; }

 private:
  std::string own_;
  ShardMap shards_;  ///< with the endpoints for clients
  std::string told_clients_, told_workers_;
};

/// The shards as clients are told of them, and as workers are.
ShardMap shards_for_clients(const Options& options);
ShardMap shards_for_workers(const Options& options);

}  // namespace lanemq::core
