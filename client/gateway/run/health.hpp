// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/gateway/apis/http_words.hpp"
#include "client/gateway/door/gateway.hpp"
#include "client/gateway/run/shard_watch.hpp"
#include "common/http/server/server.hpp"

namespace lanemq::gateway {

class BatchService;

/// Whether the broker answers, and which services it has jobs for and no worker, asked time and again;
/// `/healthz`, `/readyz` and `/metrics`.
class Health {
 public:
  Health(Gateway& gateway, const HttpServer& server);

  void add_routes(Router& router);
  /// Adds the figures of `batches`, which outlives this, to the metrics.
  void watch_batches(const BatchService& batches) { batches_ = &batches; }
  /// Whether the broker has not answered for broker_wait, or never since the start; of several shards: all of
  /// them.
  bool broker_is_away() const;
  /// The shard that takes such jobs, if it has not answered for broker_wait; empty: none.
  std::string away_shard(const std::string& service, const std::string& client) const;
  /// Whether the broker, or that of any shard, has answered in the last five seconds.
  bool broker_answers() const;
  void watch();

 private:
  void ask_for_unserved();
  void compare_lanes(const std::vector<std::string>& there);
  HttpAnswer ready() const;
  bool home_is_silent(std::chrono::milliseconds silence_max) const;
  /// Shards, and whether their brokers answer; where there are none the broker alone, without a name.
  std::vector<std::pair<std::string, bool>> connected() const;

  Gateway& gateway_;
  const HttpServer& server_;
  const BatchService* batches_ = nullptr;
  ShardWatch shards_;
  std::unique_ptr<Loop::Timer> timer_;
  bool asked_ = false;
  bool refused_ = false;  ///< the last ping was: what listens there is no broker's endpoint for clients
  bool asked_for_unserved_ = false;
  std::optional<Loop::TimePoint> unserved_asked_at_;
  std::string unserved_;  ///< a line each, for /readyz
  std::vector<std::string> broker_lanes_;
  LanesMissing lanes_missing_;
  const Loop::TimePoint began_;
  std::optional<Loop::TimePoint> answered_;
};

}  // namespace lanemq::gateway
