// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace lanemq::io {

/// Judges by the calls of the last second or two whether a plugin is too slow for the loop: more than one
/// call in a hundred takes over kSlow, or a single one over kFarTooSlow. Not thread-safe.
class SpeedWatch {
 public:
  using Duration = std::chrono::steady_clock::duration;
  using Time = std::chrono::steady_clock::time_point;

  static constexpr Duration kSlow = std::chrono::milliseconds(1);
  static constexpr Duration kFarTooSlow = std::chrono::milliseconds(250);
  /// Fewer slow calls say nothing: a busy system takes the processor away for some milliseconds, too.
  static constexpr std::uint64_t kSlowMin = 5;
  static constexpr std::uint64_t kCallsASlowOne = 100;
  static constexpr Duration kWindow = std::chrono::seconds(1);

  /// A call has ended at `now`. Returns whether the plugin is too slow.
  bool note(Duration took, Time now) {
    if (now - began_ >= kWindow) {
      before_ = now - began_ < 2 * kWindow ? current_ : Window{};
      current_ = {};
      began_ = now;
    }
    ++current_.calls;
    if (took <= kSlow) return false;
    ++current_.slow;
    const std::uint64_t slow = current_.slow + before_.slow, calls = current_.calls + before_.calls;
    return took > kFarTooSlow || (slow >= kSlowMin && slow * kCallsASlowOne > calls);
  }

 private:
  struct Window {
    std::uint64_t calls = 0, slow = 0;
  };

  Time began_{};
  Window current_, before_;
};

}  // namespace lanemq::io
