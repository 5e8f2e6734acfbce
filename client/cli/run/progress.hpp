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
  std::size_t before = 0;  ///< answered by a former run
  std::size_t done = 0;    ///< answered well by this one
  std::size_t failed = 0;  ///< by this one
  std::size_t in_flight = 0;
  std::size_t settled() const { return before + done + failed; }
  std::size_t now() const { return done + failed; }
};

/// The speed of a run and what follows from it, as text. Told time; not thread-safe.
class Progress {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit Progress(TimePoint start) : start_(start), samples_{{start, 0}} {}

  /// Notes how far the run is.
  void sample(const RunCounts& counts, TimePoint now);

  /// Answers a second, over the last seconds.
  double rate() const;
  /// Until the end at that rate; empty: it cannot be told.
  std::optional<std::chrono::milliseconds> remaining(const RunCounts& counts) const;

  /// A line with a bar, as wide as `columns` allow.
  std::string bar(const RunCounts& counts, std::size_t columns) const;
  /// The same in words, for where there is no terminal.
  std::string words(const RunCounts& counts) const;
  /// What came of it all.
  std::string summary(const RunCounts& counts, TimePoint now) const;

 private:
  struct Sample {
    TimePoint at;
    std::size_t answered;
  };
  static constexpr std::chrono::seconds kWindow{10};
  static constexpr std::chrono::milliseconds kSampleEvery{200};  // which bounds the samples kept

  std::string figures(const RunCounts& counts) const;

  TimePoint start_;
  std::deque<Sample> samples_;
};

}  // namespace lanemq::cli
