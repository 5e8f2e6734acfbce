// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "broker/core/time.hpp"

namespace lanemq::core {

/// What a timer belongs to, so that whoever it fires for can be told apart without a virtual call.
enum class TimerOwner : std::uint8_t { connection, job, result, service, waiter, worker };

/// A timer inside the object that waits. Set in at most one wheel.
struct Timer {
  Timer* previous = nullptr;  ///< null when not set
  Timer* next = nullptr;
  std::uint64_t tick = 0;
  TimerOwner owner = TimerOwner::job;
  void* object = nullptr;  ///< the owner itself, of the type that `owner` says
  bool is_set() const { return next != nullptr; }
};

/// Deadlines of any number of objects: a hierarchical timing wheel (Varghese & Lauck, 1987) of 5 levels of
/// 256 slots with a tick of 1 ms. Setting and clearing are O(1); a timer fires at the first advance() at or
/// after its time, never early, and not more than a tick late.
///
/// Owns nothing. Times beyond kSpan fire at kSpan.
class TimerWheel {
 public:
  static constexpr Duration kTick = std::chrono::milliseconds(1);
  static constexpr std::uint64_t kSpan = (std::uint64_t{1} << 40) - 1;  // ticks from the origin: 34 years

  TimerWheel();
  TimerWheel(const TimerWheel&) = delete;
  TimerWheel& operator=(const TimerWheel&) = delete;

  /// Sets or moves a timer.
  void set(Timer& timer, TimePoint when);
  /// Clears a timer that may be set.
  void clear(Timer& timer);
  /// Takes the next timer that is due at `now`, null when none is. The timer is then not set.
  Timer* pop_due(TimePoint now);
  /// No timer is due before this. It may be early: by the width of a slot, or for timers since cleared.
  std::optional<TimePoint> next_wakeup() const;
  std::size_t size() const { return size_; }

 private:
  static constexpr int kLevels = 5;
  static constexpr int kSlotBits = 8;
  static constexpr std::uint64_t kSlots = 1u << kSlotBits;

  struct Level {
    std::array<Timer, 256> slots;             // list heads, circular
    std::array<std::uint64_t, 4> occupied{};  // a bit for each slot that may hold timers
  };

  void link(Timer& timer);
  std::optional<std::uint64_t> next_tick() const;
  void cascade();

  std::array<Level, kLevels> levels_;
  std::uint64_t current_ = 0;  // every timer due before or at it has been taken out of its slot
  Timer due_;                  // list head: due now, not yet popped
  std::size_t size_ = 0;
};

}  // namespace lanemq::core
