// SPDX-License-Identifier: Apache-2.0
#include "broker/core/base/timer_wheel.hpp"

#include <array>
#include <map>
#include <set>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace lanemq::core {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// A wheel beside a list of what is set, which says what the wheel must do.
class CheckedWheel {
 public:
  void set(std::size_t which, Duration ahead) {
    set_at_[which] = now_;
    due_[which] = now_ + ahead;
    wheel_.set(timers_[which], now_ + ahead);
    RC_ASSERT(timers_[which].is_set());
  }
  void clear(std::size_t which) {
    due_.erase(which);
    wheel_.clear(timers_[which]);
    RC_ASSERT(!timers_[which].is_set());
  }
  /// Lets time pass at one go, however long.
  void pass(Duration time) {
    now_ += time;
    while (Timer* timer = wheel_.pop_due(now_)) {
      const auto which = static_cast<std::size_t>(timer - timers_.data());
      RC_ASSERT(due_.count(which) == 1U);
      RC_ASSERT(due_[which] <= now_);  // never early
      due_.erase(which);
    }
    for (const auto& [which, due] : due_) {
      // Time that is over when a timer is set counts from then.
      RC_ASSERT(std::max(due, set_at_[which]) + TimerWheel::kTick > now_);
    }
    RC_ASSERT(wheel_.size() == due_.size());
    check_wakeup();
  }
  /// Lets time pass as a loop does: to the next wake-up, or as far as asked.
  void sleep(Duration time) {
    for (const TimePoint end = now_ + time; now_ < end;) {
      const auto wakeup = wheel_.next_wakeup();
      pass(std::min(std::max(wakeup.value_or(end), now_ + TimerWheel::kTick), end) - now_);
    }
  }

 private:
  /// A wake-up may be early but never late.
  void check_wakeup() const {
    const auto wakeup = wheel_.next_wakeup();
    if (due_.empty()) return;
    RC_ASSERT(wakeup.has_value());
    for (const auto& [which, due] : due_)
      RC_ASSERT(*wakeup <= std::max(due, now_) + TimerWheel::kTick);
  }

  static constexpr std::size_t kTimers = 24;
  TimePoint now_{};
  TimerWheel wheel_;
  std::array<Timer, kTimers> timers_;
  std::map<std::size_t, TimePoint> due_, set_at_;
};

/// Microseconds of every size from nothing to months.
rc::Gen<Duration> any_duration() {
  return rc::gen::apply(
      [](int octave, std::int64_t within) {
        return Duration((std::int64_t{1} << octave) + within % (std::int64_t{1} << octave));
      },
      rc::gen::inRange(0, 44), rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 43));
}

TEST(TimerWheel, fires_each_timer_once_never_early_and_at_most_a_tick_late) {
  const bool holds = rc::check([] {
    CheckedWheel wheel;
    const auto steps = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 100));
    for (const int step : steps) {
      const auto which = *rc::gen::inRange<std::size_t>(0, 24);
      if (step < 55)
        wheel.set(which, *any_duration());
      else if (step < 70)
        wheel.clear(which);
      else if (step < 95)
        wheel.pass(*any_duration());
      else
        wheel.sleep(milliseconds(*rc::gen::inRange(1, 2000)));
    }
  });
  EXPECT_TRUE(holds);
}

TEST(TimerWheel, a_loop_that_follows_its_wakeups_is_a_tick_late_at_most) {
  TimerWheel wheel;
  Timer timer;
  for (const Duration ahead :
       {Duration(1), Duration(999), Duration(1000), Duration(255'999), Duration(256'000), Duration(256'001),
        Duration(seconds(65)), Duration(seconds(66)), Duration(hours(25))}) {
    TimePoint now{};
    TimerWheel fresh;
    fresh.set(timer, now + ahead);
    int wakeups = 0;
    while (fresh.pop_due(now) == nullptr) {
      ASSERT_TRUE(fresh.next_wakeup());
      ASSERT_GT(*fresh.next_wakeup(), now) << "a loop that does not move";
      now = *fresh.next_wakeup();
      ASSERT_LT(++wakeups, 10);
    }
    EXPECT_GE(now, TimePoint(ahead));
    EXPECT_LT(now, TimePoint(ahead) + TimerWheel::kTick);
  }
}

TEST(TimerWheel, more_timers_than_are_moved_ahead_in_a_tick_fire_on_time_all_the_same) {
  for (const bool follows_wakeups : {true, false}) {
    TimerWheel wheel;
    std::vector<Timer> timers(10 * TimerWheel::kMovedAhead);
    // All in one slot of the second level, 256 ms wide, or in one of the third.
    for (const Duration begin : {Duration(milliseconds(1024)), Duration(milliseconds(1 << 18))}) {
      const auto due_of = [&](const Timer& timer) {
        return TimePoint(begin + milliseconds((&timer - timers.data()) % 256));
      };
      TimePoint now = wheel.next_wakeup().value_or(TimePoint{});
      for (Timer& timer : timers)
        wheel.set(timer, due_of(timer));
      // One that is cleared while others of its slot have been moved.
      if (follows_wakeups) now = *wheel.next_wakeup();
      ASSERT_EQ(wheel.pop_due(now), nullptr);
      wheel.clear(timers.front());
      wheel.clear(timers.back());

      std::size_t fired = 0;
      while (wheel.size() > 0) {
        now = follows_wakeups ? *wheel.next_wakeup() : now + milliseconds(7);
        for (Timer* timer = nullptr; (timer = wheel.pop_due(now)) != nullptr; ++fired) {
          ASSERT_GE(now, due_of(*timer));
          ASSERT_LT(now - due_of(*timer), follows_wakeups ? TimerWheel::kTick : Duration(milliseconds(7)));
        }
      }
      EXPECT_EQ(fired, timers.size() - 2);
    }
  }
}

TEST(TimerWheel, moving_a_timer_leaves_one) {
  TimerWheel wheel;
  Timer timer;
  wheel.set(timer, TimePoint(seconds(1)));
  wheel.set(timer, TimePoint(seconds(5)));

  EXPECT_EQ(wheel.size(), 1u);
  EXPECT_EQ(wheel.pop_due(TimePoint(seconds(4))), nullptr);
  EXPECT_EQ(wheel.pop_due(TimePoint(seconds(5))), &timer);
  EXPECT_EQ(wheel.pop_due(TimePoint(hours(5))), nullptr);
}

TEST(TimerWheel, takes_a_time_that_never_comes_and_goes_on_with_the_others) {
  TimerWheel wheel;
  Timer never, soon;
  EXPECT_EQ(wheel.pop_due(TimePoint(hours(24 * 365))), nullptr);

  wheel.set(never, kNever);
  wheel.set(soon, TimePoint(hours(24 * 366)));

  EXPECT_EQ(wheel.pop_due(TimePoint(hours(24 * 366) - milliseconds(1))), nullptr);
  EXPECT_EQ(wheel.pop_due(TimePoint(hours(24 * 366))), &soon);
  EXPECT_EQ(wheel.pop_due(TimePoint(hours(24 * 3660))), nullptr);
  wheel.clear(never);
  EXPECT_EQ(wheel.size(), 0u);
}

TEST(TimerWheel, a_timer_may_be_set_again_while_others_are_being_popped) {
  TimerWheel wheel;
  std::array<Timer, 3> timers;
  for (Timer& timer : timers)
    wheel.set(timer, TimePoint(milliseconds(10)));

  const TimePoint now(milliseconds(10));
  Timer* const first = wheel.pop_due(now);
  ASSERT_NE(first, nullptr);
  wheel.set(*first, now);  // over already: not in this round again, but in the next tick

  EXPECT_NE(wheel.pop_due(now), first);
  EXPECT_NE(wheel.pop_due(now), first);
  EXPECT_EQ(wheel.pop_due(now), nullptr);
  EXPECT_EQ(wheel.pop_due(now + TimerWheel::kTick), first);
}

TEST(TimerWheel, a_timer_can_be_cleared_while_it_waits_to_be_popped) {
  TimerWheel wheel;
  std::array<Timer, 2> timers;
  for (Timer& timer : timers)
    wheel.set(timer, TimePoint(milliseconds(10)));

  Timer* const first = wheel.pop_due(TimePoint(milliseconds(10)));
  wheel.clear(first == &timers[0] ? timers[1] : timers[0]);

  EXPECT_EQ(wheel.pop_due(TimePoint(milliseconds(10))), nullptr);
  EXPECT_EQ(wheel.size(), 0u);
}

}  // namespace
}  // namespace lanemq::core
