// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include <zmq.hpp>

#include <lanemq/shards.hpp>
#include <lanemq/worker.hpp>

#include "worker/base/shard_lease.hpp"
#include "worker/links/broker_link.hpp"
#include "worker/links/capacity_split.hpp"
#include "worker/session/session.hpp"

namespace lanemq::worker {

/// The links of a worker, one for each shard that its brokers tell of, and how its places are shared among
/// them. The first link leads where the worker's options say, and is the only one where there are no shards.
///
/// A shard is left when another one's broker does not name it any more. At most ShardMap::kShardsMax links.
/// One thread: the loop's.
class ShardLinks {
 public:
  using Links = std::vector<std::unique_ptr<BrokerLink>>;

  /// `context` and `options` outlive the links. `session`: without shard.
  ShardLinks(zmq::context_t& context, const WorkerOptions& options, SessionOptions session);

  /// Opens the first link. Throws as BrokerLink::open() does.
  void open(TimePoint now) { links_.front()->open(now); }
  /// Never empty. Changes in advance() alone.
  const Links& all() const { return links_; }
  bool several() const { return links_.size() > 1; }
  /// Whose lease it is, as it is inside the worker; null: its shard was left.
  BrokerLink* of(wire::Lease lease) const { return places_.links[place_of(lease)]; }

  /// A broker says which shards there are; advance() follows.
  void told(BrokerLink& link, const ShardsTold& told);
  /// Makes links to new shards, leaves those that are gone, and shares the places. True: all() is another
  /// one.
  bool advance(TimePoint now, BrokerLink::Owner& owner);
  /// When advance() has work next.
  TimePoint next_wakeup() const;
  /// Drains all. From now on no shard comes or goes.
  void drain(TimePoint deadline, TimePoint now, BrokerLink::Owner& owner);
  void leave(TimePoint now, BrokerLink::Owner& owner);
  bool all_left() const;

  // Of all links, those that were left included in the counters.
  std::size_t running() const;
  std::size_t outcomes() const;
  bool any_serves() const;
  SessionCounters counters() const;

 private:
  bool remove_left();
  bool follow(TimePoint now, BrokerLink::Owner& owner);
  bool is_named(const BrokerLink& link) const;
  void drain(BrokerLink& link, TimePoint now, BrokerLink::Owner& owner);
  bool add(const Shard& shard, TimePoint now);
  BrokerLink* named(std::string_view shard) const;
  void share_places(TimePoint now);

  /// Each link by its place; a new one gets the place behind the last one's.
  struct Places {
    std::array<BrokerLink*, kShardPlacesMax> links{};
    ShardPlace last = 0;
  };

  zmq::context_t& context_;
  const WorkerOptions& options_;
  const SessionOptions session_;
  Links links_;
  Places places_;
  CapacitySplit split_;
  CapacitySplit::Shares shares_;  ///< in the order of links_
  TimePoint shift_at_{};
  bool stopping_ = false, has_news_ = false, said_turns_ = false;
  SessionCounters of_left_;  ///< of links that are gone
};

}  // namespace lanemq::worker
