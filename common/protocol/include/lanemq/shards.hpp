// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lanemq {

/// What one broker owns: a name, a store of its own, and the jobs whose service and tenant its rules name.
/// Patterns are globs.
struct Shard {
  std::string name;
  std::vector<std::string> services{}, tenants{};  ///< empty: any
  std::vector<std::string> endpoints{};            ///< of its brokers, of which one serves at a time

  /// Whether the rules name such a job. `tenant` is empty where the job's client has none.
  bool matches(std::string_view service, std::string_view tenant) const;

  bool operator==(const Shard&) const = default;
};

/// The shards of a cluster in the order of their rules: the first that matches takes a job, so that a job
/// that is submitted again comes to the same one. Never goes by the id or the body. Immutable.
class ShardMap {
 public:
  static constexpr std::size_t kShardsMax = 64;
  /// Bytes of what a peer is told of all of them: half of a header.
  static constexpr std::size_t kBytesMax = std::size_t{8} * 1024;

  ShardMap() = default;
  explicit ShardMap(std::vector<Shard> shards) : shards_(std::move(shards)) {}

  bool empty() const { return shards_.empty(); }
  const std::vector<Shard>& all() const { return shards_; }
  /// Null: there is none of that name.
  const Shard* find(std::string_view name) const;
  /// Whose job it is; null: no rule matches.
  const Shard* of(std::string_view service, std::string_view tenant) const;

  bool operator==(const ShardMap&) const = default;

 private:
  std::vector<Shard> shards_;
};

/// The value of `shards` in a pong or a welcome, as msgpack: a list of maps.
std::string encode_shards(const ShardMap& shards);
/// Reads it. None where the bytes are no such list, or have more than kShardsMax; unknown fields are skipped.
std::optional<ShardMap> decode_shards(std::string_view msgpack);

}  // namespace lanemq
