// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "broker/io/store/postgres/commit_fence.hpp"
#include "tests/sim/cluster/database.hpp"
#include "tests/sim/cluster/process.hpp"

namespace lanemq::sim {

// As the store has them: a pause before something is tried again, and what a short statement may take.
inline constexpr std::chrono::milliseconds kRetryPause{50};
inline constexpr std::chrono::seconds kStatementMax{10};

/// Drives the real CommitFence as the owner's committing thread does (PostgresCommits), over the simulated
/// database.
class OwnerCommits {
 public:
  /// Why nothing is committed any more.
  enum class End : std::uint8_t { deposed, commits_lost, given_back };
  struct Calls {
    std::function<void(std::size_t turns, std::uint64_t batch)> committed;
    std::function<void(End)> over;
  };

  /// All outlive it, and so does the process' life.
  OwnerCommits(Process& process, Database& database, Random& random, std::shared_ptr<DatabaseWay> way,
               std::uint64_t& batches, io::OwnerRow owned, io::CommitFence::Time lease,
               io::CommitFence::Time away_max, Calls calls);

  void submit(core::Writes&& writes);
  /// Commits what is there, gives the store back, and is over.
  void end();
  /// As Store::away().
  bool away() const { return process_.boot() - fence_.good_at() >= fence_.away_after(); }
  /// Its connection; null: there is none.
  const DatabaseLink& link() const { return link_; }

 private:
  void next();
  void step();
  void send();
  void watch_sending(std::uint64_t operation, std::chrono::steady_clock::time_point look_at);
  void look_for_primary(std::uint64_t operation);
  void sending_over();
  void lose();
  void read_row();
  void reconnect();
  void take_row(const io::OwnerRow& row);
  void give_back();
  bool may_go_on();
  void done();
  void be_over(End end);

  Process& process_;
  Database& database_;
  Random& random_;
  const std::shared_ptr<DatabaseWay> way_;
  std::uint64_t& batches_;
  const Calls calls_;
  io::CommitFence fence_;
  DatabaseLink link_;
  std::deque<core::Writes> turns_;  ///< submitted, not under way
  std::size_t count_ = 0;           ///< turns under way
  std::uint64_t batch_ = 0;
  std::shared_ptr<const std::vector<core::Writes>> batch_turns_;
  bool busy_ = false, over_ = false, ends_ = false, looks_ = false, lost_ = false;
  std::optional<Committed> answer_;
  std::uint64_t operation_ = 0;  ///< what an earlier one hears is void
  std::chrono::steady_clock::time_point beat_at_{};
  bool waits_for_beat_ = false;
};

}  // namespace lanemq::sim
