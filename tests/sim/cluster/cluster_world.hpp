// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/cluster/cluster_peers.hpp"
#include "tests/sim/cluster/rival_shard.hpp"
#include "tests/sim/world.hpp"

namespace lanemq::sim {

/// One run of several brokers on one database: a seed's mixture of trouble of processes, networks, clocks and
/// servers, until all is well and everything is over.
class ClusterWorld {
 public:
  ClusterWorld(std::uint64_t seed, std::size_t events_max, Trace* trace);
  ~ClusterWorld();

  /// Throws Violation.
  RunReport run();
  /// In a few lines, for whoever reads a trace.
  std::string describe() const;

 private:
  void later(Duration wait, std::function<void()> what);
  void start_trouble();
  void make_trouble(const std::string& kind);
  void trouble_a_member(const std::string& kind, Member& member);
  void trouble_the_database(const std::string& kind);
  void trouble_the_bank(const std::string& kind);
  void fail_over(bool old_lives);
  void doubt();
  void overtake();
  void lose_last();
  void run_until(core::TimePoint end);
  Member& some_member();
  Member* owner();
  void settle();
  void check_rival(core::TimePoint healed_at);
  std::size_t pending() const;

  /// `added`: for what came later, so that seeds stay as they are.
  struct Draws {
    Random all, added;
  } random_;
  ClusterPlan plan_;
  const std::size_t events_max_;
  Trace* trace_;
  Scheduler scheduler_;
  ClusterWitness witness_;
  Database database_;
  std::uint64_t batches_ = 0;
  std::vector<std::unique_ptr<Member>> members_;
  std::unique_ptr<RivalShard> rival_;  ///< null: the budget is not shared
  ClusterStage stage_;
  struct Peers {
    std::vector<std::unique_ptr<ClusterClient>> clients;
    std::vector<std::unique_ptr<ClusterWorker>> workers;
  } peers_;
};

}  // namespace lanemq::sim
