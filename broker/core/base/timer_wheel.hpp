// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "broker/core/base/time.hpp"

namespace lanemq::core {

/// The type of a timer's owner, so that a fired timer needs no virtual call.
enum class TimerOwner : std::uint8_t {
  connection,
  group,
  job,
  progress,
  reader,
  rest,
  result,
  service,
  unserved,
  waiter,
  watcher,
  worker
};

/// A timer inside the object that waits. Set in at most one wheel.
struct Timer {
  Timer() = default;
  /// `object`: the owner itself, of the type that `of` says. Requires: the timer lies in it.
  Timer(TimerOwner of, const void* object)
      : owner(of),
        offset(static_cast<std::uint16_t>(reinterpret_cast<const char*>(this) -
                                          static_cast<const char*>(object))) {}
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  bool is_set() const { return next != nullptr; }
  void* object() { return reinterpret_cast<char*>(this) - offset; }

  Timer* previous = nullptr;  ///< null when not set
  Timer* next = nullptr;
  std::uint64_t tick : 40 = 0;
  TimerOwner owner : 8 = TimerOwner::job;
  std::uint16_t offset = 0;  ///< of the timer in its owner
};
static_assert(sizeof(Timer) == 24);

/// Deadlines of any number of objects: a hierarchical timing wheel (Varghese & Lauck, 1987) of 5 levels of
/// 512 slots with a tick of 1 ms. Setting and clearing are O(1); a timer fires at the first pop_due() at or
/// after its time, never early, and not more than a tick late.
///
/// A slot spans 256 slots of the level below, whose ring has 512. While one slot passes, the timers of the
/// next are moved down, some in each tick: a slot with a million timers does not stop the loop when it
/// begins.
///
/// Owns nothing. Times beyond kSpan fire at kSpan.
class TimerWheel {
 public:
  static constexpr Duration kTick = std::chrono::milliseconds(1);
  static constexpr std::uint64_t kSpan = (std::uint64_t{1} << 40) - 1;  // ticks from the origin: 34 years
  /// Timers that one tick moves down ahead of their time: some 0.2 ms of work. In the ticks of one slot of
  /// the second level a million are moved.
  static constexpr std::size_t kMovedAhead = 4096;

  TimerWheel();
  TimerWheel(const TimerWheel&) = delete;
  TimerWheel& operator=(const TimerWheel&) = delete;

  /// When a timer fires that is set to a time in the future: at the end of that time's tick.
  static TimePoint fires_at(TimePoint when) { return std::chrono::ceil<std::chrono::milliseconds>(when); }
  /// Sets or moves a timer.
  void set(Timer& timer, TimePoint when);
  /// Clears a timer that may be set.
  void clear(Timer& timer);
  /// Takes the next timer that is due at `now`, null when none is. The timer is then not set.
  Timer* pop_due(TimePoint now);
  /// No timer is due before this time. Nothing may be due at it: the wheel moves timers down, or a timer was
  /// cleared.
  std::optional<TimePoint> next_wakeup() const;
  std::size_t size() const { return size_; }

 private:
  static constexpr int kLevels = 5;
  static constexpr int kLevelBits = 8;          // a slot is 256 of the level below
  static constexpr std::uint64_t kSlots = 512;  // room for two such spans
  static constexpr std::uint64_t kNoTick = ~std::uint64_t{0};

  struct Level {
    std::array<Timer, kSlots> slots;                    // list heads, circular
    std::array<std::uint64_t, kSlots / 64> occupied{};  // a bit for each slot that may hold timers

    Timer& head(std::uint64_t number) { return slots[number % kSlots]; }
    void mark(std::uint64_t number);
    void unmark(std::uint64_t number);
    /// The first slot after `number` that may hold timers.
    std::optional<std::uint64_t> next_after(std::uint64_t number) const;
  };

  std::uint64_t slot_of(std::uint64_t tick, int level) const { return tick >> (level * kLevelBits); }
  void link(Timer& timer);
  std::optional<std::uint64_t> next_tick() const;
  void enter_slots();
  void move_ahead();

  std::array<Level, kLevels> levels_;
  std::uint64_t current_ = 0;      // every timer due before or at it has been taken out of its slot
  std::uint64_t quiet_until_ = 0;  // no slot that may hold timers begins before it
  Timer due_;                      // list head: due now, not yet popped
  std::size_t size_ = 0;
};

}  // namespace lanemq::core
