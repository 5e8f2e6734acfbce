// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/disasters.hpp"

#include "tests/sim/world.hpp"

namespace lanemq::sim {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// How often it is looked whether the broker is drained.
constexpr core::Duration kLookEvery = milliseconds(5);
/// After a start that ends soon.
constexpr core::Duration kSoon = milliseconds(50);
constexpr core::Duration kFullMax = seconds(5), kGoodMax = seconds(20);
/// The store's clock is noted at least so often.
constexpr core::Duration kNotedMax = seconds(1);

}  // namespace

Disasters::Disasters(Stage& stage, CrashingHost& host, const Crashes& crashes, std::function<void()> back)
    : stage_(stage), host_(host), crashes_(crashes), back_(std::move(back)) {
  plan_end();
  if (crashes_.fills) plan_fill();
}

void Disasters::plan_end() {
  Random& random = stage_.random;
  const bool soon = random.percent(static_cast<std::uint64_t>(crashes_.again));
  stage_.scheduler.after(random.between(crashes_.every_min, soon ? kSoon : crashes_.every_max),
                         [this, life = life_] {
                           if (life == life_ && !stage_.healing) end();
                         });
}

void Disasters::end() {
  Random& random = stage_.random;
  if (host_.stands_still() && random.percent(50)) host_.go_on();
  if (host_.stands_still()) return die();
  if (!random.percent(static_cast<std::uint64_t>(crashes_.drains))) return die();
  host_.drain();
  // Some are in a hurry while it drains.
  if (random.percent(30)) {
    stage_.scheduler.after(random.between(core::Duration(0), stage_.swarm.options.drain_timeout),
                           [this, life = life_] {
                             if (life == life_ && !stage_.healing) die();
                           });
    return;
  }
  stop_in_order(stage_.scheduler.now() + stage_.swarm.options.drain_timeout);
}

void Disasters::stop_in_order(core::TimePoint give_up_at) {
  if (!host_.drained() && stage_.scheduler.now() < give_up_at) {
    stage_.scheduler.after(kLookEvery, [this, give_up_at, life = life_] {
      if (life == life_ && !stage_.healing) stop_in_order(give_up_at);
    });
    return;
  }
  if (!host_.drained()) host_.give_up_running();
  host_.commit_all();
  die();
}

void Disasters::die() {
  host_.crash();
  ++life_;
  stage_.scheduler.after(stage_.random.between(core::Duration(0), crashes_.down_max), [this, life = life_] {
    if (life == life_) start();
  });
}

void Disasters::start() {
  Random& random = stage_.random;
  CrashingHost::ClockChange change;
  if (crashes_.clocks && random.percent(50)) {
    change.wall = random.one_of<core::Duration>({hours(1), hours(-1), hours(24 * 30), hours(-24 * 30)});
    change.rebooted = crashes_.reboots && random.percent(30);
    change.noted = random.between(core::Duration(0), kNotedMax);
  }
  if (!stage_.healing && random.percent(static_cast<std::uint64_t>(crashes_.again) / 2)) {
    host_.start_again(change, true);
    change = {};
  }
  host_.start_again(change, false);
  back_();
  plan_end();
}

void Disasters::plan_fill() {
  stage_.scheduler.after(stage_.random.between(core::Duration(0), kGoodMax), [this] {
    if (stage_.healing) return;
    host_.fill(true, !crashes_.stalls);
    stage_.scheduler.after(stage_.random.between(core::Duration(0), kFullMax), [this] {
      if (stage_.healing) return;
      host_.fill(false, true);
      plan_fill();
    });
  });
}

void Disasters::settle() {
  host_.fill(false, true);
  if (host_.is_down()) {
    ++life_;
    return start();
  }
  // One that drains takes no work any more.
  die();
}

}  // namespace lanemq::sim
