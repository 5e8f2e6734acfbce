// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "tests/sim/world.hpp"

namespace lanemq::sim {

/// What a client can do to those beside it, whose jobs share its lanes, its budget and its workers.
enum class Nuisance : std::uint8_t {
  floods,      ///< submits far more than its share
  delays,      ///< jobs that are to wait for a year
  cancels,     ///< cancels what it has just submitted, or what runs
  deadlines,   ///< times that are over in the middle of a call
  costs,       ///< costs that no limit has, and none at all
  uses,        ///< its calls use more than they were expected to, or nothing
  waits,       ///< asks for one job from many connections, with large envelopes
  asks,        ///< statuses of many jobs at a time, fetches of what is not there
  keeps,       ///< results that are to be kept for ever
  streams,     ///< streams that it does not read
  rubbish,     ///< batches of requests that are refused, and conflicts
  releases,    ///< its workers hand its jobs back
  crowds_out,  ///< it has so many results that some make way
  fails,       ///< its calls fail, so that it is tried again, and its upstream perhaps left alone
  models,      ///< it names models of its own, which are refused for a day, or fail
  // What is not bounded yet, and why (README.md, "A noisy neighbour"). Drawn with --open.
  lanes,    ///< everything in the highest lane: those below it get their share_min
  limited,  ///< its calls are refused for a day: the budget pauses for all
  lies,     ///< its calls use a whole window each: that is a debt of all
};
inline constexpr Nuisance kFirstOpen = Nuisance::lanes;
inline constexpr int kNuisances = static_cast<int>(Nuisance::lies) + 1;

/// A run with three ordinary clients, three workers, and one client that does the worst it may. Judged from
/// outside: what the three wait, that they are refused nothing, that each of their jobs ends well, that their
/// results are there later, and what the broker holds.
class NeighbourWorld {
 public:
  /// `open`: with what is not bounded yet.
  NeighbourWorld(std::uint64_t seed, std::size_t events_max, bool open, Trace* trace);
  ~NeighbourWorld();
  /// Throws Violation.
  RunReport run();
  std::string describe() const;

 private:
  class Guest;
  class Hand;
  class Judge;
  class Host;
  class Noise;

  void draw_options(bool open);

  Random random_;
  Swarm swarm_;
  std::set<Nuisance> nuisances_;
  std::size_t events_max_;
  Scheduler scheduler_;
  std::unique_ptr<Judge> judge_;
  std::unique_ptr<Host> host_;
  std::vector<std::unique_ptr<Hand>> hands_;
  std::vector<std::unique_ptr<Guest>> guests_;
  std::unique_ptr<Noise> noise_;
};

}  // namespace lanemq::sim
