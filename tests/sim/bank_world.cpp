// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/bank_world.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "tests/sim/broker_host.hpp"
#include "tests/sim/model.hpp"

namespace lanemq::sim {
namespace {

using core::Duration;
using core::TimePoint;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// The time of day at the database when a run begins.
constexpr Duration kDatabaseEpoch = std::chrono::hours(500'000);
/// A shard that is saturated has so many jobs waiting, at least.
constexpr std::size_t kAlwaysWaiting = 400;
/// An owner gives a draw up after this.
constexpr Duration kDrawTimeout = seconds(1);
/// Before the end all trouble is over for so many periods, and for so long at least.
constexpr int kCalmPeriods = 1;
constexpr Duration kCalm = seconds(20);
/// Who would get so many jobs evenly gets one at least.
constexpr double kNoneByChance = 8;
/// A call lasts so long at most.
constexpr Duration kCallMost = seconds(4);
/// A row that comes back is at most so many times as old.
constexpr Duration kRowKeptEvery = seconds(3);
constexpr std::size_t kRowsKept = 10;

std::string text_of(Duration time) {
  return std::to_string(time.count() / 1000) + "ms";
}

core::RateOptions requests(std::int64_t limit, Duration period) {
  return {.name = "requests_per_minute", .limit = limit, .period = period};
}

core::RateOptions tokens(std::int64_t limit, Duration period) {
  return {.name = "tokens_per_minute", .limit = limit, .period = period, .resource = core::Resource::tokens};
}

/// How many jobs end in so many places in a period, at least.
double in_places(std::int64_t places, Duration period) {
  return static_cast<double>(places) * static_cast<double>(period.count()) /
         static_cast<double>(kCallMost.count());
}

/// Keys with an account each, or some with one together, that allow less than the budget, or more than it
/// needs. Returns how many jobs they allow in a period, at least.
double draw_keys(BankPlan& plan, Random& random, std::int64_t jobs, std::int64_t places) {
  const std::int64_t keys = random.between(std::int64_t{2}, 4);
  const std::int64_t together = random.percent(40) ? random.between(std::int64_t{2}, keys) : 0;
  const std::int64_t limit = std::max<std::int64_t>(jobs * random.one_of({20, 50, 150}) / 100, 10);
  const bool tokens_too = plan.tokens_most > 0 && random.percent(50);
  const std::int64_t concurrency = random.percent(30) ? places : 0;
  for (std::int64_t i = 0; i < keys; ++i) {
    core::KeyOptions key{.name = "k" + std::to_string(i)};
    if (i < together) key.quota_group = "together";
    key.weight = static_cast<std::uint32_t>(random.between(1, 3));
    key.rates.push_back(requests(limit, plan.period));
    if (tokens_too) key.rates.push_back(tokens(limit * plan.tokens_most / 2, plan.period));
    key.concurrency = concurrency;
    plan.budget.keys.push_back(key);
  }
  const std::int64_t accounts = keys - std::max<std::int64_t>(together - 1, 0);
  const double at_once = concurrency > 0 ? in_places(concurrency, plan.period) : static_cast<double>(limit);
  return static_cast<double>(accounts) * std::min(static_cast<double>(limit), at_once);
}

/// Keys, and places for calls at once: so many that each shard has its turn before the run ends.
void draw_accounts(BankPlan& plan, Random& random) {
  const core::RateOptions& whole = plan.budget.rates.front();
  const std::int64_t jobs = whole.resource == core::Resource::requests
                                ? whole.limit
                                : std::max<std::int64_t>(whole.limit / plan.tokens_most, 1);
  const auto shards = static_cast<std::int64_t>(plan.shards);
  const std::int64_t places = random.between(shards / 2 + 1, 3 * shards);
  double allowed = static_cast<double>(jobs);
  if (random.percent(30)) {
    plan.budget.concurrency = places;
    allowed = std::min(allowed, in_places(places, plan.period));
  }
  if (random.percent(35)) {
    allowed = std::min(allowed, draw_keys(plan, random, jobs, places));
    // What of its limits an answer tells is of the key's account: which one nobody knows here.
    plan.says_remaining = BankPlan::Says::nothing;
  }
  // Calls outlast their owner, too.
  plan.lease = seconds(random.one_of({1, 5}));
  // Lanes above the last one leave something to that.
  for (std::vector<double>& of_shard : plan.per_second)
    for (double& of_lane : of_shard)
      if (of_lane < BankPlan::kSaturated) of_lane *= allowed / static_cast<double>(jobs);
  plan.turn = Duration(
      static_cast<std::int64_t>(kNoneByChance * static_cast<double>(plan.period.count() * shards) / allowed));
}

}  // namespace

struct BankWorld::Job {
  std::uint64_t number = 0;
  core::Amounts amounts;                    ///< expected
  std::uint16_t key = core::Claim::kNoKey;  ///< that it was given
  std::string account{};                    ///< of that key; empty: none
  TimePoint came{};
  Duration committing{};  ///< of that time: what its commits took
};

/// One owner of a shard: its process, its clock, and what it holds of the budget.
struct BankWorld::Owner {
  Shard* shard = nullptr;
  std::uint64_t epoch = 0;
  std::unique_ptr<core::Slices> slices;
  std::int64_t clock_ppm = 0;
  Duration clock_offset{};
  bool dead = false;
  TimePoint wakes_at = core::kNever;
  TimePoint stopped_until{};

  TimePoint here(TimePoint real) const {
    return TimePoint(real.time_since_epoch() + real.time_since_epoch() * clock_ppm / 1'000'000 +
                     clock_offset);
  }
};

struct BankWorld::Shard {
  std::string name;
  std::size_t place = 0;
  std::uint64_t epoch = 0;
  OwnerLink owner;
  std::vector<std::deque<Job>> queues;
  struct Running {
    std::uint16_t key = core::Claim::kNoKey;
    TimePoint ends{};
  };
  std::map<std::uint64_t, Running> running;  ///< calls, whoever has handed them over
  std::int64_t sent_late = 0;                ///< in the second half of the run
  TimePoint last_sent{};
};

BankWorld::BankWorld(std::uint64_t seed, const BankPlan& plan, Trace* trace)
    : random_(seed), added_(seed ^ 0x1A7EULL), plan_(plan), trace_(trace), upstream_(plan_.budget) {
  for (std::size_t i = 0; i < plan_.shards; ++i)
    start_shard(i);
}

BankWorld::~BankWorld() = default;

BankPlan BankWorld::draw_plan(std::uint64_t seed) {
  Random random(seed ^ 0xBA4CULL);
  BankPlan plan;
  const bool seconds_long = random.percent(40);
  plan.period = seconds_long ? Duration(seconds(1)) : Duration(seconds(60));
  plan.length = seconds_long ? seconds(60) : seconds(240);
  plan.shards = static_cast<std::size_t>(random.between(std::int64_t{2}, 16));
  const std::int64_t limit = random.between(seconds_long ? 20 : 200, seconds_long ? 200 : 3000);
  plan.budget.name = "shared";
  if (random.percent(70)) plan.budget.rates.push_back(requests(limit, plan.period));
  if (plan.budget.rates.empty() || random.percent(30)) {
    plan.tokens_most = random.between(std::int64_t{2}, 1000);
    plan.budget.rates.push_back(tokens(limit * plan.tokens_most / 2, plan.period));
    plan.used_less = random.percent(50);
  }
  plan.lanes = static_cast<std::size_t>(random.between(std::int64_t{1}, 3));
  for (std::size_t lane = 0; lane < plan.lanes; ++lane)
    plan.holds.push_back(lane == 0 ? 0 : static_cast<int>(random.between(std::int64_t{0}, 200)));
  const double each = static_cast<double>(limit) / std::chrono::duration<double>(plan.period).count() /
                      static_cast<double>(plan.shards);
  for (std::size_t shard = 0; shard < plan.shards; ++shard) {
    plan.per_second.emplace_back();
    for (std::size_t lane = 0; lane < plan.lanes; ++lane)
      plan.per_second.back().push_back(lane + 1 == plan.lanes && random.percent(70)
                                           ? BankPlan::kSaturated
                                           : each * static_cast<double>(random.below(40)) / 100);
  }
  plan.commit_most = random.one_of({Duration(milliseconds(8)), Duration(milliseconds(300))});
  plan.link_most = random.one_of({Duration(milliseconds(2)), Duration(milliseconds(100))});
  plan.lost_mille = static_cast<int>(random.below(80));
  plan.late_mille = static_cast<int>(random.below(80));
  plan.trouble_every = random.percent(80) ? random.between(Duration(seconds(seconds_long ? 2 : 4)),
                                                           seconds(seconds_long ? 10 : 40))
                                          : Duration(0);
  plan.clocks_differ = random.percent(70);
  plan.database_jumps = random.percent(50);
  // What the window's slack is for: calls that swap on their way.
  plan.transit_most = random.one_of({plan.period / 1000, plan.period / 105});
  if (random.percent(20)) plan.offline_share = static_cast<int>(random.below(200));
  plan.says_remaining =
      random.one_of({BankPlan::Says::nothing, BankPlan::Says::at_intake, BankPlan::Says::at_answer});
  if (random.percent(20)) plan.foreign_every = random.between(Duration(milliseconds(20)), seconds(2));
  // Drawn apart, so that the rest of each seed is as it was.
  Random of_accounts(seed ^ 0xACC0ULL);
  draw_accounts(plan, of_accounts);
  // Who was there before knows of draws; a new owner believes what it finds.
  plan.loses_rows = plan.trouble_every == Duration(0) && of_accounts.percent(60);
  return plan;
}

std::string BankWorld::describe() const {
  std::string text = std::to_string(plan_.shards) + " shards, " + std::to_string(plan_.lanes) + " lanes";
  text += upstream_.describe();
  text += ", transit " + text_of(plan_.transit_most) + ", link " + text_of(plan_.link_most) + ", commit " +
          text_of(plan_.commit_most) + ", lost " + std::to_string(plan_.lost_mille) + " late " +
          std::to_string(plan_.late_mille) + ", trouble every " + text_of(plan_.trouble_every);
  return text;
}

void BankWorld::note(const std::string& line) {
  if (trace_ != nullptr) trace_->add(scheduler_.now(), line);
}

core::BankClock BankWorld::database_clock() const {
  return {.now = scheduler_.now() + kDatabaseEpoch + database_ahead_, .server = database_server_};
}

void BankWorld::start_shard(std::size_t place) {
  shards_.push_back(std::make_unique<Shard>());
  Shard& shard = *shards_.back();
  shard.name = "s" + std::to_string(place);
  shard.place = place;
  shard.queues.resize(plan_.lanes);
  new_owner(shard);
  for (std::size_t lane = 0; lane < plan_.lanes; ++lane)
    arrive(shard, lane);
}

void BankWorld::new_owner(Shard& shard) {
  const OwnerLink owner = std::make_shared<Owner>();
  owner->shard = &shard;
  owner->epoch = ++shard.epoch;
  owner->slices = std::make_unique<core::Slices>(shard.name, owner->epoch, plan_.budget);
  if (plan_.clocks_differ) {
    owner->clock_ppm = random_.between(std::int64_t{-950}, 950);
    owner->clock_offset = random_.between(Duration(0), std::chrono::hours(1000));
  }
  shard.owner = owner;
  // Those of the owners before have their places.
  for (const auto& [number, call] : shard.running) {
    owner->slices->adopt(call.key);
    after(owner, call.ends - scheduler_.now(), [this, owner, key = call.key] {
      owner->slices->leave(key);
      turn(owner);
    });
  }
  after(owner, random_.between(Duration(0), milliseconds(500)), [this, owner] { turn(owner); });
}

void BankWorld::after(const OwnerLink& owner, Duration wait, std::function<void()> what) {
  scheduler_.after(wait, [this, owner, what = std::move(what)] {
    if (owner->dead) return;
    if (scheduler_.now() < owner->stopped_until)
      return after(owner, owner->stopped_until - scheduler_.now(), what);
    what();
  });
}

/// A job comes, and the next one after a while; where the lane is saturated, as many as are missing.
void BankWorld::arrive(Shard& shard, std::size_t lane) {
  const double per_second = plan_.per_second[shard.place][lane];
  if (per_second <= 0) return;
  const auto add = [&] {
    Job job{.number = ++jobs_, .amounts = {}, .came = scheduler_.now()};
    if (plan_.tokens_most > 0) job.amounts.input_tokens = random_.between(std::int64_t{1}, plan_.tokens_most);
    shard.queues[lane].push_back(job);
  };
  const bool saturated = per_second >= BankPlan::kSaturated;
  const Duration wait =
      saturated
          ? Duration(milliseconds(50))
          : Duration(static_cast<std::int64_t>(
                -std::log(static_cast<double>(random_.below(1'000'000) + 1) / 1'000'001) * 1e6 / per_second));
  scheduler_.after(wait, [this, &shard, lane] { arrive(shard, lane); });
  if (saturated)
    while (shard.queues[lane].size() < kAlwaysWaiting)
      add();
  else if (scheduler_.now() > TimePoint{} && shard.queues[lane].size() < 4 * kAlwaysWaiting)
    add();
  const OwnerLink owner = shard.owner;
  if (!saturated && !owner->dead && scheduler_.now() >= owner->stopped_until) turn(owner);
}

/// Hands over what it can, and draws when that is due.
void BankWorld::turn(const OwnerLink& owner) {
  Shard& shard = *owner->shard;
  for (std::size_t lane = 0; lane < plan_.lanes; ++lane) {
    while (!shard.queues[lane].empty()) {
      const Job job = shard.queues[lane].front();
      const auto taken = owner->slices->take(lane, job.amounts, owner->here(scheduler_.now()));
      if (!taken) break;
      shard.queues[lane].pop_front();
      hand_over(owner, lane, *taken, job);
    }
  }
  say_wants(*owner);
  wake(owner);
}

void BankWorld::say_wants(Owner& owner) {
  for (std::size_t lane = 0; lane < plan_.lanes; ++lane) {
    const std::deque<Job>& queue = owner.shard->queues[lane];
    core::LaneWant want{
        .lane = lane, .jobs = static_cast<std::int64_t>(queue.size()), .all = {.requests = 0}};
    want.hold = plan_.holds[lane];
    if (!queue.empty()) want.head = queue.front().amounts;
    for (const Job& job : queue)
      want.all = sum_of(want.all, job.amounts);
    owner.slices->want(want);
  }
}

/// A hand-over waits for its commit; a former owner cannot commit.
void BankWorld::hand_over(const OwnerLink& owner, std::size_t lane, const core::Slices::Taken& taken,
                          const Job& job) {
  const bool fenced = owner->epoch != owner->shard->epoch;
  Job waiting = job;
  const Duration commit = random_.between(milliseconds(1), plan_.commit_most);
  waiting.committing += commit;
  waiting.key = taken.key;
  if (taken.key != core::Claim::kNoKey)
    waiting.account = StrictUpstream::account_of(plan_.budget.keys.at(taken.key));
  after(owner, commit, [this, owner, lane, use = taken.use, waiting, fenced] {
    if (fenced) {
      owner->dead = true;
      note(owner->shard->name + " is no owner any more, and ends");
      return;
    }
    send(owner, lane, use, waiting);
  });
}

void BankWorld::send(const OwnerLink& owner, std::size_t lane, std::uint64_t use, Job job) {
  Shard& shard = *owner->shard;
  if (!owner->slices->send(use, owner->here(scheduler_.now()))) {
    note(shard.name + " is too late to hand over " + std::to_string(job.number));
    shard.queues[lane].push_front(job);
    return turn(owner);
  }
  shard.last_sent = scheduler_.now();
  if (scheduler_.now() > TimePoint(plan_.length / 2)) ++shard.sent_late;
  if (lane == 0) top_waits_.push_back(scheduler_.now() - job.came - job.committing);
  call(owner, use, job);
}

/// The call arrives upstream, whatever becomes of its owner, and ends later.
void BankWorld::call(const OwnerLink& owner, std::uint64_t use, const Job& job) {
  core::Amounts used = job.amounts;
  if (plan_.used_less) used.input_tokens = random_.between(std::int64_t{0}, used.input_tokens);
  ++report_.dispatches;
  const auto said = std::make_shared<wire::UpstreamLimits>();
  const Duration transit = random_.between(Duration(0), plan_.transit_most);
  scheduler_.after(transit, [this, used, said, number = job.number, account = job.account] {
    note("call " + std::to_string(number) + " arrives");
    upstream_.begin(account, scheduler_.now());
    report_.digest = report_.digest * 1099511628211ULL ^
                     static_cast<std::uint64_t>(scheduler_.now().time_since_epoch().count());
    upstream_.take(used, account, scheduler_.now());
    if (plan_.says_remaining == BankPlan::Says::at_intake) *said = upstream_.said(scheduler_.now());
  });
  // What was used less is taken as known when the call has ended, in the upstream's window and here.
  // No answer comes before its call has arrived.
  const Duration length = std::max(random_.between(milliseconds(200), kCallMost), transit);
  Shard& shard = *owner->shard;
  shard.running[job.number] = {.key = job.key, .ends = scheduler_.now() + length};
  scheduler_.after(length, [this, &shard, number = job.number, account = job.account] {
    shard.running.erase(number);
    upstream_.end(account, scheduler_.now());
  });
  if (plan_.says_remaining == BankPlan::Says::at_answer)
    scheduler_.after(length, [this, said] { *said = upstream_.said(scheduler_.now()); });
  after(owner, length, [this, owner, use, used, said, called_at = owner->here(scheduler_.now())] {
    if (plan_.says_remaining != BankPlan::Says::nothing)
      owner->slices->hear({.limits = *said}, called_at, owner->here(scheduler_.now()));
    owner->slices->settle(use, &used);
    turn(owner);
  });
}

/// Their calls are never refused.
void BankWorld::use_as_others() {
  upstream_.use_as_others(scheduler_.now());
  scheduler_.after(plan_.foreign_every, [this] { use_as_others(); });
}

void BankWorld::wake(const OwnerLink& owner) {
  const TimePoint here = owner->here(scheduler_.now());
  const TimePoint due = owner->slices->draw_due(here);
  if (due == core::kNever) return;
  if (due <= here) return draw(owner);
  const Duration wait = due - here + Duration(1);
  const TimePoint at = scheduler_.now() + wait;
  if (at >= owner->wakes_at) return;
  owner->wakes_at = at;
  after(owner, wait, [this, owner, at] {
    if (owner->wakes_at == at) owner->wakes_at = core::kNever;
    turn(owner);
  });
}

/// The draw takes place at the bank, or not, and its answer arrives, or not, or when the owner has given up.
void BankWorld::draw(const OwnerLink& owner) {
  core::Draw draw = owner->slices->begin_draw(owner->here(scheduler_.now()));
  for (const auto& shard : shards_)
    draw.shards.push_back(shard->name);
  ++figures_.draws;
  const bool lost = random_.per_mille(static_cast<std::uint64_t>(plan_.lost_mille));
  const bool done = !lost || random_.percent(50);
  const bool late = random_.per_mille(static_cast<std::uint64_t>(plan_.late_mille));
  const Duration later = late ? random_.between(Duration(0), seconds(2)) : Duration(0);
  const bool answers_late = late && added_.percent(50);
  const Duration there =
      random_.between(Duration(200), plan_.link_most) + (answers_late ? Duration(0) : later);
  const Duration back =
      random_.between(Duration(200), plan_.link_most) + (answers_late ? later : Duration(0));
  if (lost) ++figures_.lost;
  after(owner, kDrawTimeout, [this, owner, number = draw.number] {
    if (!owner->slices->drawing() || owner->slices->draw_number() != number) return;
    note(owner->shard->name + " gives draw " + std::to_string(number) + " up");
    owner->slices->lost(owner->here(scheduler_.now()));
    turn(owner);
  });
  // From here on it is the database's, and goes on without its owner.
  scheduler_.after(there, [this, owner, draw, done, lost, back] {
    if (!done) return;
    const auto drawn = at_bank(draw);
    if (lost || !drawn) return;
    after(owner, back, [this, owner, drawn] {
      owner->slices->drawn(*drawn, owner->here(scheduler_.now()));
      turn(owner);
    });
  });
}

std::optional<core::Drawn> BankWorld::at_bank(const core::Draw& draw) {
  core::Bank bank(plan_.budget, plan_.offline_share);
  if (!row_.empty())
    if (const auto restored = bank.restore(row_); !restored)
      throw Violation("the bank does not restore what it saved: " + restored.error().message);
  core::Drawn drawn = bank.draw(draw, database_clock());
  row_ = bank.save();
  figures_.row_bytes = std::max(figures_.row_bytes, row_.size());
  ++report_.messages;
  if (trace_ != nullptr)
    for (const core::Slice& slice : drawn.slices)
      note(draw.shard + " draws slice " + std::to_string(slice.number) + ": " +
           std::to_string(slice.amounts.of(core::Resource::requests)) + " requests " +
           std::to_string(slice.amounts.of(core::Resource::tokens)) + " tokens, lane " +
           std::to_string(slice.lane));
  if (trace_ != nullptr)
    for (std::size_t i = 0; i < drawn.places.size(); ++i)
      note(draw.shard + " had " + std::to_string(draw.places.at(i).held) + " places, ran " +
           std::to_string(draw.places.at(i).running) + ", has " + std::to_string(drawn.places[i].places) +
           ", allowed " + std::to_string(drawn.places[i].allowed));
  if (trace_ != nullptr)
    for (const core::LaneAnswer& answer : drawn.lanes)
      if (answer.refusal != core::DrawRefusal::none)
        note(draw.shard + " is refused for lane " + std::to_string(answer.lane) + ": reason " +
             std::to_string(static_cast<int>(answer.refusal)) + " " + answer.limit);
  return drawn;
}

void BankWorld::make_trouble() {
  if (scheduler_.now() > TimePoint(plan_.length - calm())) return;
  scheduler_.after(random_.between(plan_.trouble_every / 2, plan_.trouble_every * 3 / 2),
                   [this] { make_trouble(); });
  Shard& shard = *shards_[random_.below(shards_.size())];
  const OwnerLink owner = shard.owner;
  if (owner->dead || scheduler_.now() < owner->stopped_until) return;
  const Duration longest = TimePoint(plan_.length - calm()) - scheduler_.now();
  if (random_.percent(40)) {
    note(shard.name + " is killed");
    owner->dead = true;
  } else {
    Duration pause = random_.one_of(
        {Duration(milliseconds(600)), Duration(seconds(3)), Duration(seconds(30)), Duration(seconds(90))});
    pause = std::min(pause, std::max(longest, Duration(0)));
    note(shard.name + " is stopped for " + text_of(pause));
    owner->stopped_until = scheduler_.now() + pause;
    if (pause < plan_.lease || random_.percent(50)) return;
  }
  scheduler_.after(plan_.lease, [this, &shard] {
    note(shard.name + " has another owner");
    new_owner(shard);
  });
}

/// Another server takes over: its clock is ahead of the one before by a second at most, or behind it. Or
/// somebody sets the clock: ahead only where owners live on, since one that saw nothing believes it.
void BankWorld::change_clock() {
  const bool sets = random_.percent(30);
  Duration ahead = random_.one_of(
      {Duration(milliseconds(950)), -Duration(milliseconds(950)), -Duration(std::chrono::hours(1))});
  if (sets && plan_.trouble_every == Duration(0)) ahead = std::chrono::hours(1);
  if (sets && plan_.trouble_every != Duration(0)) ahead = std::min(ahead, Duration(0));
  database_ahead_ += ahead;
  if (!sets) ++database_server_;
  note(std::string(sets ? "the database's clock is set" : "another database takes over") + ", by " +
       text_of(ahead));
}

void BankWorld::keep_row() {
  earlier_rows_.push_back(row_);
  if (earlier_rows_.size() > kRowsKept) earlier_rows_.pop_front();
  scheduler_.after(kRowKeptEvery, [this] { keep_row(); });
}

/// A former primary takes writes again, a backup is restored, or somebody deletes the row.
void BankWorld::lose_row() {
  if (scheduler_.now() > TimePoint(plan_.length - calm())) return;
  scheduler_.after(added_.between(plan_.length / 8, plan_.length / 2), [this] { lose_row(); });
  const bool all = added_.percent(40);
  note(all ? "the bank's row is deleted" : "the bank's row is an earlier one");
  row_ = all ? std::string() : earlier_rows_[added_.below(earlier_rows_.size())];
}

Duration BankWorld::calm() const {
  return std::max(kCalm, plan_.period * (kCalmPeriods + 1));
}

RunReport BankWorld::run() {
  if (plan_.loses_rows) {
    keep_row();
    scheduler_.after(added_.between(Duration(0), plan_.length / 2), [this] { lose_row(); });
  }
  if (plan_.trouble_every > Duration(0)) make_trouble();
  if (plan_.foreign_every > Duration(0)) use_as_others();
  if (plan_.database_jumps) {
    for (Duration at = seconds(20); at < plan_.length; at += seconds(random_.between(std::int64_t{5}, 150)))
      scheduler_.at(TimePoint(at), [this] { change_clock(); });
  }
  while (scheduler_.step(TimePoint(plan_.length))) {
  }
  find_figures();
  check_liveness();
  report_.events = scheduler_.events();
  report_.jobs = jobs_;
  report_.simulated = plan_.length;
  return report_;
}

void BankWorld::find_figures() {
  const TimePoint from(plan_.period * 2), end(plan_.length);
  figures_.use = upstream_.use(from, end);
  figures_.places_use = upstream_.places_use();
  double all = 0;
  for (const auto& shard : shards_)
    all += static_cast<double>(shard->sent_late);
  figures_.least_share = 1e9;
  for (const auto& shard : shards_) {
    const double share =
        static_cast<double>(shard->sent_late) * static_cast<double>(shards_.size()) / std::max(all, 1.0);
    figures_.least_share = std::min(figures_.least_share, share);
    figures_.most_share = std::max(figures_.most_share, share);
  }
  std::vector<Duration>& waits = top_waits_;
  figures_.top_jobs = waits.size();
  if (waits.empty()) return;
  std::sort(waits.begin(), waits.end());
  figures_.top_p50 = waits[waits.size() / 2];
  figures_.top_p99 = waits[waits.size() * 99 / 100];
}

/// Nothing stands still for good: when all is well again, whoever has jobs waiting gets on.
void BankWorld::check_liveness() const {
  for (const auto& shard : shards_) {
    const bool waits = std::any_of(shard->queues.begin(), shard->queues.end(),
                                   [](const auto& queue) { return queue.size() >= kAlwaysWaiting / 2; });
    if (waits && shard->last_sent < TimePoint(plan_.length - std::max({plan_.period, kCalm / 2, plan_.turn})))
      throw Violation(shard->name + " has jobs waiting, and has handed none over for a long time");
  }
}

namespace {

BankPlan saturated(std::size_t shards) {
  BankPlan plan;
  plan.period = seconds(60);
  plan.length = seconds(360);
  plan.transit_most = milliseconds(20);
  plan.shards = shards;
  plan.budget.name = "shared";
  plan.budget.rates.push_back(requests(6000, plan.period));
  plan.lanes = 2;
  plan.holds = {0, 0};
  plan.per_second.assign(shards, {0.0, BankPlan::kSaturated});
  return plan;
}

BankPlan in_trouble(std::size_t shards) {
  BankPlan plan = saturated(shards);
  // Each owner is killed or stopped every two minutes.
  plan.trouble_every = Duration(seconds(120)) / static_cast<std::int64_t>(shards);
  plan.length = seconds(600);
  plan.lost_mille = plan.late_mille = 10;
  plan.clocks_differ = true;
  return plan;
}

BankPlan uneven(std::size_t shards) {
  BankPlan plan = saturated(shards);
  for (std::size_t i = 1; i < shards; ++i)
    plan.per_second[i] = {0.0, 0.5};
  return plan;
}

BankPlan beside_others(std::size_t shards) {
  BankPlan plan = saturated(shards);
  plan.per_second.assign(shards, {0.0, 70.0 / static_cast<double>(shards)});
  plan.foreign_every = milliseconds(20);
  return plan;
}

BankPlan few_large_jobs(std::size_t shards) {
  BankPlan plan = saturated(shards);
  plan.budget.rates = {tokens(30'000, plan.period)};
  plan.tokens_most = 300;
  plan.used_less = true;
  plan.link_most = milliseconds(100);
  return plan;
}

BankPlan with_places(std::size_t shards, std::int64_t places) {
  BankPlan plan = saturated(shards);
  plan.budget.concurrency = places;
  return plan;
}

BankPlan with_top_lane(std::size_t shards) {
  BankPlan plan = saturated(shards);
  plan.holds = {0, 100};  // of the burst, which is a tenth of the limit
  plan.per_second.assign(shards, {0.5 / static_cast<double>(shards), BankPlan::kSaturated});
  return plan;
}

}  // namespace

bool print_bank_figures() {
  struct Row {
    std::string what;
    BankPlan plan;
    double least_use, most_use = 1, least_places = 0;
  };
  std::vector<Row> rows;
  for (const std::size_t shards : {1U, 4U, 16U})
    rows.push_back({std::to_string(shards) + " shards, saturated", saturated(shards), 0.97});
  for (const std::size_t shards : {4U, 16U})
    rows.push_back({std::to_string(shards) + " shards, each owner killed or stopped every 120 s",
                    in_trouble(shards), 0.96});
  rows.push_back({"4 shards, saturated, a limit a second", saturated(4), 0.75});
  rows.back().plan.period = rows.back().plan.budget.rates.front().period = seconds(1);
  rows.back().plan.budget.rates.front().limit = 100;
  rows.back().plan.transit_most = milliseconds(5);
  rows.push_back({"4 shards, saturated, in one lane alone, the top lane", saturated(4), 0.97});
  rows.back().plan.per_second.assign(4, {BankPlan::kSaturated, 0.0});
  rows.push_back({"9 shards, few large jobs that use half, links of 100 ms", few_large_jobs(9), 0.9});
  rows.push_back({"4 shards, one saturated, three want little", uneven(4), 0.97});
  rows.push_back({"4 shards, saturated, told what remained at intake", saturated(4), 0.97});
  rows.back().plan.says_remaining = BankPlan::Says::at_intake;
  rows.push_back({"4 shards, saturated, told what remains at the answer", saturated(4), 0.97});
  rows.back().plan.says_remaining = BankPlan::Says::at_answer;
  rows.push_back({"4 shards that want 70 %, others use half, and nobody tells", beside_others(4), 0.69});
  rows.push_back({"the same, told what remained at intake", beside_others(4), 0.47, 0.52});
  rows.back().plan.says_remaining = BankPlan::Says::at_intake;
  rows.push_back({"the same, told what remains at the answer", beside_others(4), 0.47, 0.52});
  rows.back().plan.says_remaining = BankPlan::Says::at_answer;
  rows.push_back({"4 shards, saturated, 40 places for calls of 0.2 to 4 s", with_places(4, 40), 0, 1, 0.95});
  rows.push_back({"16 shards, saturated, 8 places", with_places(16, 8), 0, 1, 0.7});
  rows.push_back({"16 shards, saturated, and a top lane with a reserve of 1 %", with_top_lane(16), 0.96});
  bool reached = true;
  for (const Row& row : rows) {
    BankWorld world(1, row.plan, nullptr);
    world.run();
    const BankFigures& got = world.figures();
    std::printf(
        "%-60s use of the limit %.1f %% (at least %.0f), shares %.2f to %.2f, %zu draws, row %zu bytes\n",
        row.what.c_str(), got.use * 100, row.least_use * 100, got.least_share, got.most_share, got.draws,
        got.row_bytes);
    if (row.least_places > 0)
      std::printf("%-60s use of the places %.1f %% (at least %.0f)\n", "", got.places_use * 100,
                  row.least_places * 100);
    reached =
        reached && got.use >= row.least_use && got.use <= row.most_use && got.places_use >= row.least_places;
    if (row.plan.holds[1] == 0) continue;
    std::printf("%-60s top lane: %zu jobs, waits for the budget p50 %.1f ms, p99 %.1f ms (at most 20, 600)\n",
                "", got.top_jobs, static_cast<double>(got.top_p50.count()) / 1000,
                static_cast<double>(got.top_p99.count()) / 1000);
    reached = reached && got.top_p50 <= milliseconds(20) && got.top_p99 <= milliseconds(600);
  }
  return reached;
}

}  // namespace lanemq::sim
