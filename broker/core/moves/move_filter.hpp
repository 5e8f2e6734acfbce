// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <absl/container/flat_hash_set.h>

#include <lanemq/shards.hpp>

#include "broker/core/base/options.hpp"
#include "broker/core/jobs/stored.hpp"
#include "broker/core/scheduler/clients.hpp"

namespace lanemq::core {

/// Which jobs and results go from one store to another.
struct MoveScope {
  std::string tenant, service;  ///< globs; one of them is empty
  /// The entries that say whose tenant a client is that came without a key.
  std::vector<ClientOptions> clients{};
  ShardMap shards{};              ///< the rules that say whose a job is; empty: there are none
  std::string webhook_service{};  ///< whose jobs a broker makes itself, whatever the rules say; empty: none
};

/// Tells of rows as a store has them whether they are in a scope.
class MoveFilter {
 public:
  explicit MoveFilter(MoveScope scope);

  /// Whether an id or a group stands in the space of the tenant.
  bool has_name(std::string_view name) const;
  /// Whether a client of that name is the tenant's: by the space that its name stands in, or its entry.
  bool has_client(std::string_view client) const;
  /// Remembers the client of a job that it has, for results, which have no name of theirs.
  bool has(const wire::Submit& fields);
  /// Whether the scope has the result of a job that is not kept. Without a key the result is its tenant's, if
  /// the scope names that, or one of its clients has an entry, or a job that has() was told of before.
  bool has(const StoredResult& result) const;
  /// The shard that owns the job by the rules; null: no rule matches.
  const Shard* shard_of(const wire::Submit& fields) const;
  /// The same of the result of a job that is not kept; null: its client's tenant is not known.
  const Shard* shard_of(const StoredResult& result) const;
  /// For people: `tenant "acme"`.
  std::string text() const;

 private:
  void add_marks(std::string_view client);

  const MoveScope scope_;
  const Clients clients_;                     // for their options alone
  absl::flat_hash_set<std::uint64_t> marks_;  // of the tenant, and of its clients
};

}  // namespace lanemq::core
