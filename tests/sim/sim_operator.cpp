// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/sim_operator.hpp"

namespace lanemq::sim {

SimOperator::SimOperator(Stage& stage) : stage_(stage) {
  think();
}

void SimOperator::think() {
  stage_.scheduler.after(stage_.random.between(std::chrono::milliseconds(1), stage_.swarm.operator_max),
                         [this] {
                           if (stage_.healing) return;
                           act();
                           think();
                         });
}

void SimOperator::act() {
  const Swarm& swarm = stage_.swarm;
  switch (stage_.random.below(3)) {
    case 0:
      if (swarm.redrives) look_at_dead();
      return;
    case 1:
      if (swarm.pauses) pause_something();
      return;
    default:
      if (swarm.moves) move_job();
  }
}

void SimOperator::settle() {
  while (!paused_.empty())
    resume(0);
}

void SimOperator::pause_something() {
  const Swarm& swarm = stage_.swarm;
  Random& random = stage_.random;
  if (!paused_.empty() && random.percent(55)) return resume(random.below(paused_.size()));
  std::string what = random.one_of<const char*>({"lane", "service", "client", "budget"}), name;
  if (what == "budget" && swarm.options.budgets.empty()) what = "service";
  if (what == "lane") name = random.pick(swarm.options.lanes).name;
  if (what == "service") name = random.pick(swarm.services);
  if (what == "client") name = random.one_of<const char*>({"k1", "k2", "k3"});
  if (what == "budget") name = random.pick(swarm.options.budgets).name;
  wire::AdminQuery query;
  query.verb = "pause";
  query.what = what;
  query.name = name;
  query.dry_run = random.percent(10);
  stage_.host.operate(query);
  paused_.emplace_back(what, name);
}

void SimOperator::resume(std::size_t which) {
  const auto [what, name] = paused_[which];
  paused_.erase(paused_.begin() + static_cast<std::ptrdiff_t>(which));
  wire::AdminQuery query;
  query.verb = "resume";
  query.what = what;
  query.name = name;
  stage_.host.operate(query);
}

void SimOperator::move_job() {
  if (stage_.recent_tasks.empty()) return;
  wire::AdminQuery query;
  query.verb = "move";
  query.id = stage_.random.pick(stage_.recent_tasks).id;
  query.lane = stage_.random.pick(stage_.swarm.options.lanes).name;
  query.dry_run = stage_.random.percent(10);
  stage_.host.operate(query);
}

/// One dead job, or many of a kind.
void SimOperator::look_at_dead() {
  /// As many as an answer names.
  constexpr std::int64_t kIdsShown = 20;
  const Swarm& swarm = stage_.swarm;
  Random& random = stage_.random;
  wire::AdminQuery query;
  query.verb = random.percent(80) ? "redrive" : "purge";
  query.dry_run = random.percent(10);
  query.limit = random.between(1, random.one_of<std::int64_t>({1, 3, kIdsShown}));
  if (random.percent(30) && !stage_.recent_tasks.empty()) query.id = random.pick(stage_.recent_tasks).id;
  if (random.percent(8)) query.lane = random.pick(swarm.options.lanes).name;
  if (random.percent(8)) query.service = random.pick(swarm.services);
  if (random.percent(8)) query.client = random.one_of<const char*>({"k1", "k2", "k3"});
  if (random.percent(20))
    query.code = random.one_of<const char*>({"deadline", "worker_lost", "upstream_failed"});
  stage_.host.operate(query);
}

}  // namespace lanemq::sim
