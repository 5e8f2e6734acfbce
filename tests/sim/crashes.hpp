// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tests/sim/swarm.hpp"

namespace lanemq::sim {

/// What of a run is about a store on disk and a broker that dies, beside its swarm. Drawn as that is: each
/// seed leaves some of it out.
struct Crashes {
  core::Duration commit_min{}, commit_max{};  ///< a transaction takes
  core::Duration read_max{};                  ///< to read a body back
  bool splits = false;                        ///< transactions end between the turns that wait for one
  core::Duration every_min{}, every_max{};    ///< from a start of the broker to its next end
  core::Duration down_max{};
  int again = 0;         ///< percent of starts that end soon, or before everything is restored
  int drains = 0;        ///< percent of ends that begin with a drain
  bool clocks = false;   ///< the wall clock is set while the broker is down
  bool reboots = false;  ///< and now and then the machine's own clock begins anew
  bool fills = false;    ///< the disk is full for a while
  bool stalls = false;   ///< and nothing is committed then
  bool spills = false;   ///< memory is so short that bodies are in the store alone
  bool keeps = false;    ///< no bound makes results go before their time
};

/// Draws it, and changes the swarm so that it has a store.
Crashes draw_crashes(Random& random, Swarm& swarm);
std::string describe(const Crashes& crashes);

}  // namespace lanemq::sim
