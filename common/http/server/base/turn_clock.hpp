// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

namespace lanemq::http {

/// Measures how long single pieces of work held the loop, while all else waited. Belongs to the loop's
/// thread.
class TurnClock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;
  /// Longer ago is forgotten, up to a slot late.
  static constexpr std::chrono::seconds kWindow{60}, kSlot{5};

  void note(TimePoint began, TimePoint ended);
  /// The longest time within the window before `now`.
  Duration longest(TimePoint now) const;

  /// Measures the time until it is destroyed.
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
    std::int64_t number = -1;  ///< in slots since the clock's zero
    Duration longest{};
  };
  std::array<Slot, kWindow / kSlot> slots_;
};

}  // namespace lanemq::http
