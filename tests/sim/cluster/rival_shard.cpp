// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/cluster/rival_shard.hpp"

#include <algorithm>
#include <utility>

namespace lanemq::sim {
namespace {

using core::Duration;
using core::TimePoint;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// So many jobs wait at most; where there are always some, so many do.
constexpr std::int64_t kWaitingMax = 30;
constexpr Duration kArrivalsApart = milliseconds(1500);
constexpr std::int64_t kPpmMax = 950;

}  // namespace

RivalShard::RivalShard(const Stage& stage, const core::BudgetOptions& budget, const core::Amounts& job)
    : stage_(stage),
      budget_(budget),
      job_(job),
      kind_{.always_waits = stage.random.percent(50),
            .dies_late = stage.random.percent(50),
            .clock_ppm = stage.random.between(-kPpmMax, kPpmMax)},
      process_(stage.scheduler, 1000),
      way_(std::make_shared<DatabaseWay>(Database::kServers)) {}

void RivalShard::say(const std::string& what) {
  if (stage_.trace != nullptr) stage_.trace->add(stage_.scheduler.now(), "rival " + what);
}

/// By its own clock, which began long ago.
TimePoint RivalShard::here() const {
  const Duration real = stage_.scheduler.now().time_since_epoch();
  return TimePoint(std::chrono::hours(1000) + real + real * kind_.clock_ppm / 1'000'000);
}

void RivalShard::start() {
  say("has an owner of epoch " + std::to_string(++epoch_));
  wakes_at_ = core::kNever;
  slices_ = std::make_unique<core::Slices>("rival", epoch_, budget_);
  draws_ = std::make_unique<BankDraws>(
      process_, stage_.database, way_,
      [this](std::size_t, const std::optional<core::Drawn>& drawn) {
        drawn ? slices_->drawn(*drawn, here()) : slices_->lost(here());
        if (slices_->superseded()) violated("the bank takes the owner of a shard for an earlier one");
        turn();
      },
      [this](const std::string& what) { say(what); });
  adopt();
  process_.after({}, [this] { arrive(); });
}

/// Calls that an earlier owner has handed over have their places.
void RivalShard::adopt() {
  for (const auto& [number, call] : running_) {
    slices_->adopt(call.key);
    process_.after(call.ends - stage_.scheduler.now(), [this, key = call.key] {
      slices_->leave(key);
      turn();
    });
  }
}

void RivalShard::kill(bool heard) {
  if (!slices_) return;
  say("is killed");
  if (const DatabaseLink& link = draws_->link(); link) {
    if (!heard) link->up_open = false;
    stage_.database.hang_up(link, heard);
  }
  process_.end();
  draws_.reset();
  slices_.reset();
  stage_.scheduler.after(stage_.random.between(milliseconds(50), seconds(5)), [this] { start(); });
}

void RivalShard::stop(Duration time) {
  say("is stopped for " + std::to_string(core::to_ms(time)) + "ms");
  process_.stop(time, false);
}

void RivalShard::cut(TimePoint until, bool up, bool down) {
  say("is cut off from the bank");
  for (std::size_t server = 0; server < Database::kServers; ++server) {
    if (up) way_->up_until[server] = until;
    if (down) way_->down_until[server] = until;
  }
}

void RivalShard::snap() {
  if (draws_ && draws_->link()) stage_.database.snap(draws_->link());
}

void RivalShard::heal() {
  std::fill(way_->up_until.begin(), way_->up_until.end(), TimePoint{});
  way_->down_until = way_->up_until;
  process_.go_on();
  kind_.dies_late = false;
}

/// Jobs come now and then, or as many as are missing. Of the top lane they want a fifth of the limit, so that
/// other lanes get on.
void RivalShard::arrive() {
  const core::RateOptions& rate = budget_.rates.front();
  const Duration between = 5 * rate.period / rate.limit;
  if (stage_.random.between(Duration(0), between) < kArrivalsApart / 2)
    waiting_[0] = std::min(waiting_[0] + 1, kWaitingMax);
  waiting_[1] = kind_.always_waits ? kWaitingMax : std::min(waiting_[1] + 1, kWaitingMax);
  process_.after(stage_.random.between(Duration(0), kArrivalsApart), [this] { arrive(); });
  turn();
}

void RivalShard::turn() {
  // One for all that go in a turn. Who is killed behind a slow one has used slices late, and reports nothing.
  const bool slow = stage_.random.percent(15);
  const Duration commit = stage_.random.between(milliseconds(1), milliseconds(slow ? 600 : 10));
  bool any = false;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    while (waiting_[lane] > 0) {
      const auto taken = slices_->take(lane, job_, here());
      if (!taken) break;
      --waiting_[lane];
      process_.after(commit, [this, lane, taken = *taken] { send(lane, taken); });
      any = true;
    }
    const std::int64_t jobs = waiting_[lane];
    slices_->want({.lane = lane,
                   .head = job_,
                   .jobs = jobs,
                   .all = {.requests = jobs, .input_tokens = jobs * job_.input_tokens}});
  }
  if (any && slow && kind_.dies_late && stage_.random.percent(30))
    process_.after(commit + milliseconds(1), [this] { kill(stage_.random.percent(50)); });
  wake();
}

void RivalShard::send(std::size_t lane, const core::Slices::Taken& taken) {
  if (!slices_->send(taken.use, here())) {
    say("is too late to hand over");
    ++waiting_[lane];
    return turn();
  }
  last_sent_ = stage_.scheduler.now();
  const Duration transit = stage_.random.between(Duration(100), milliseconds(20));
  const Duration time = stage_.random.between(milliseconds(100), seconds(4));
  call(taken.key, transit, time);
  process_.after(time, [this, use = taken.use] {
    slices_->settle(use, &job_);
    turn();
  });
}

/// The call arrives, and ends, whatever becomes of the shard's owner.
void RivalShard::call(std::uint16_t key, Duration transit, Duration time) {
  const std::string account =
      key == core::Claim::kNoKey ? "" : StrictUpstream::account_of(budget_.keys.at(key));
  const std::uint64_t number = ++calls_;
  running_[number] = {.key = key, .ends = stage_.scheduler.now() + time};
  stage_.scheduler.after(
      transit, [this, account] { stage_.witness.other_calls(account, job_, stage_.scheduler.now()); });
  stage_.scheduler.after(time, [this, account, number] {
    running_.erase(number);
    stage_.witness.other_call_ends(account, stage_.scheduler.now());
  });
}

/// Draws now, or when that is due.
void RivalShard::wake() {
  const TimePoint now = here(), due = slices_->draw_due(now);
  if (due == core::kNever) return;
  if (due <= now) return draws_->draw({{.budget = 0, .options = budget_, .draw = slices_->begin_draw(now)}});
  if (due >= wakes_at_) return;
  wakes_at_ = due;
  process_.after((due - now) * 1001 / 1000 + Duration(1), [this, due] {
    if (wakes_at_ != due) return;
    wakes_at_ = core::kNever;
    turn();
  });
}

}  // namespace lanemq::sim
