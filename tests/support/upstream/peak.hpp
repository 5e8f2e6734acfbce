// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

namespace lanemq::upstream {

/// The most calls, and the most tokens, that fell into any period: into any span of that length, [t, t +
/// period), wherever it begins; or, of windows that follow one another, into any one of them.
///
/// It is the witness against the limiter and therefore shares nothing with it: it is told of accepted calls
/// and counts.
class PeakMeter {
 public:
  enum class Spans {
    any,    ///< Wherever they begin.
    fixed,  ///< One begins with the first call behind the end of the one before.
    clock,  ///< They begin at whole multiples of the period since 1970.
  };

  /// `zero_unix`: the moment from which add() counts, since 1970; for the clock alone.
  explicit PeakMeter(std::chrono::nanoseconds period = std::chrono::seconds(60), Spans spans = Spans::any,
                     std::chrono::nanoseconds zero_unix = {})
      : period_(period), spans_(spans), zero_unix_(zero_unix) {}

  /// Notes an accepted call. `at` counts from any fixed moment and must not go backward.
  void add(std::chrono::nanoseconds at, std::uint64_t tokens);

  std::uint64_t calls() const { return calls_peak_; }
  std::uint64_t tokens() const { return tokens_peak_; }

  /// Arrivals remembered, 64 MB of them. A period with more calls than this reads as a peak of this many.
  static constexpr std::size_t kArrivalsMax = 4'000'000;

 private:
  struct Arrival {
    std::chrono::nanoseconds at;
    std::uint64_t tokens;
  };

  bool is_past(const Arrival& arrival, std::chrono::nanoseconds at) const;

  std::chrono::nanoseconds period_;
  Spans spans_;
  std::chrono::nanoseconds zero_unix_;
  std::deque<Arrival> last_;  // Of the period that ends with the last call, or of its window.
  std::chrono::nanoseconds began_{};
  std::uint64_t tokens_last_ = 0;
  std::uint64_t calls_peak_ = 0;
  std::uint64_t tokens_peak_ = 0;
};

/// What a peak is called: "peak_calls_60s", "peak_tokens_0.5s".
std::string peak_name(const std::string& of, std::chrono::nanoseconds period);

}  // namespace lanemq::upstream
