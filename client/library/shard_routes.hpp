// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <lanemq/client.hpp>
#include <lanemq/shards.hpp>

#include "client/library/session.hpp"

namespace lanemq::client {

/// Which shard a request goes to, as names: from what the broker at the client's endpoint, the home broker,
/// says of shards, and from where jobs went. Pure; not thread-safe.
class ShardRoutes {
 public:
  /// Jobs whose shards are remembered; the older half goes.
  static constexpr std::size_t kRememberedMax = 131'072;
  /// Services and clients that brokers have sent on; beyond that all of them begin anew.
  static constexpr std::size_t kSentOnMax = 4'096;
  /// How often brokers may send one job on. Rules that are changed broker by broker may point in a circle.
  static constexpr int kMovesMax = 4;

  /// Takes in what the home broker says. False: its rules cannot be read, and the earlier ones stay.
  bool learn(const ClusterWord& word);

  /// The home broker's shard; empty: it has none, or has not spoken yet.
  const std::string& home() const { return home_; }
  /// Empty: there are no shards, or nobody has said so yet.
  const ShardMap& shards() const { return shards_; }

  /// Where a new job of that service and client goes; empty: to the home broker.
  std::string_view of_new(const std::string& service, const std::string& client) const;
  /// The other shards that may take such a job, in the order of the rules: none knows the client's tenant but
  /// brokers. Empty: there is no such client, a broker has said where its jobs go, or no rule for the service
  /// names a tenant.
  std::vector<std::string_view> others_of_new(const std::string& service, const std::string& client) const;
  /// A broker has sent a job of those on to that shard, and so the next ones go there, as long as the rules
  /// stay. It knows the tenant of the client.
  void sent_on(const std::string& service, const std::string& client, std::string_view shard);
  /// Where gateways share out their keys' limits, so that all of them do at one place; empty: at the home
  /// broker.
  std::string_view of_spend() const;

  /// Where the job went last; empty: it is not remembered. Valid until the next remember().
  std::string_view of_job(const std::string& id) const;
  void remember(const std::string& id, std::string_view shard);

 private:
  using Places = std::unordered_map<std::string, std::string>;

  std::string home_, tenant_;
  ShardMap shards_;
  Places young_, old_;  ///< shards by ids
  Places sent_on_;      ///< shards by service and client
};

/// The search for the shard that knows a job, when all were asked for its state. Pure.
class JobSearch {
 public:
  enum class State : unsigned char {
    open,     ///< go on
    found,    ///< by the answer that was heard last
    unknown,  ///< all shards have said so
    unsure,   ///< all that have answered have said so
  };

  /// So many shards were asked, and have so long to answer.
  JobSearch(std::size_t asked, std::chrono::milliseconds time) : open_(asked), time_(time) {}

  /// A shard's answer, or why there is none. Requires: state() is open.
  State hear(std::string_view shard, const Outcome& answer);
  State state() const { return state_; }
  /// What the caller is told where the search is unsure.
  ClientError why_unsure(const std::string& id) const;

 private:
  std::size_t open_;
  std::chrono::milliseconds time_;
  State state_ = State::open;
  std::vector<std::string> silent_;     ///< shards that have not answered
  std::optional<ClientError> refusal_;  ///< the first of a broker, which may take no key of this client
};

/// What the caller of a job is told that was sent on for the last time, from one shard to the other.
ClientError sent_on_too_often(const std::string& id, std::string_view from, std::string_view to);

}  // namespace lanemq::client
