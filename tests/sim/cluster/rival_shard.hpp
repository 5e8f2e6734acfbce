// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <map>
#include <memory>

#include "broker/core/budgets/shared/slices.hpp"
#include "tests/sim/broker_host.hpp"
#include "tests/sim/cluster/bank_draws.hpp"
#include "tests/sim/cluster/cluster_witness.hpp"

namespace lanemq::sim {

/// Another shard's owner, as the bank sees it: the real Slices, with a clock and a connection of their own,
/// and jobs of two lanes that never end. It has a store elsewhere, of which nothing is simulated but the
/// time that a commit takes.
class RivalShard {
 public:
  /// All outlive it.
  struct Stage {
    Scheduler& scheduler;
    Random& random;
    Trace* trace;
    Database& database;
    ClusterWitness& witness;
  };
  /// `job`: what each of its jobs takes.
  RivalShard(const Stage& stage, const core::BudgetOptions& budget, const core::Amounts& job);

  void start();
  /// kill -9; another owner takes over soon. `heard`: the database hears of it.
  void kill(bool heard);
  void stop(core::Duration time);
  void cut(core::TimePoint until, bool up, bool down);
  void snap();
  /// Nothing befalls it any more.
  void heal();
  core::TimePoint last_sent() const { return last_sent_; }

 private:
  static constexpr std::size_t kLanes = 2;

  /// As the seed draws it.
  struct Kind {
    bool always_waits = false, dies_late = false;
    std::int64_t clock_ppm = 0;
  };

  void say(const std::string& what);
  core::TimePoint here() const;
  void arrive();
  void turn();
  void send(std::size_t lane, const core::Slices::Taken& taken);
  void call(std::uint16_t key, core::Duration transit, core::Duration time);
  void adopt();
  void wake();

  const Stage stage_;
  const core::BudgetOptions budget_;
  const core::Amounts job_;
  Kind kind_;
  Process process_;
  const std::shared_ptr<DatabaseWay> way_;
  std::uint64_t epoch_ = 0;
  std::unique_ptr<core::Slices> slices_;
  std::unique_ptr<BankDraws> draws_;
  std::array<std::int64_t, kLanes> waiting_{};
  struct Running {
    std::uint16_t key = core::Claim::kNoKey;
    core::TimePoint ends{};
  };
  std::map<std::uint64_t, Running> running_;  ///< calls, whichever owner has handed them over
  std::uint64_t calls_ = 0;
  core::TimePoint wakes_at_ = core::kNever;
  core::TimePoint last_sent_{};
};

}  // namespace lanemq::sim
