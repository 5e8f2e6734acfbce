// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
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

/// A line of a batch; lines count from 0.
struct BatchLine {
  std::int64_t batch = 0;
  std::uint32_t line = 0;
  friend auto operator<=>(const BatchLine&, const BatchLine&) = default;
};

/// Bounds of running lines.
struct RunnerLimits {
  std::size_t in_flight_max = 256;  ///< lines of all batches that are at the broker; at least 1
  /// The wait after refusals that state none: doubles from the first to the longest.
  std::chrono::milliseconds refusal_wait_first{100};
  std::chrono::milliseconds refusal_wait_max{5'000};
  /// A longer stated wait is cut to this.
  std::chrono::milliseconds told_wait_max{60'000};
  /// How long a stopped batch waits for answers of running lines.
  std::chrono::milliseconds stop_patience{60'000};
};

/// Decides which line of which batch runs next, and when a batch is over.
///
/// Pure: it is told events and the time, and returns what is to be done. Callers take turns, line by line,
/// and so do the batches of each. A line that the broker refuses runs again after a wait, in which its batch
/// pauses; other batches go on.
///
/// Lines at the broker may wait there for hours. So a batch takes no more places than four times what it
/// leaves free, and a caller sixteen times (may_take_one_of).
class BatchRunner {
 public:
  explicit BatchRunner(RunnerLimits limits = {}) : limits_(limits) {}

  /// A batch from the store.
  struct Batch {
    std::int64_t number = 0;
    std::string caller{};          ///< in whose turns and share it is
    std::vector<bool> done{};      ///< by line: it has an answer
    std::uint32_t started_to = 0;  ///< lines from this one on were never at the broker
    WallTime deadline{};
    bool cancelling = false;
  };
  /// Adds a batch, new or of an earlier life. Requires: its number is unknown.
  void add(Batch batch);
  /// Stops a batch: cancels running lines, starts no others. Ignores unknown numbers.
  void cancel(std::int64_t batch);

  /// The line has an answer of any kind. Ignored where its batch is over.
  void settled(BatchLine line);
  /// The broker refused the line. Ignored where its batch is over.
  void refused(BatchLine line, std::optional<std::chrono::milliseconds> retry_after, WallTime now);

  /// What is to be done now, in this order.
  struct Actions {
    std::vector<BatchLine> submit{};
    std::vector<BatchLine> cancel{};  ///< jobs whose answers are not needed
    /// Lines of a stopped batch that an earlier life left at the broker: what has ended there is kept, the
    /// rest is not needed. Each is settled afterwards.
    std::vector<BatchLine> collect{};
    std::vector<std::int64_t>
        finished{};  ///< batches without lines at the broker, which the runner has forgotten
  };
  Actions advance(WallTime now);
  /// When advance() has work if nothing happens before; empty: never.
  std::optional<WallTime> next_wakeup() const;

  /// As Batch::started_to; to be stored before the actions of advance() are done. Requires: the batch is not
  /// over.
  std::uint32_t started_to(std::int64_t batch) const { return batches_.at(batch).state.started_to; }
  bool is_in_flight(BatchLine line) const;
  /// Whether the batch gives up lines without an answer. Requires: the batch is not over.
  bool stopping(std::int64_t batch) const { return batches_.at(batch).stopping; }
  std::size_t in_flight() const { return in_flight_; }
  std::size_t batches() const { return batches_.size(); }

 private:
  struct Running {
    Batch state;
    std::uint32_t next = 0;  ///< lines before it are done, at the broker, or in `again`
    std::set<std::uint32_t> in_flight{};
    std::set<std::uint32_t> again{};  ///< refused
    int refusals = 0;                 ///< in a row
    WallTime not_before{};            ///< after a refusal: when the next line may go
    bool stopping = false;
    WallTime patience{};  ///< while stopping: until when it waits for answers
  };

  /// Those of a caller.
  struct Caller {
    std::set<std::int64_t> batches{};
    std::int64_t last_served = 0;
    std::size_t in_flight = 0;
  };
  /// How many times what stays free a batch or a caller may hold.
  static constexpr std::size_t kOfBatch = 4, kOfCaller = 16;

  std::optional<BatchLine> take_line(Caller& caller, WallTime now);
  void free_place(const Running& batch, std::size_t lines = 1);
  std::optional<std::uint32_t> next_line(Running& batch) const;
  void stop(std::int64_t number, Running& batch, WallTime now, Actions& actions);
  bool over(Running& batch, WallTime now) const;
  Running* find(BatchLine line);

  RunnerLimits limits_;
  std::map<std::int64_t, Running> batches_;
  std::map<std::string, Caller> callers_;  // with a batch
  std::string last_served_;
  std::size_t in_flight_ = 0;
};

}  // namespace lanemq::gateway
