// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>

namespace lanemq::upstream {

/// The most calls, and the most tokens, that fell into any 60 s, [t, t + 60 s), wherever they begin.
///
/// It is the witness against the limiter and therefore shares nothing with it: it is told of accepted calls
/// and counts.
class PeakMeter {
 public:
  /// Notes an accepted call. `at` counts from any fixed moment and must not go backward.
  void add(std::chrono::nanoseconds at, std::uint64_t tokens);

  std::uint64_t calls() const { return calls_peak_; }
  std::uint64_t tokens() const { return tokens_peak_; }

  /// Arrivals remembered, 64 MB of them. A minute with more calls than this reads as a peak of this many.
  static constexpr std::size_t kArrivalsMax = 4'000'000;

 private:
  struct Arrival {
    std::chrono::nanoseconds at;
    std::uint64_t tokens;
  };

  std::deque<Arrival> last_minute_;
  std::uint64_t tokens_last_minute_ = 0;
  std::uint64_t calls_peak_ = 0;
  std::uint64_t tokens_peak_ = 0;
};

}  // namespace lanemq::upstream
