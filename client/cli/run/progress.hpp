// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>

namespace lanemq::cli {

/// How far a run is.
struct RunCounts {
  std::size_t total = 0;   ///< lines of the input
  std::size_t before = 0;  ///< answered by an earlier run
  std::size_t done = 0;    ///< answered well by this run
  std::size_t failed = 0;  ///< failed in this run
  std::size_t in_flight = 0;
  std::size_t settled() const { return before + done + failed; }
  std::size_t now() const { return done + failed; }
};

/// The speed of a run, and the time left, as text. Is told the time. Not thread-safe.
class Progress {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit Progress(TimePoint start) : start_(start), samples_{{start, 0}} {}

  /// Notes how far the run is at `now`.
  void sample(const RunCounts& counts, TimePoint now);

  /// Answers per second, over the last seconds.
  double rate() const;
  /// The time left at that rate; empty: unknown.
  std::optional<std::chrono::milliseconds> remaining(const RunCounts& counts) const;

  /// A line with a bar, at most `columns` wide.
  std::string bar(const RunCounts& counts, std::size_t columns) const;
  /// The same as words, for output that is no terminal.
  std::string words(const RunCounts& counts) const;
  /// The final counts.
  std::string summary(const RunCounts& counts, TimePoint now) const;

 private:
  struct Sample {
    TimePoint at;
    std::size_t answered;
  };
  static constexpr std::chrono::seconds kWindow{10};
  static constexpr std::chrono::milliseconds kSampleEvery{200};  // bounds the number of samples

  std::string figures(const RunCounts& counts) const;

  TimePoint start_;
  std::deque<Sample> samples_;
};

}  // namespace lanemq::cli
