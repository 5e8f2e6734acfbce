// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>

#include "broker/core/base/time.hpp"
#include "broker/core/base/writes.hpp"
#include "broker/io/store/restore.hpp"

namespace lanemq::io {

/// Keeps the store's note of the clocks fresh, by which the next life knows how long this machine was off: a
/// clock that was wrong at the start and is set right later is right in the note, too. Not thread-safe;
/// belongs to the loop.
class ClockKeeper {
 public:
  using Read = std::function<ClockReading()>;

  /// How often the clocks are looked at.
  static constexpr std::chrono::seconds kLookEvery{1};
  /// The note is so old at most, and a little less where something else is written.
  static constexpr std::chrono::seconds kNoteEvery{60}, kNoteBeside{50};
  /// A wall clock that runs off the clock since boot by more than this was set.
  static constexpr std::chrono::seconds kSetBy{1};

  /// `start`: what restore() has noted. `read`: this machine's clocks.
  explicit ClockKeeper(const StartClocks& start, Read read = {});

  /// To be called in every turn, and kLookEvery at the latest. Adds the note to the turn's writes where it is
  /// due, or where the wall clock was set, which the log then says.
  void look(core::TimePoint now, core::Writes& writes);
  /// Adds the note in any case: for the end.
  void note(core::Writes& writes) { note(read_(), writes); }

 private:
  void note(const ClockReading& reading, core::Writes& writes);

  const Read read_;
  ClockNote noted_;
  ClockReading seen_;  ///< when it was noted last
  bool behind_;        ///< the wall clock stands before the note
  core::TimePoint look_at_{}, noted_at_{};
};

}  // namespace lanemq::io
