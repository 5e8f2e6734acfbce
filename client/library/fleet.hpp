// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lanemq/client.hpp>

#include "client/library/engine.hpp"
#include "client/library/request_desk.hpp"
#include "client/library/shard_routes.hpp"

namespace lanemq::client {

/// The engines of one client: the home engine, at the endpoints that were given, and where its broker says
/// that there are shards one for each other shard, made when there is something for it.
///
/// Without shards it is the home engine and nothing more. As an Engine it has no thread, and its owner calls
/// process() when fd() is readable or next_wakeup() has come. Not thread-safe.
class Fleet {
 public:
  /// Throws as Link does. `options` and `desk` outlive this.
  Fleet(const ClientOptions& options, RequestDesk& desk);
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  // Each as Engine's:
  void begin(Request&& request);
  bool seen(const std::string& id, std::int64_t seq);
  void end(Handler handler, Outcome outcome) { home_.end(std::move(handler), std::move(outcome)); }
  void process();
  std::optional<TimePoint> next_wakeup() const;
  int fd() const { return home_.fd(); }
  void close();

  /// Of all engines, those that were let go included.
  ClientCounters counters() const;
  /// Where the job of that id went last, as far as it is remembered; else where a new job of that service and
  /// client goes. Empty: to the home broker.
  std::string_view shard_of(const std::string& service, const std::string& client,
                            const std::string& id) const;
  /// Where spend() goes; empty: to the home broker.
  std::string_view shard_of_spend() const { return routes_.of_spend(); }

 private:
  static constexpr std::size_t kShardsMax = ShardMap::kShardsMax;

  /// An engine of another shard than the home broker's.
  struct Other {
    Other(const ClientOptions& options, RequestDesk& desk, const std::string& shard)
        : with(options), name(shard), engine(with, desk, shard) {}
    const ClientOptions with;
    const std::string name;
    Engine engine;
    bool gone = false;  ///< the rules do not name it any more: it goes when nothing is pending
  };
  /// A request about a job that was asked for before it was known whether there are shards.
  struct Early {
    Request request;
    Outcome answer{};  ///< the home broker's, who does not know the job
  };
  /// A request about a job while all shards are asked for it.
  struct Sought {
    Request request;
    JobSearch search;
  };

  bool alone() const { return routes_.shards().empty() && others_.empty(); }
  Other* other(std::string_view shard) const;
  const Engine* known_engine(std::string_view shard) const;
  bool answers(std::string_view shard) const;
  std::string_view of_new(const std::string& service, const std::string& client) const;
  Engine* engine_of(std::string_view shard, const std::vector<std::string>& endpoints = {});
  Engine* make(const std::string& shard, std::vector<std::string> endpoints);
  template <class Call>
  void each_engine(Call call);

  void begin_at(std::string_view shard, Request request);
  void begin_about_job(Request request);
  void begin_early(Request request);
  void answered_early(std::uint64_t ref, Outcome&& answer);
  void told_of_shards(std::uint64_t ref, const Outcome& pong);
  void seek(Request request);
  void found(std::uint64_t ref, const std::string& shard, Outcome&& answer);
  void begin_watch(Request request);
  void watch_at(Engine& engine, std::uint64_t ref);
  void watch_ended(std::uint64_t ref, Outcome&& outcome);
  void finish(Request request, Outcome outcome);
  void finish_later(Request request, Outcome outcome);

  std::optional<BrokerSilence> silence() const;

  void learn();
  void move(Engine& engine, const std::string& shard);
  void let_go();
  void log(const std::string& line);

  const ClientOptions& options_;
  RequestDesk& desk_;
  Engine home_;
  ShardRoutes routes_;
  std::vector<std::unique_ptr<Other>> others_;
  std::map<std::uint64_t, Early> early_;      ///< by ref; at most as many as the desk has places
  std::map<std::uint64_t, Sought> sought_;    ///< likewise
  std::map<std::uint64_t, Request> watches_;  ///< likewise; each is at all engines, as a copy
  ClientCounters before_;                     ///< of engines that were let go
};

}  // namespace lanemq::client
