// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/cluster/cluster_world.hpp"

#include <algorithm>

namespace lanemq::sim {
namespace {

using core::Duration;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

/// A run's trouble lasts for so long, if not for so many events.
constexpr Duration kTroubleMax = minutes(6);
/// In its peace everybody is answered within so long.
constexpr Duration kAnsweredMax = minutes(20);
constexpr std::size_t kPeaceEventsMax = 1'000'000;
/// The bank's servers' clocks are so far apart at most.
constexpr Duration kBankClocksApart = milliseconds(950);

/// What each seed draws from. Those of one name come equally often.
const std::vector<std::string> kTroubles = {
    "kill",  "machine", "stop",    "sleep",     "overtake",  "cut",   "cut_up", "cut_down", "snap",  "wall",
    "leave", "slow",    "restart", "fail_over", "old_lives", "doubt", "hold",   "full",     "worker"};

/// Of seeds in which a bank shares the budget with another shard.
const std::vector<std::string> kBankTroubles = {"bank_cut",   "bank_late", "bank_snap",  "rival_kill",
                                                "rival_stop", "rival_cut", "rival_snap", "overtake"};

/// `added`: what came later is drawn from it, so that the rest of each seed is as before.
ClusterPlan draw_trouble(Random& random, Random& added) {
  ClusterPlan plan;
  Swarm& swarm = plan.swarm;
  swarm.services = {"ask"};
  swarm.models = swarm.names = {""};
  swarm.delay_min = std::chrono::microseconds(100);
  swarm.delay_max = random.one_of<Duration>({milliseconds(1), milliseconds(20)});
  swarm.loop_lag = milliseconds(random.between(0, 5));
  swarm.tells_unreachable = true;
  swarm.workers = static_cast<int>(random.between(2, 4));
  swarm.clients = static_cast<int>(random.between(2, 4));

  core::Options& options = swarm.options;
  for (const char* const name : {"high", "normal", "fleeting"}) {
    core::LaneOptions lane{.name = name};
    lane.timeout = hours(2);
    lane.is_default = options.lanes.size() == 1;
    lane.durable = options.lanes.size() < 2;
    options.lanes.push_back(lane);
  }
  core::BudgetOptions budget{.name = "strict"};
  core::RateOptions rate{
      .name = "requests_per_minute", .limit = random.between(20, 120), .period = minutes(1)};
  rate.capacity = random.percent(50) ? 0 : rate.limit / 2;
  budget.rates.push_back(rate);
  options.budgets.push_back(budget);
  options.breaker = false;
  options.attempts_max = 10;
  options.crash_max = 10;

  plan.lease = seconds(random.one_of({3, 5}));
  plan.away_max = 2 * plan.lease;
  plan.load_max = random.one_of<Duration>({milliseconds(50), seconds(3)});
  plan.restart_max = random.one_of<Duration>({milliseconds(200), seconds(4)});
  plan.trouble_pause = random.one_of({4, 10, 25});
  for (const std::string& trouble : kTroubles)
    if (random.percent(40)) plan.troubles.push_back(trouble);
  if (plan.troubles.empty()) plan.troubles.emplace_back("kill");
  if (added.percent(40)) plan.troubles.emplace_back("lose_last");
  core::BudgetOptions& strict = options.budgets.front();
  strict.shared = added.percent(40);
  if (!strict.shared) return plan;
  if (added.percent(40)) {
    core::RateOptions& of_seed = strict.rates.front();
    of_seed = {.name = "requests_per_minute", .limit = added.between(10, 40), .period = seconds(10)};
    // Much at once, after a while without calls: large slices, of which much is lost with their owner.
    if (added.percent(70)) of_seed.capacity = of_seed.limit / 2;
  }
  for (const std::string& trouble : kBankTroubles)
    if (added.percent(50)) plan.troubles.push_back(trouble);
  return plan;
}

/// In one of so many seeds the budget counts more than requests: the others are as before that.
constexpr std::uint64_t kAccountsEvery = 4;

/// Tokens, keys and calls at once: so that everybody gets on in the time of a run.
void draw_accounts(ClusterPlan& plan, Random& random) {
  core::BudgetOptions& budget = plan.swarm.options.budgets.front();
  const core::RateOptions whole = budget.rates.front();
  const auto tokens = [&plan, &whole](std::int64_t jobs) {
    return core::RateOptions{.name = "tokens_per_minute",
                             .limit = std::max<std::int64_t>(jobs / 2, 4) * plan.tokens_most,
                             .period = whole.period,
                             .capacity = 2 * plan.tokens_most,
                             .resource = core::Resource::tokens};
  };
  if (random.percent(50)) {
    plan.tokens_most = random.between(std::int64_t{2}, 500);
    budget.rates.push_back(tokens(whole.limit));
  }
  if (random.percent(50)) budget.concurrency = random.between(std::int64_t{3}, 8);
  if (random.percent(40)) return;
  const std::int64_t keys = random.between(std::int64_t{2}, 3);
  const std::int64_t together = random.percent(40) ? 2 : 0;
  core::KeyOptions key{.rates = {whole}};
  key.rates.front().limit = std::max<std::int64_t>(whole.limit * random.one_of({50, 150}) / 100, 5);
  key.rates.front().capacity = 0;
  if (plan.tokens_most > 0 && random.percent(50)) key.rates.push_back(tokens(key.rates.front().limit));
  if (random.percent(60)) key.concurrency = random.between(std::int64_t{2}, 5);
  for (std::int64_t i = 0; i < keys; ++i) {
    key.name = "k" + std::to_string(i);
    key.quota_group = i < together ? "together" : "";
    budget.keys.push_back(key);
  }
}

ClusterPlan draw_plan(std::uint64_t seed, Random& random, Random& added) {
  ClusterPlan plan = draw_trouble(random, added);
  Random of_accounts(seed ^ 0xACC0ULL);
  if (seed % kAccountsEvery == kAccountsEvery - 1) draw_accounts(plan, of_accounts);
  return plan;
}

}  // namespace

ClusterWorld::ClusterWorld(std::uint64_t seed, std::size_t events_max, Trace* trace)
    : random_{Random(seed), Random(seed ^ 0xBA4CULL)},
      plan_(draw_plan(seed, random_.all, random_.added)),
      events_max_(events_max),
      trace_(trace),
      witness_(plan_.swarm.options),
      database_(scheduler_, random_.all, trace,
                [this](std::size_t server, const LogEntry* before, const LogEntry& entry) {
                  witness_.logged(server, before, entry);
                }),
      stage_{plan_, scheduler_, random_.all, witness_, members_} {
  const auto count = static_cast<std::size_t>(random_.all.between(2, 3));
  for (std::size_t i = 0; i < count; ++i)
    members_.push_back(std::make_unique<Member>(plan_, i + 1, scheduler_, random_.all, trace, database_,
                                                witness_, batches_));
  const core::BudgetOptions& budget = plan_.swarm.options.budgets.front();
  if (!budget.shared) return;
  rival_ =
      std::make_unique<RivalShard>(RivalShard::Stage{scheduler_, random_.all, trace, database_, witness_},
                                   budget, core::Amounts{.input_tokens = plan_.tokens_most / 2});
  std::array<Duration, Database::kServers> ahead;
  for (Duration& of_server : ahead)
    of_server = random_.added.between(Duration(0), kBankClocksApart);
  database_.set_bank_clocks(ahead);
}

ClusterWorld::~ClusterWorld() = default;

std::string ClusterWorld::describe() const {
  std::string text = std::to_string(members_.size()) + " brokers, lease " +
                     std::to_string(core::to_ms(plan_.lease)) + "ms, " +
                     StrictUpstream(plan_.swarm.options.budgets.front()).describe().substr(2) +
                     (rival_ ? ", shared" : "") + "; trouble:";
  for (const std::string& trouble : plan_.troubles)
    text += " " + trouble;
  return text;
}

RunReport ClusterWorld::run() {
  for (const auto& member : members_)
    member->start();
  for (int i = 0; i < plan_.swarm.workers; ++i)
    peers_.workers.push_back(std::make_unique<ClusterWorker>(stage_, static_cast<std::size_t>(i)));
  for (int i = 0; i < plan_.swarm.clients; ++i)
    peers_.clients.push_back(std::make_unique<ClusterClient>(stage_));
  if (rival_) rival_->start();
  start_trouble();
  while (scheduler_.events() < events_max_ && scheduler_.step(core::TimePoint(kTroubleMax))) {
  }
  settle();
  RunReport report;
  report.events = scheduler_.events();
  report.jobs = witness_.jobs();
  report.dispatches = witness_.dispatches();
  report.simulated = scheduler_.now().time_since_epoch();
  for (const auto& member : members_) {
    report.messages += member->messages();
    report.digest = report.digest * 31 + member->digest();
  }
  report.digest = report.digest * 31 + database_.log().size();
  return report;
}

void ClusterWorld::run_until(core::TimePoint end) {
  const std::size_t most = scheduler_.events() + kPeaceEventsMax;
  while (scheduler_.events() < most && scheduler_.step(end)) {
  }
  if (scheduler_.events() >= most) violated("the run comes to no end");
}

// ---- trouble ------------------------------------------------------------------------------------------

/// What follows from trouble, unless all is well by then.
void ClusterWorld::later(Duration wait, std::function<void()> what) {
  scheduler_.after(wait, [this, what = std::move(what)] {
    if (!stage_.healing) what();
  });
}

void ClusterWorld::start_trouble() {
  scheduler_.after(random_.all.between(milliseconds(100), seconds(plan_.trouble_pause)), [this] {
    if (stage_.healing) return;
    make_trouble(random_.all.pick(plan_.troubles));
    start_trouble();
  });
}

Member* ClusterWorld::owner() {
  for (const auto& member : members_)
    if (member->serves()) return member.get();
  return nullptr;
}

Member& ClusterWorld::some_member() {
  Member* const serves = random_.all.percent(70) ? owner() : nullptr;
  return serves != nullptr ? *serves : *members_[random_.all.below(members_.size())];
}

void ClusterWorld::make_trouble(const std::string& kind) {
  if (kind == "worker") return peers_.workers[random_.all.below(peers_.workers.size())]->crash();
  if (kind == "overtake") return overtake();
  if (kind == "doubt") return doubt();
  if (kind == "lose_last") return lose_last();
  if (kind == "fail_over" || kind == "old_lives") return fail_over(kind == "old_lives");
  if (rival_ && (kind.starts_with("bank") || kind.starts_with("rival"))) return trouble_the_bank(kind);
  trouble_a_member(kind, some_member());
  trouble_the_database(kind);
}

void ClusterWorld::trouble_the_bank(const std::string& kind) {
  // A slice lasts half a second, an answer is given up after two.
  const core::TimePoint until =
      scheduler_.now() +
      random_.all.between(milliseconds(100),
                          random_.all.one_of<Duration>({milliseconds(700), seconds(3), seconds(20)}));
  const bool up = random_.all.percent(60);
  Member& member = some_member();
  if (kind == "bank_cut") return member.cut_bank(until, up, !up || random_.all.percent(30));
  if (kind == "bank_snap") return member.snap_bank();
  if (kind == "rival_kill") return rival_->kill(random_.all.percent(50));
  if (kind == "rival_stop") return rival_->stop(until - scheduler_.now());
  if (kind == "rival_cut") return rival_->cut(until, up, !up || random_.all.percent(30));
  if (kind == "rival_snap") return rival_->snap();
  // What is drawn is granted, and heard of when most of its time is over.
  member.cut_bank(scheduler_.now() + random_.all.between(milliseconds(300), milliseconds(700)), false, true);
}

void ClusterWorld::trouble_a_member(const std::string& kind, Member& member) {
  const Duration some = random_.all.between(milliseconds(10), plan_.lease * 3);
  const core::TimePoint until = scheduler_.now() + some;
  if (kind == "kill") return member.kill(false);
  if (kind == "machine") return member.kill(true);
  if (kind == "stop") return member.stop(some, false);
  if (kind == "sleep") return member.stop(some, true);
  if (kind == "cut") return member.cut(until, true, true);
  if (kind == "cut_up") return member.cut(until, true, false);
  if (kind == "cut_down") return member.cut(until, false, true);
  if (kind == "snap") return member.snap();
  if (kind == "leave") return member.leave();
  if (kind == "wall")
    member.set_wall(random_.all.one_of<Duration>({hours(1), hours(-1), minutes(2), hours(24)}));
}

void ClusterWorld::trouble_the_database(const std::string& kind) {
  const Duration some = random_.all.between(milliseconds(100), plan_.lease * 3);
  if (kind == "slow") {
    database_.set_slow(random_.all.between(milliseconds(50), seconds(3)));
    later(some, [this] { database_.set_slow({}); });
  } else if (kind == "hold") {
    database_.hold_replication(true);
    later(some, [this] { database_.hold_replication(false); });
  } else if (kind == "full") {
    database_.set_full(true);
    later(some, [this] { database_.set_full(false); });
    // What is sent again and again meanwhile may be lost, too.
    for (int i = 0; i < 3; ++i)
      later(random_.all.between(Duration(0), some), [this] {
        if (Member* const serves = owner(); serves != nullptr) serves->snap();
      });
  } else if (kind == "restart") {
    const std::size_t server = database_.primary();
    database_.crash(server, random_.all.percent(50));
    later(random_.all.between(milliseconds(50), seconds(3)), [this, server] { database_.start(server); });
  }
}

/// The primary dies, or seems to, and a standby takes its place. Some time later there are standbys again.
void ClusterWorld::fail_over(bool old_lives) {
  const std::size_t old = database_.primary();
  if (!database_.may_lose_primary()) return;
  if (!old_lives) database_.crash(old, random_.all.percent(50));
  const Duration away = random_.all.between(milliseconds(100), plan_.lease);
  later(away, [this] { database_.promote(); });
  // The old one may be started again as it was.
  if (!old_lives && random_.all.percent(30))
    later(away + random_.all.between(milliseconds(100), seconds(5)), [this, old] { database_.start(old); });
  if (random_.all.percent(50))
    later(away + random_.all.between(Duration(0), seconds(4)), [this, old] { database_.cancel_wait(old); });
  later(away + random_.all.between(seconds(2), seconds(15)), [this] {
    for (std::size_t i = 0; i < Database::kServers; ++i)
      database_.rejoin(i);
  });
}

/// Standbys fall behind, and something ends the wait for them: what is then seen may be on one server alone,
/// which dies.
void ClusterWorld::doubt() {
  database_.hold_replication(true);
  const Duration first = random_.all.between(milliseconds(50), seconds(2));
  const bool cancels = random_.all.percent(50), snaps = random_.all.percent(30);
  later(first, [this, cancels, snaps] {
    const std::size_t server = database_.primary();
    if (snaps)
      for (const auto& member : members_)
        member->snap();
    if (cancels) return database_.cancel_wait(server);
    database_.crash(server, true);
    later(milliseconds(20), [this, server] { database_.start(server); });
  });
  const Duration second = first + random_.all.between(milliseconds(20), seconds(2));
  const bool dies = random_.all.percent(70);
  later(second, [this, dies] {
    if (dies && database_.may_lose_primary()) {
      database_.crash(database_.primary(), true);
      database_.promote();
    }
    database_.hold_replication(false);
  });
  later(second + random_.all.between(milliseconds(500), seconds(5)), [this] {
    for (std::size_t i = 0; i < Database::kServers; ++i)
      database_.rejoin(i);
  });
}

/// The owner stands still until another one has just taken the store over.
void ClusterWorld::overtake() {
  Member* const serves = owner();
  if (serves == nullptr) return;
  serves->stop(plan_.lease + random_.all.between(Duration(0), seconds(4)), false);
}

/// Standbys fall behind, and the owner dies with the primary: what waits for its commit is gone for good.
void ClusterWorld::lose_last() {
  database_.hold_replication(true);
  later(random_.all.between(milliseconds(20), milliseconds(1500)), [this] {
    if (Member* const serves = owner(); serves != nullptr) serves->kill(random_.all.percent(50));
    if (database_.may_lose_primary()) {
      database_.crash(database_.primary(), true);
      database_.promote();
    }
    database_.hold_replication(false);
  });
  later(seconds(2) + random_.all.between(Duration(0), seconds(5)), [this] {
    for (std::size_t i = 0; i < Database::kServers; ++i)
      database_.rejoin(i);
  });
}

// ---- the end ------------------------------------------------------------------------------------------

std::size_t ClusterWorld::pending() const {
  std::size_t pending = 0;
  for (const auto& client : peers_.clients)
    pending += client->pending();
  return pending;
}

/// The other shard, too, gets on.
void ClusterWorld::check_rival(core::TimePoint healed_at) {
  const core::TimePoint from =
      healed_at + seconds(10) + plan_.swarm.options.budgets.front().rates.front().period;
  run_until(std::max(scheduler_.now(), from) + seconds(20));
  if (rival_->last_sent() < from) violated("the other shard has handed nothing over since the trouble");
}

void ClusterWorld::settle() {
  stage_.healing = true;
  if (trace_ != nullptr) trace_->add(scheduler_.now(), "all is well");
  database_.heal();
  for (const auto& member : members_)
    member->heal();
  if (rival_) rival_->heal();
  const core::TimePoint healed_at = scheduler_.now();
  // Clocks may go slower by a tenth, a load follows, and a candidate may just have asked a server that is no
  // more.
  const Duration within = (3 * plan_.lease + kStatementMax) * 10 / 9 + plan_.load_max + plan_.restart_max;
  const core::TimePoint owned_by = scheduler_.now() + within;
  while (owner() == nullptr && scheduler_.now() < owned_by)
    run_until(scheduler_.now() + milliseconds(100));
  if (owner() == nullptr)
    violated("there is no owner " + std::to_string(core::to_ms(within)) + "ms after the trouble");
  const core::TimePoint answered_by = scheduler_.now() + kAnsweredMax;
  while (pending() > 0 && scheduler_.now() < answered_by)
    run_until(scheduler_.now() + seconds(1));
  if (pending() > 0) violated(std::to_string(pending()) + " jobs have no end");
  witness_.check_answered();
  for (const std::string& id : witness_.answered_ids())
    peers_.clients.front()->fetch(id);
  run_until(scheduler_.now() + seconds(20));
  if (pending() > 0) violated(std::to_string(pending()) + " answers are not kept");
  if (rival_) check_rival(healed_at);
  witness_.check_log(database_.log());
  witness_.check_windows();
}

}  // namespace lanemq::sim
