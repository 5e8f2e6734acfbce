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
                           if (!stage_.host.is_down() && !stage_.host.stands_still()) act();
                           think();
                         });
}

void SimOperator::act() {
  const Swarm& swarm = stage_.swarm;
  if (!paused_.empty() && stage_.random.percent(25)) return resume(stage_.random.below(paused_.size()));
  if (swarm.limit_changes && stage_.random.percent(10))
    return stage_.host.reload(draw_other_limits(stage_.random, swarm.options));
  switch (stage_.random.below(6)) {
    case 0:
      if (swarm.redrives) look_at_dead();
      return;
    case 1:
      if (swarm.pauses) pause_something();
      return;
    case 2:
      if (swarm.moves) move_job();
      return;
    case 3:
      if (swarm.drained_workers) drain_workers();
      return;
    default:
      if (!swarm.settings) return;
      if (stage_.random.percent(10)) return stage_.host.reload();
      swarm.lane_settings&& stage_.random.percent(50) ? set_lane() : set_limit();
  }
}

void SimOperator::settle() {
  while (!paused_.empty())
    resume(0);
  if (stage_.swarm.settings || stage_.swarm.limit_changes) stage_.host.reload();
}

void SimOperator::pause_something() {
  const Swarm& swarm = stage_.swarm;
  Random& random = stage_.random;
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

/// One of them, by its session, or all of a name. What is drained is one more thing to resume.
void SimOperator::drain_workers() {
  Random& random = stage_.random;
  wire::AdminQuery query;
  query.verb = "drain";
  std::string name = random.percent(5) ? "nobody" : "worker-" + std::to_string(random.below(3));
  const auto& workers = stage_.host.broker().workers().all();
  if (!workers.empty() && random.percent(60)) {
    auto worker = workers.begin();
    std::advance(worker, static_cast<std::ptrdiff_t>(random.below(workers.size())));
    name = worker->second->session;
  }
  query.name = name;
  query.dry_run = random.percent(10);
  stage_.host.operate(query);
  paused_.emplace_back("worker", name);
}

void SimOperator::set(std::string_view verb, std::string_view name, std::string_view setting,
                      std::string_view value) {
  wire::AdminQuery query;
  query.verb = verb;
  query.name = name;
  query.setting = setting;
  query.value = value;
  query.dry_run = stage_.random.percent(10);
  stage_.host.operate(query);
}

void SimOperator::set_lane() {
  Random& random = stage_.random;
  const core::LaneOptions& lane = random.pick(stage_.swarm.options.lanes);
  const std::string setting = random.one_of<const char*>(
      {"timeout", "depth_max", "bytes_max", "reserve", "share_min", "boost_after", "reserved_slots"});
  std::int64_t value = random.between(1, random.one_of<std::int64_t>({20, 1000}));
  std::string unit;
  if (setting == "timeout") {
    value = random.between(100, 60000);
    unit = "ms";
  } else if (setting == "bytes_max") {
    value = random.one_of<std::int64_t>({0, random.between(2000, 40000)});
    unit = "B";
  } else if (setting == "reserve" || setting == "share_min") {
    // Of five lanes now and then more than all there is.
    value = random.between(0, 30);
    unit = "%";
  } else if (setting == "boost_after") {
    value = random.between(0, random.one_of<std::int64_t>({20, 3000}));
    unit = "ms";
  }
  const std::string text = std::to_string(value) + unit, name = random.percent(3) ? "nowhere" : lane.name;
  set("lane", name, setting, text);
}

void SimOperator::set_limit() {
  Random& random = stage_.random;
  if (stage_.swarm.options.budgets.empty()) return;
  const core::BudgetOptions& budget = random.pick(stage_.swarm.options.budgets);
  std::string setting = "concurrency";
  std::int64_t value = random.between(0, 20);
  if (!budget.rates.empty() && random.percent(70)) {
    const core::RateOptions& rate = random.pick(budget.rates);
    setting = rate.name;
    value = random.between(0, rate.limit * random.between(1, 3));
    if (random.percent(30)) {
      setting = "capacity." + setting;
      value = random.between(1, rate.limit);
    }
  }
  const std::string text = std::to_string(value), name = random.percent(3) ? "nothing" : budget.name;
  set("limit", name, setting, text);
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
