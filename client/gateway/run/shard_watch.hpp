// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/gateway/door/gateway.hpp"

namespace lanemq::gateway {

/// Figures say that a broker is connected until it has not answered for so long.
inline constexpr std::chrono::milliseconds kSilenceMax{5'000};

/// A line for each service with jobs and no worker, from a broker's statistics.
std::string unserved_lines(const std::string& stats);

/// The names of a broker's lanes, the highest first, from its statistics; empty: they do not say.
std::vector<std::string> lanes_of(const std::string& stats);

/// Whether the brokers of the shards answer, and what those lack workers for that the gateway has no endpoint
/// of. Knows them by what its own broker, of the home shard, has said; also while that one is away. Without
/// shards it does nothing. Belongs to the loop's thread; outlives the client's callbacks.
class ShardWatch {
 public:
  explicit ShardWatch(Gateway& gateway) : gateway_(gateway) {}
  ShardWatch(const ShardWatch&) = delete;
  ShardWatch& operator=(const ShardWatch&) = delete;

  /// The gateway's broker has said which shards there are.
  void told(const BrokerPong& pong);
  /// Asks the others, of which no answer is awaited. To be called time and again.
  void ask();

  /// No: there are no shards, or the home broker has not spoken yet.
  bool any() const { return !shards_.empty(); }
  /// Whether that one has not answered for broker_wait.
  bool is_away(const std::string& shard) const;
  bool all_away() const;
  /// Each shard, and whether it has answered in the last five seconds.
  std::vector<std::pair<std::string, bool>> connected() const;
  /// The shard whose broker spoke last at the gateway's endpoints; empty: there are none.
  const std::string& home() const { return home_; }
  /// A line for each shard, whether it answers; and one for each service of the others without a worker.
  std::string lines() const;

 private:
  struct Shard {
    Loop::TimePoint since;  ///< it is asked
    std::optional<Loop::TimePoint> answered{}, asked_for_stats{};
    bool asked = false;
    std::string unserved{};
  };
  void ask(const std::string& name, Shard& shard);
  std::chrono::nanoseconds silence_of(const Shard& shard) const;

  Gateway& gateway_;
  std::string home_;
  std::map<std::string, Shard> shards_;  ///< all of the rules, the home one included
};

}  // namespace lanemq::gateway
