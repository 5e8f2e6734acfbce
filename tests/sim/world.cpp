// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/world.hpp"

#include <algorithm>

#include "tests/sim/sim_client.hpp"
#include "tests/sim/sim_follower.hpp"
#include "tests/sim/sim_gateways.hpp"
#include "tests/sim/sim_operator.hpp"
#include "tests/sim/sim_worker.hpp"

namespace lanemq::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

/// No timeout and no retention of a run is longer than a minute, nor is a silence in a stream.
constexpr Duration kSettledAfter = minutes(4);
constexpr Duration kAnsweredFor = seconds(10);
constexpr Duration kForgottenAfter = minutes(2);
/// A run ends after so much virtual time even if little happens.
constexpr Duration kRunMax = minutes(30);
/// For how long results and groups are kept where batches are followed: nothing of a run is forgotten before
/// its end.
constexpr Duration kBatchesKeptFor = minutes(40);
/// Nor does its end take more than so many events: what goes round and round would be a run that hangs.
constexpr std::size_t kEndEventsMax = 1'000'000;

/// Every job is one of a batch, on disk: a group of its own with so many jobs, each of which runs once. So it
/// is known when the group is over, however often the broker dies.
void draw_batches(Swarm& swarm, const Crashes& crashes, bool notifies) {
  if (!crashes.keeps || crashes.fills || crashes.reboots) return;
  swarm.batches = true;
  swarm.redrives = false;
  swarm.forgetful = false;
  swarm.options.retain = kBatchesKeptFor;
  swarm.retain_max = std::max(swarm.options.retain, swarm.options.dead_retain);
  swarm.notifies = notifies;
  if (!notifies) return;
  swarm.options.webhook_service = kHook;
  swarm.options.webhook_lane = swarm.options.lanes.back().name;
  // A receiver is away for as long as an upstream is, or the run would have to last for days.
  swarm.options.webhook_timeout = swarm.options.lanes.back().timeout;
  swarm.options.webhook_attempts_max = swarm.options.attempts_max;
  swarm.options.webhook_backoff_base = swarm.options.backoff_base;
  swarm.options.webhook_backoff_max = swarm.options.backoff_max;
}

/// What it takes for a call of an earlier life to end while its upstream is being tried: workers that have
/// long to come back, calls that are long where they are made, many of them, and none that does not fail.
void draw_late_returns(Random& random, Swarm& swarm, Crashes& crashes) {
  swarm.returns_late = true;
  core::Options& options = swarm.options;
  options.breaker = true;
  options.heartbeat = seconds(10);
  options.attempts_max = 4;
  for (core::LaneOptions& lane : options.lanes) {
    lane.durable = true;
    lane.timeout = minutes(1);
  }
  options.budgets.clear();
  swarm.limit_changes = false;
  swarm.services.resize(1);
  swarm.lies = 0;
  swarm.short_timeouts = swarm.forgetful = false;
  swarm.cancels = swarm.released = 0;
  swarm.workers = static_cast<int>(random.between(2, 4));
  swarm.worker_capacity_max = random.one_of<std::size_t>({8, 40});
  swarm.work_max = random.one_of<Duration>({seconds(5), seconds(20)});
  swarm.think_max = random.one_of<Duration>({milliseconds(100), milliseconds(400)});
  crashes.every_min = seconds(5);
  crashes.every_max = seconds(60);
  crashes.down_max = milliseconds(500);
  crashes.again = crashes.drains = 0;
  crashes.clocks = crashes.reboots = crashes.fills = crashes.stalls = false;
}

/// What a seed has of rarities comes from a chance of their own: where it has none all is as without them.
Crashes draw_rest(std::uint64_t seed, World::Kind kind, Random& random, Swarm& swarm) {
  const bool crashing = kind == World::Kind::crashing;
  Crashes crashes = crashing ? draw_crashes(random, swarm) : Crashes{};
  Random rare(~seed);
  draw_rarities(rare, swarm, !crashing);
  if (kind == World::Kind::forgetful) draw_words(rare, swarm);
  if (kind == World::Kind::forgetful && rare.percent(25))
    swarm.groups = static_cast<int>(rare.between(50, 1000));
  if (crashing && rare.percent(40)) draw_batches(swarm, crashes, rare.percent(60));
  swarm.gateways = rare.percent(8);
  if (crashing && !swarm.batches && rare.percent(4)) draw_late_returns(rare, swarm, crashes);
  if (!swarm.returns_late) draw_tenants(rare, swarm);
  return crashes;
}

}  // namespace

std::string some_group(Random& random, const Swarm& swarm) {
  if (swarm.batches) return "batch-" + std::to_string(random.below(kBatchesMost));
  constexpr std::uint64_t kGroups = 8;
  return "group-" + std::to_string(random.below(kGroups));
}

World::World(std::uint64_t seed, Kind kind, std::size_t events_max, Trace* trace)
    : random_(seed),
      swarm_(draw_swarm(random_)),
      gateways_seed_(~seed * 3),
      crashes_(draw_rest(seed, kind, random_, swarm_)),
      events_max_(events_max),
      crashing_(kind == Kind::crashing ? new CrashingHost(swarm_, crashes_, scheduler_, random_, trace)
                                       : nullptr),
      host_(crashing_ != nullptr ? std::unique_ptr<BrokerHost>(crashing_)
                                 : std::make_unique<BrokerHost>(swarm_, scheduler_, random_, trace)),
      upstreams_(swarm_, random_, trace),
      stage_{swarm_, scheduler_, random_, *host_, upstreams_, 1, 1, {}, false} {
  host_->tell(upstreams_);
}

World::~World() = default;

RunReport World::run() {
  for (int i = 0; i < swarm_.workers; ++i)
    workers_.push_back(std::make_unique<SimWorker>(stage_, i));
  for (int i = 0; i < swarm_.clients; ++i)
    clients_.push_back(std::make_unique<SimClient>(stage_, i));
  operator_ = std::make_unique<SimOperator>(stage_);
  if (swarm_.groups > 0 || swarm_.batches) follower_ = std::make_unique<SimFollower>(stage_);
  // Their chance is their own, for they are few.
  if (swarm_.gateways) {
    host_->tell(callers_);
    gateways_ = std::make_unique<SimGateways>(stage_, callers_, gateways_seed_);
  }
  if (crashing_ != nullptr)
    disasters_ = std::make_unique<Disasters>(stage_, *crashing_, crashes_, [this] {
      clients_find_out();
      if (swarm_.returns_late && !stage_.healing) return_late();
    });
  start_trouble();
  while (scheduler_.events() < events_max_ && scheduler_.step(core::TimePoint(kRunMax))) {
  }
  stage_.healing = true;
  host_->go_on();
  if (disasters_) disasters_->settle();
  operator_->settle();
  if (crashing_ != nullptr)
    finish_on_disk();
  else if (swarm_.drains)
    finish_by_drain();
  else
    finish_in_peace();
  return {.events = scheduler_.events(),
          .messages = host_->messages(),
          .jobs = host_->jobs(),
          .dispatches = host_->dispatches(),
          .simulated = scheduler_.now().time_since_epoch(),
          .digest = host_->digest()};
}

void World::run_until(core::TimePoint end) {
  while (scheduler_.step(end))
    if (scheduler_.events() > events_max_ + kEndEventsMax)
      violated("the run comes to no end: it goes on after " + std::to_string(scheduler_.events()) +
               " events");
}

// ---- trouble ------------------------------------------------------------------------------------------

void World::start_trouble() {
  scheduler_.after(random_.between(swarm_.trouble_min, swarm_.trouble_max), [this] {
    if (stage_.healing) return;
    make_trouble();
    start_trouble();
  });
}

void World::make_trouble() {
  SimWorker& worker = *workers_[random_.below(workers_.size())];
  SimClient& client = *clients_[random_.below(clients_.size())];
  if (swarm_.orphans > 0 && swarm_.tells_unreachable && random_.percent(30)) return client.seem_gone();
  if (swarm_.stand_still_max.count() > 0 && random_.percent(10))
    return host_->stand_still(random_.between(Duration(0), swarm_.stand_still_max));
  switch (random_.below(8)) {
    case 0:
      if (swarm_.crashes) worker.crash();
      return;
    case 1:
      if (swarm_.stalls) worker.stall(random_.between(Duration(0), swarm_.options.heartbeat * 6));
      return;
    case 2:
      if (swarm_.reconnects) worker.reconnect();
      return;
    case 3:
      if (swarm_.reconnects) worker.change_address();
      return;
    case 4:
      if (swarm_.leaves) worker.leave(random_.percent(50));
      return;
    case 5:
      if (swarm_.reconnects) client.reconnect();
      return;
    case 6:
      if (swarm_.vanishing_clients) client.vanish();
      return;
    default:
      break;
  }
  if (!swarm_.restarts || !random_.percent(20)) return;
  host_->restart();
  clients_find_out();
}

/// By themselves, each in its time.
void World::clients_find_out() {
  for (const auto& each : clients_)
    scheduler_.after(random_.between(Duration(0), seconds(2)), [&each] { each->reconnect(); });
}

// ---- the end ------------------------------------------------------------------------------------------

/// Calls of the earlier life go on at a worker that comes back late. The others are back at once, and find no
/// upstream for a while: it is left alone, and tried again when that worker says what it has.
void World::return_late() {
  Stage& stage = stage_;
  stage.out_until = scheduler_.now() + random_.between(seconds(1), seconds(4));
  const std::size_t late = random_.below(workers_.size());
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (i == late) {
      workers_[i]->stall(random_.between(seconds(4), swarm_.options.heartbeat * 2));
      continue;
    }
    scheduler_.after(random_.between(Duration(0), milliseconds(300)),
                     [&worker = *workers_[i]] { worker.reconnect(); });
  }
}

/// Somebody waits for an answer, or a job for its end.
bool World::is_busy() const {
  for (const auto& client : clients_)
    if (client->pending() > 0) return true;
  if (crashing_ == nullptr) return host_->auditor().open_jobs() > 0;
  const StoreModel& rows = crashing_->rows();
  return std::any_of(rows.jobs().begin(), rows.jobs().end(),
                     [&](const auto& job) { return !rows.results().contains(job.first); });
}

/// Whoever waits for an answer gets it.
void World::answer_everybody() {
  for (const auto& client : clients_)
    client->settle();
  const core::TimePoint end = scheduler_.now() + kSettledAfter;
  while (scheduler_.now() < end && is_busy())
    run_until(scheduler_.now() + seconds(1));
  // An answer too many may still come.
  run_until(scheduler_.now() + kAnsweredFor);
  for (const auto& client : clients_)
    if (client->pending() > 0)
      violated("a client still waits for " + std::to_string(client->pending()) + " answers");
}

void World::finish_in_peace() {
  answer_everybody();
  host_->auditor().check_all_answered();
  for (const auto& worker : workers_)
    worker->leave(true);
  run_until(scheduler_.now() + swarm_.retain_max + kForgottenAfter);
  host_->auditor().check_all_returned();
  check_callers();
  host_->check_all_restored();
}

void World::finish_by_drain() {
  host_->drain();
  const core::TimePoint end = scheduler_.now() + swarm_.options.drain_timeout;
  while (!host_->drained() && scheduler_.step(end)) {
  }
  if (!host_->drained()) host_->give_up_running();
  host_->auditor().check_all_answered();
}

/// Nobody has anything of a key any more: a stranger gets all of it.
void World::check_callers() {
  if (!gateways_) return;
  gateways_->ask_for_all();
  run_until(scheduler_.now() + kAnsweredFor);
}

/// Each batch of which all jobs have ended is over, whatever its follower has missed.
void World::follow_batches() {
  crashing_->witness().check_told(host_->broker());
  for (const std::string& batch : crashing_->witness().complete_batches()) {
    follower_->follow(batch);
    run_until(scheduler_.now() + kAnsweredFor);
    crashing_->witness().check_over(batch);
  }
}

/// Everything that was promised has ended, is kept for its time, and is forgotten, on disk too.
void World::finish_on_disk() {
  answer_everybody();
  if (swarm_.batches) follow_batches();
  const StoreModel& rows = crashing_->rows();
  for (const auto& [number, job] : rows.jobs())
    if (!rows.results().contains(number))
      violated("job " + std::to_string(number) + " is still in the store, without an end");
  for (const auto& worker : workers_)
    worker->leave(true);
  run_until(scheduler_.now() + swarm_.retain_max + kForgottenAfter);
  // Groups that were not over by then have told so, by jobs that nobody took.
  if (swarm_.notifies)
    run_until(scheduler_.now() + swarm_.options.webhook_timeout + swarm_.retain_max + kForgottenAfter);
  if (!rows.jobs().empty() || !rows.results().empty())
    violated("the store has " + std::to_string(rows.jobs().size()) + " jobs and " +
             std::to_string(rows.results().size()) + " results that should be forgotten");
  if (host_->broker().jobs().size() > 0 || host_->broker().memory_bytes() > 0)
    violated("the broker has " + std::to_string(host_->broker().jobs().size()) + " jobs of " +
             std::to_string(host_->broker().memory_bytes()) + " bytes that should be forgotten");
  for (const auto& [name, record] : rows.notes())
    if (name.starts_with("group "))
      violated("the store has note \"" + name + "\", which should be forgotten");
  crashing_->witness().check_windows();
  check_callers();
}

std::string World::describe() const {
  const std::string swarm = sim::describe(swarm_) + "\n" + upstreams_.describe();
  return crashing_ != nullptr ? swarm + "\n" + sim::describe(crashes_) : swarm;
}

}  // namespace lanemq::sim
