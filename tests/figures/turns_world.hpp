// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/figures/stage.hpp"
#include "tests/sim/random.hpp"
#include "tests/sim/world.hpp"

namespace lanemq::figures {

/// One run in which places are scarce and somebody is new all the time: clients, services, jobs of a lane
/// above. Lanes have boosts and shares, clients weights, jobs costs. Judged by what was handed over, by rules
/// of its own (docs/concepts/lanes.md, "Who waits is served"): who waits gets its part of what is handed
/// over, whoever comes; jobs that were boosted and the lane's own take turns; no lane has less than its
/// share.
class TurnsWorld {
 public:
  TurnsWorld(std::uint64_t seed, sim::Trace* trace);
  /// Throws sim::Violation.
  sim::RunReport run();
  std::string describe() const;

 private:
  /// Who takes turns with others: a client in a flow, a service in a lane, the lane's own or boosted jobs.
  struct Party {
    std::int64_t weight = 1;
    std::size_t waiting = 0;
    double owed = 0;  ///< its part of what others were handed since it was served, or began to wait
    double last = 0;  ///< the cost of its last job
  };
  /// Those that take turns with each other.
  struct Circle {
    std::map<std::string, Party> parties;
    double dearest = 1;      ///< the most that a job has cost, for its client's weight
    std::size_t widest = 1;  ///< the most that waited at a time
  };
  struct Waiting {
    std::size_t lane = 0;
    std::string service, client;
    std::int64_t cost = 1, weight = 1;
    TimePoint since{};
  };
  /// What a lane was handed beside others, since all of that waited.
  struct Balance {
    double own = 0, others = 0;
  };

  void submit(std::size_t lane, const std::string& service, const std::string& client);
  void newcomers();
  void handed_over(std::size_t job);
  void judge_circle(Circle& circle, const std::string& whose, const std::string& served, std::int64_t cost);
  void judge_boosts(const Waiting& job);
  void judge_shares(const Waiting& job);
  std::size_t level_of(const Waiting& job) const;
  std::int64_t weight_of(const std::string& client) const;

  sim::Random random_;
  sim::Trace* const trace_;
  core::Options options_;
  std::size_t services_ = 1, regulars_ = 1, places_ = 1, left_ = 0;
  std::uint64_t new_clients_percent_ = 0, new_services_percent_ = 0, above_percent_ = 0;
  std::uint64_t at_a_time_ = 1;
  std::int64_t cost_most_ = 1;
  Stage stage_;
  std::map<std::size_t, Waiting> waiting_;                         // by job
  std::map<std::string, Circle> clients_;                          // by lane and service
  std::map<std::size_t, Circle> flows_;                            // by lane
  std::map<std::size_t, Balance> boosts_;                          // by level
  std::map<std::pair<std::size_t, std::string>, Balance> shares_;  // by lane and service
  std::uint64_t new_names_ = 0;
  std::size_t handed_over_ = 0;
  std::uint64_t digest_ = 0;
};

}  // namespace lanemq::figures
