// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace lanemq::gateway {

/// The gateway's wall clock: deadlines of batches outlive the process.
using WallTime = std::chrono::sys_time<std::chrono::milliseconds>;
inline std::int64_t ms_of(WallTime time) {
  return time.time_since_epoch().count();
}
inline WallTime time_of(std::int64_t ms) {
  return WallTime(std::chrono::milliseconds(ms));
}

/// A line of a batch, from 0.
struct BatchLine {
  std::int64_t batch = 0;
  std::uint32_t line = 0;
  friend auto operator<=>(const BatchLine&, const BatchLine&) = default;
};

/// How lines are run. Every bound has a name here.
struct RunnerLimits {
  std::size_t in_flight_max = 256;  ///< lines of all batches that are at the broker
  /// Between refusals that do not say how long: doubled from the first to the longest.
  std::chrono::milliseconds refusal_wait_first{100};
  std::chrono::milliseconds refusal_wait_max{5'000};
  /// However long a refusal says: then the broker is asked again.
  std::chrono::milliseconds told_wait_max{60'000};
  /// How long a batch that was stopped waits for the answers of lines that run.
  std::chrono::milliseconds stop_patience{60'000};
};

/// Which line of which batch is to be run next, and when a batch is over.
///
/// Pure: told what happened and the time, says what is to be done. Batches take turns, line by line. A line
/// that the broker refuses is run again after a wait, and its batch with it; the lines of others go on.
class BatchRunner {
 public:
  explicit BatchRunner(RunnerLimits limits = {}) : limits_(limits) {}

  /// A batch as the store has it.
  struct Batch {
    std::int64_t number = 0;
    std::vector<bool> done{};      ///< for each line: it has an answer
    std::uint32_t started_to = 0;  ///< no line from this one on was ever at the broker
    WallTime deadline{};
    bool cancelling = false;
  };
  /// Begins with a batch, or goes on with one of an earlier life. Requires: the number is new.
  void add(Batch batch);
  /// Stops a batch: what runs is cancelled, the rest is left. Unknown numbers are ignored.
  void cancel(std::int64_t batch);

  /// The line has an answer, whatever it is. Ignored where its batch is over.
  void settled(BatchLine line);
  /// The broker took no work. Ignored as above.
  void refused(BatchLine line, std::optional<std::chrono::milliseconds> retry_after, WallTime now);

  /// What is to be done now, in this order.
  struct Actions {
    std::vector<BatchLine> submit{};
    std::vector<BatchLine> cancel{};       ///< jobs whose answers are not needed any more
    std::vector<std::int64_t> finished{};  ///< nothing of it is at the broker; forgotten here
  };
  Actions advance(WallTime now);
  /// When advance() has something to do without anything happening before; empty: never.
  std::optional<WallTime> next_wakeup() const;

  /// As Batch::started_to: to be kept before what advance() said is done. Requires: the batch is not over.
  std::uint32_t started_to(std::int64_t batch) const { return batches_.at(batch).state.started_to; }
  bool is_in_flight(BatchLine line) const;
  /// Whether the lines of a batch that have no answer are given up. Requires: the batch is not over.
  bool stopping(std::int64_t batch) const { return batches_.at(batch).stopping; }
  std::size_t in_flight() const { return in_flight_; }
  std::size_t batches() const { return batches_.size(); }

 private:
  struct Running {
    Batch state;
    std::uint32_t next = 0;  ///< lines before it are done, in flight or in `again`
    std::set<std::uint32_t> in_flight{};
    std::set<std::uint32_t> again{};  ///< refused
    int refusals = 0;                 ///< in a row
    WallTime not_before{};            ///< of the next line, after a refusal
    bool stopping = false;
    WallTime patience{};  ///< until when answers are waited for while stopping
  };

  std::optional<std::uint32_t> next_line(Running& batch) const;
  void stop(std::int64_t number, Running& batch, WallTime now, Actions& actions);
  bool over(Running& batch, WallTime now) const;
  Running* find(BatchLine line);

  RunnerLimits limits_;
  std::map<std::int64_t, Running> batches_;
  std::int64_t last_served_ = 0;
  std::size_t in_flight_ = 0;
};

}  // namespace lanemq::gateway
