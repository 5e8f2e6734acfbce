// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <lanemq/worker.hpp>

namespace lanemq::worker {

/// Answers each job with its own body: at once, or after a delay, for tests and demonstrations. A streaming
/// job gets it line by line, the delay before each, no faster than its reader takes them. Uses the worker's
/// timer: waiting jobs cost no thread.
class EchoHandler final : public Handler {
 public:
  explicit EchoHandler(std::chrono::milliseconds delay = {}) : delay_(delay) {}

  void start(const JobCall& job, Completion done) override;
  void cancel(wire::Lease lease) override;
  void resume(wire::Lease lease) override;
  std::optional<TimePoint> next_wakeup() const override;
  void advance(TimePoint now) override;

 private:
  struct Answer {
    wire::Lease lease;
    Blob body;
    Completion done;
    bool stream = false;
    std::size_t said = 0;     ///< bytes of the body that were sent, in whole lines
    TimePoint next_due = {};  ///< of a paused answer: when its next line was due
  };

  void wait(Answer answer, TimePoint due);
  void go_on(Answer answer, TimePoint now);

  const std::chrono::milliseconds delay_;
  std::uint64_t started_ = 0;
  /// By due time. Together with `paused_`, whose readers are behind, at most the worker's capacity.
  std::map<std::pair<TimePoint, std::uint64_t>, Answer> waiting_;
  std::vector<Answer> paused_;
};

}  // namespace lanemq::worker
