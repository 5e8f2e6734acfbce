// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "broker/core/budgets/shared/slice.hpp"
#include "tests/sim/cluster/database.hpp"
#include "tests/sim/cluster/process.hpp"

namespace lanemq::sim {

/// Carries a process's draws to the bank, one after the other, over a connection of its own: what BankDesk's
/// thread and BankTable do, over the simulated database, with the real Bank.
class BankDraws {
 public:
  /// None: nobody knows whether it was done.
  using Answer = std::function<void(std::size_t budget, const std::optional<core::Drawn>& drawn)>;
  using Say = std::function<void(const std::string&)>;  ///< for a trace

  /// All outlive it, and so does the process' life.
  BankDraws(Process& process, Database& database, std::shared_ptr<DatabaseWay> way, Answer answer, Say say)
      : process_(process),
        database_(database),
        way_(std::move(way)),
        answer_(std::move(answer)),
        say_(std::move(say)) {}

  void draw(std::vector<core::DrawWanted> wanted);
  /// Its connection; null: there is none.
  const DatabaseLink& link() const { return link_; }

 private:
  void next();
  void lock();
  void write(const BankSeen& seen);
  void wait_for_answer();
  void over(std::optional<core::Drawn> drawn);

  Process& process_;
  Database& database_;
  const std::shared_ptr<DatabaseWay> way_;
  const Answer answer_;
  const Say say_;
  DatabaseLink link_;
  std::deque<core::DrawWanted> wanted_;  ///< the first one is under way, if it is busy
  bool busy_ = false;
  std::uint64_t operation_ = 0;  ///< what an earlier one hears is void
};

}  // namespace lanemq::sim
