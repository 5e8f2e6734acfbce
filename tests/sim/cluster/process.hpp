// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>

#include "tests/sim/scheduler.hpp"

namespace lanemq::sim {

/// A process and its machine's clocks: what it does is put off while it is stopped, and void once it has
/// ended.
class Process {
 public:
  using Duration = core::Duration;
  using TimePoint = core::TimePoint;

  /// Its clocks pass so many thousandths of the time.
  Process(Scheduler& scheduler, std::int64_t clock_mille) : scheduler_(scheduler), mille_(clock_mille) {}

  /// Ends what it does; the next one begins.
  void end() {
    ++life_;
    stopped_until_ = {};
  }
  std::uint64_t life() const { return life_; }

  /// `sleeps`: the machine does, and its clocks but one stand still.
  void stop(Duration time, bool sleeps) {
    const TimePoint until = scheduler_.now() + time;
    if (until <= stopped_until_) return;
    if (sleeps) slept_ += until - std::max(stopped_until_, scheduler_.now());
    stopped_until_ = until;
  }
  void go_on() { stopped_until_ = std::min(stopped_until_, scheduler_.now()); }
  bool is_stopped() const { return scheduler_.now() < stopped_until_; }
  TimePoint stopped_until() const { return stopped_until_; }

  /// CLOCK_MONOTONIC.
  std::chrono::steady_clock::time_point steady() const {
    return std::chrono::steady_clock::time_point(here(scheduler_.now().time_since_epoch() - slept_));
  }
  /// CLOCK_BOOTTIME.
  std::chrono::nanoseconds boot() const { return here(scheduler_.now().time_since_epoch()); }

  /// Does it after so much time of its own clock.
  void after(Duration wait, std::function<void()> what) {
    const Duration real = (wait * 1000 + Duration(mille_ - 1)) / mille_;
    scheduler_.after(real, [this, life = life_, what = std::move(what)] { run(life, what); });
  }
  /// A function for others to call.
  template <class... Args, class What>
  std::function<void(Args...)> called(What what) {
    return [this, life = life_, what = std::move(what)](Args... args) {
      run(life, [what, args...] { what(args...); });
    };
  }

 private:
  Duration here(Duration time) const { return time * mille_ / 1000; }
  void run(std::uint64_t life, const std::function<void()>& what) {
    if (life != life_) return;
    if (!is_stopped()) return what();
    scheduler_.at(stopped_until_, [this, life, what] { run(life, what); });
  }

  Scheduler& scheduler_;
  const std::int64_t mille_;
  std::uint64_t life_ = 0;
  TimePoint stopped_until_{};
  Duration slept_{};
};

}  // namespace lanemq::sim
