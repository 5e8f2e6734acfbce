// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

namespace lanemq::gateway {

/// How long the loop was held by what it did last: while it does one thing, everybody else waits. Belongs to
/// the loop's thread.
class TurnClock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;
  /// What was longer ago is forgotten, at most a slot later.
  static constexpr std::chrono::seconds kWindow{60}, kSlot{5};

  void note(TimePoint began, TimePoint ended);
  /// The longest within the window before `now`.
  Duration longest(TimePoint now) const;

  /// Notes the time until its end.
  class Turn {
   public:
    explicit Turn(TurnClock& clock) : clock_(clock), began_(std::chrono::steady_clock::now()) {}
    ~Turn() { clock_.note(began_, std::chrono::steady_clock::now()); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    TurnClock& clock_;
    const TimePoint began_;
  };

 private:
  struct Slot {
    std::int64_t number = -1;  ///< of slots since the clock's zero
    Duration longest{};
  };
  std::array<Slot, kWindow / kSlot> slots_;
};

}  // namespace lanemq::gateway
