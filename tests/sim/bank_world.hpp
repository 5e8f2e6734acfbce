// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "broker/core/budgets/shared/bank.hpp"
#include "broker/core/budgets/shared/slices.hpp"
#include "tests/sim/random.hpp"
#include "tests/sim/scheduler.hpp"
#include "tests/sim/strict_upstream.hpp"
#include "tests/sim/world.hpp"

namespace lanemq::sim {

/// What a run of the bank is like.
struct BankPlan {
  core::BudgetOptions budget;
  int offline_share = 0;
  std::size_t shards = 1, lanes = 1;
  std::vector<int> holds;  ///< of the lanes
  std::vector<std::vector<double>>
      per_second;                ///< jobs of each shard, by lanes; kSaturated: as many as may go
  std::int64_t tokens_most = 0;  ///< of a job; 0: none
  core::Duration turn{};         ///< each shard gets so many jobs in it that it cannot have none by chance
  core::Duration period{}, length{};
  core::Duration transit_most{};  ///< from a hand-over to the upstream's counter
  core::Duration commit_most = std::chrono::milliseconds(8);
  core::Duration link_most = std::chrono::milliseconds(2);  ///< to the bank, one way
  int lost_mille = 0, late_mille = 0;                       ///< draws
  core::Duration trouble_every{};                           ///< kills and pauses of owners; 0: none
  core::Duration lease = std::chrono::seconds(5);           ///< until another owner takes over
  bool clocks_differ = false, database_jumps = false;
  bool loses_rows = false;  ///< the bank's row is gone, or is as it was a while before
  bool used_less = false;   ///< than was expected
  /// Whether upstreams say what remains: as of when they took the call in, or of their answer.
  enum class Says : std::uint8_t { nothing, at_intake, at_answer } says_remaining = Says::nothing;
  core::Duration foreign_every{};  ///< others use one request of the account, one after the other; 0: nobody

  static constexpr double kSaturated = 1e9;
};

/// What a run came to.
struct BankFigures {
  double use = 0;                          ///< of the limit, once it was full the first time
  double places_use = 0;                   ///< of the concurrency
  double least_share = 0, most_share = 0;  ///< of a saturated shard, by an even share
  core::Duration top_p50{}, top_p99{};     ///< what the top lane's jobs waited for the budget
  std::size_t top_jobs = 0;
  std::size_t draws = 0, lost = 0, row_bytes = 0;
};

/// One run of a shared budget: owners of shards that draw from one row, with kills, pauses, lost and late
/// draws and clocks of other rates, and one upstream that counts every window by a rule of its own. It must
/// never have a call to refuse.
class BankWorld {
 public:
  BankWorld(std::uint64_t seed, const BankPlan& plan, Trace* trace);
  ~BankWorld();

  /// A seed's mixture of trouble.
  static BankPlan draw_plan(std::uint64_t seed);

  /// Throws Violation.
  RunReport run();
  const BankFigures& figures() const { return figures_; }
  std::string describe() const;

 private:
  struct Job;
  struct Shard;
  struct Owner;
  using OwnerLink = std::shared_ptr<Owner>;

  void start_shard(std::size_t place);
  void new_owner(Shard& shard);
  void arrive(Shard& shard, std::size_t lane);
  void turn(const OwnerLink& owner);
  void hand_over(const OwnerLink& owner, std::size_t lane, const core::Slices::Taken& taken, const Job& job);
  void send(const OwnerLink& owner, std::size_t lane, std::uint64_t use, Job job);
  void call(const OwnerLink& owner, std::uint64_t use, const Job& job);
  void say_wants(Owner& owner);
  void wake(const OwnerLink& owner);
  void draw(const OwnerLink& owner);
  std::optional<core::Drawn> at_bank(const core::Draw& draw);
  /// Does it after so much real time, once the owner is not stopped; never, if it has died by then.
  void after(const OwnerLink& owner, core::Duration wait, std::function<void()> what);
  void make_trouble();
  void change_clock();
  void keep_row();
  void lose_row();
  void use_as_others();
  void note(const std::string& line);
  core::BankClock database_clock() const;
  /// Before the end all trouble is over for so long.
  core::Duration calm() const;
  void find_figures();
  void check_liveness() const;

  Random random_, added_;
  BankPlan plan_;
  Trace* trace_;
  Scheduler scheduler_;
  std::string row_;
  std::deque<std::string> earlier_rows_;  ///< one every few seconds
  core::Duration database_ahead_{};
  std::uint64_t database_server_ = 1;
  std::vector<std::unique_ptr<Shard>> shards_;
  StrictUpstream upstream_;
  std::vector<core::Duration> top_waits_;
  BankFigures figures_;
  RunReport report_;
  std::uint64_t jobs_ = 0;
};

/// Prints the figures that README.md names, each from a run of its own. False where one is not reached.
bool print_bank_figures();

}  // namespace lanemq::sim
