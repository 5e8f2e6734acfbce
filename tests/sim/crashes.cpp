// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/crashes.hpp"

namespace lanemq::sim {
namespace {

using core::Duration;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// Some day in November 2026; where the wall clock stands is of no consequence, where it goes is.
constexpr std::int64_t kWallMs = 1'795'000'000'000;

}  // namespace

Crashes draw_crashes(Random& random, Swarm& swarm) {
  Crashes crashes;
  crashes.commit_min = microseconds(50);
  crashes.commit_max =
      random.one_of<Duration>({microseconds(300), milliseconds(3), milliseconds(30), milliseconds(400)});
  crashes.read_max = random.one_of<Duration>({microseconds(100), milliseconds(2), milliseconds(50)});
  crashes.splits = random.percent(50);
  crashes.every_min = milliseconds(1);
  crashes.every_max = random.one_of<Duration>({milliseconds(300), seconds(3), seconds(20)});
  crashes.down_max = random.one_of<Duration>({milliseconds(1), milliseconds(500), seconds(10)});
  crashes.again = random.one_of({0, 10, 40});
  crashes.drains = random.one_of({0, 0, 20, 60});
  crashes.clocks = random.percent(40);
  crashes.reboots = crashes.clocks && random.percent(30);
  crashes.fills = random.percent(30);
  crashes.stalls = random.percent(50);
  crashes.spills = random.percent(30);
  crashes.keeps = random.percent(60);

  core::Options& options = swarm.options;
  options.store_durable = true;
  options.wall_ms = kWallMs;
  for (core::LaneOptions& lane : options.lanes)
    lane.durable = random.percent(75);
  const core::Options usual;
  options.jobs_max = usual.jobs_max;
  options.memory_max = usual.memory_max;
  if (crashes.spills) {
    crashes.keeps = false;
    options.memory_max = static_cast<std::size_t>(random.between(20'000, 300'000));
    swarm.body_bytes_max = 6000;
  }
  if (crashes.keeps) {
    options.results_max = usual.results_max;
    options.results_bytes_max = usual.results_bytes_max;
    options.dead_max = random.one_of<std::size_t>({0, 10000});
    options.dead_bytes_max = usual.dead_bytes_max;
    options.retain = random.one_of<Duration>({milliseconds(50), seconds(5), seconds(60)});
  }
  // Of limits that changed the witness does not know which counts.
  swarm.settings = false;
  swarm.said_limits = 0;
  swarm.durables = random.percent(40) ? 200 : 0;
  swarm.restarts = swarm.drains = false;
  swarm.pending_max = std::min<std::size_t>(swarm.pending_max, 50);
  return crashes;
}

std::string describe(const Crashes& crashes) {
  const auto us = [](Duration time) { return std::to_string(time.count()) + "us"; };
  const auto yes = [](bool value) { return std::string(value ? "yes" : "no"); };
  return "commit_max=" + us(crashes.commit_max) + " read_max=" + us(crashes.read_max) +
         " splits=" + yes(crashes.splits) + " every_max=" + us(crashes.every_max) +
         " down_max=" + us(crashes.down_max) + " again=" + std::to_string(crashes.again) +
         " drains=" + std::to_string(crashes.drains) + " clocks=" + yes(crashes.clocks) +
         " reboots=" + yes(crashes.reboots) + " fills=" + yes(crashes.fills) +
         " stalls=" + yes(crashes.stalls) + " spills=" + yes(crashes.spills) + " keeps=" + yes(crashes.keeps);
}

}  // namespace lanemq::sim
