// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/gateway/gateway.hpp"

namespace lanemq::gateway {

/// After so long without an answer a broker is away.
inline constexpr std::chrono::milliseconds kSilenceMax{5'000};

/// A line for each service with jobs and no worker, from a broker's statistics.
std::string unserved_lines(const std::string& stats);

/// Whether the brokers of the other shards answer, beside the one whose endpoint the gateway has, and what
/// they lack workers for. Without shards it does nothing. Belongs to the loop's thread; outlives the client's
/// callbacks.
class ShardWatch {
 public:
  explicit ShardWatch(Gateway& gateway) : gateway_(gateway) {}
  ShardWatch(const ShardWatch&) = delete;
  ShardWatch& operator=(const ShardWatch&) = delete;

  /// The gateway's broker has said which shards there are.
  void told(const BrokerPong& pong);
  /// Asks those of which no answer is awaited. To be called time and again.
  void ask();

  bool is_away(const std::string& shard) const;
  /// Each of them, and whether it has answered in the last five seconds.
  std::vector<std::pair<std::string, bool>> connected() const;
  /// The gateway's own shard; empty: there are none.
  const std::string& home() const { return home_; }
  /// A line for each shard that is away, and each service without a worker.
  std::string lines() const;

 private:
  struct Shard {
    Loop::TimePoint since;  ///< it is asked
    std::optional<Loop::TimePoint> answered{}, asked_for_stats{};
    bool asked = false;
    std::string unserved{};
  };
  void ask(const std::string& name, Shard& shard);

  Gateway& gateway_;
  std::string home_;
  std::map<std::string, Shard> shards_;
};

}  // namespace lanemq::gateway
