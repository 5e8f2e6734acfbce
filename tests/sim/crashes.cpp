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
  crashes.read_max =
      random.one_of<Duration>({microseconds(100), milliseconds(2), milliseconds(50), seconds(5)});
  crashes.splits = random.percent(50);
  crashes.every_min = milliseconds(1);
  // Some hardly ever die.
  crashes.every_max =
      random.one_of<Duration>({milliseconds(300), seconds(3), seconds(20), std::chrono::hours(1)});
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
  // Limits that are felt in a run that is this short.
  if (random.percent(50))
    for (core::BudgetOptions& budget : options.budgets)
      for (core::RateOptions& rate : budget.rates)
        if (rate.resource == core::Resource::requests && budget.window == core::WindowKind::sliding) {
          rate.limit =
              rate.period == std::chrono::seconds(1) ? random.between(2, 20) : random.between(10, 60);
          rate.capacity = rate.limit / 2;
        }
  // Nobody follows what the broker decides here, so that it may be anything.
  if (random.percent(50)) draw_keys(random, options);
  swarm.limit_changes = random.percent(30);
  if (swarm.limit_changes) swarm.states_costs = true;
  // But deadlines are known.
  swarm.lane_settings = false;
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
