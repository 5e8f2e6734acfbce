// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "broker/io/commits/handover_gate.hpp"
#include "broker/io/store/restore.hpp"
#include "tests/sim/broker_host.hpp"
#include "tests/sim/cluster/bank_draws.hpp"
#include "tests/sim/cluster/cluster_witness.hpp"
#include "tests/sim/cluster/database.hpp"
#include "tests/sim/cluster/owner_commits.hpp"
#include "tests/sim/cluster/process.hpp"

namespace lanemq::sim {

/// What the brokers of a cluster have in common.
struct ClusterPlan {
  Swarm swarm;
  core::Duration lease{}, away_max{};
  core::Duration load_max{};          ///< a load takes so long at most
  core::Duration restart_max{};       ///< until a process that ended is there again
  std::int64_t tokens_most = 0;       ///< of a job; 0: none
  int trouble_pause = 1;              ///< seconds between two troubles, at most
  std::vector<std::string> troubles;  ///< of which each comes equally often
};

/// A broker of a cluster: a candidate with the real OwnerWatch, which makes itself the owner, loads by the
/// real restore, and then serves with the real core. The threads around these are those of the broker.
class Member final : public BrokerHost {
 public:
  Member(const ClusterPlan& plan, std::size_t number, Scheduler& scheduler, Random& random, Trace* trace,
         Database& database, ClusterWitness& witness, std::uint64_t& batches);

  /// Its ports are bound.
  bool serves() const { return broker_ != nullptr; }
  /// Which of its lives serves: another number after each start.
  std::uint64_t life() const { return process_.life(); }
  bool is_stopped() const { return process_.is_stopped(); }

  void start();
  /// kill -9, or its machine dies: then the database hears nothing of that.
  void kill(bool machine);
  void stop(core::Duration time, bool sleeps);
  void go_on();
  /// Ends in good order: gives the store back.
  void leave();
  /// Nothing passes between it and the database until then.
  void cut(core::TimePoint until, bool up, bool down);
  /// Nor between it and the bank; all else goes on.
  void cut_bank(core::TimePoint until, bool up, bool down);
  void snap_bank();
  void mend();
  /// The network breaks its connections to the database.
  void snap();
  void set_wall(core::Duration by) { wall_ += by; }
  /// It is up, and nothing befalls it any more.
  void heal();

 private:
  void say(const std::string& what);
  void restart_later();
  void end(const std::string& why);

  std::array<DatabaseLink, 4> links() const;

  // The candidate.
  void look();
  void look_again();
  void read_row();
  void take(const io::OwnerRow& seen);
  void lose_sight();

  // The owner, before it serves.
  void own(io::OwnerRow row);
  void find_epoch(int tries);
  void load(int tries);
  void load_rows(io::ClockReading machine, std::optional<std::int64_t> unix_us);
  void restore(const io::ClockReading& machine, std::optional<std::int64_t> unix_us, const StoreModel& rows);
  io::ClockReading clock();
  std::int64_t uptime_us() const;
  void connect_reads(std::function<void(bool)> done);
  std::int64_t wall_us() const;

  // The owner that serves.
  void begin_turn() override;
  void take_bank();
  void tell_store(core::TimePoint now);
  void report() override {}
  void send_all() override;
  void submit(core::Writes& writes);
  void committed(std::size_t turns, std::uint64_t batch);
  void commits_over(OwnerCommits::End end);
  void release(const core::Outbox& outbox, bool waiting, core::TimePoint decided_at);
  void read_bodies();
  void read_next();
  void serve();

  const ClusterPlan& plan_;
  Database& database_;
  ClusterWitness& witness_;
  std::uint64_t& batches_;
  Process process_;
  const std::string instance_;
  const std::shared_ptr<DatabaseWay> way_, bank_way_;
  core::Duration wall_{}, wall_at_start_{};
  bool is_down_ = true;

  std::optional<io::OwnerWatch> watch_;
  io::OwnerRow owned_;
  std::int64_t shard_epoch_us_ = 0;
  DatabaseLink looks_, reads_;
  std::uint64_t look_ = 0;  // what an earlier one hears is void

  std::unique_ptr<core::Broker> loading_;
  std::unique_ptr<OwnerCommits> commits_;
  std::uint64_t submitted_ = 0, committed_ = 0;
  struct Waiting {
    std::uint64_t number;
    core::TimePoint decided_at;
    std::unique_ptr<core::Outbox> outbox;
  };
  std::deque<Waiting> waiting_;
  core::TimePoint noted_at_{};
  bool away_ = false, stalled_ = false;  ///< as the core was told
  std::uint64_t committed_before_ = 0;   ///< when it last went on
  core::TimePoint went_on_at_{};
  std::uint64_t watched_notes_ = 0;
  struct Reading {
    std::uint64_t number, after;
  };
  std::deque<Reading> reading_;
  bool reads_now_ = false;
  struct Body {
    std::uint64_t number;
    std::optional<Blob> body;
  };
  std::vector<Body> read_;

  std::unique_ptr<BankDraws> draws_;
  struct BankAnswer {
    std::size_t budget;
    std::optional<core::Drawn> drawn;
  };
  std::vector<BankAnswer> bank_answers_;
  std::unique_ptr<io::HandoverGate> gate_;
};

}  // namespace lanemq::sim
