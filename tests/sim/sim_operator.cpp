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
  if (stage_.swarm.redrives) look_at_dead();
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
