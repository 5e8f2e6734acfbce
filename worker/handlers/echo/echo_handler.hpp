// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <utility>

#include <lanemq/worker.hpp>

namespace lanemq::worker {

/// Answers each job with its own body: at once, or after a delay (for tests and demonstrations). Waits by the
/// worker's timer, so any number of waiting jobs costs no thread.
class EchoHandler final : public Handler {
 public:
  explicit EchoHandler(std::chrono::milliseconds delay = {}) : delay_(delay) {}

  void start(const JobCall& job, Completion done) override;
  void cancel(wire::Lease lease) override;
  std::optional<TimePoint> next_wakeup() const override;
  void advance(TimePoint now) override;

 private:
  struct Waiting {
    wire::Lease lease;
    Blob body;
    Completion done;
  };

  const std::chrono::milliseconds delay_;
  std::uint64_t started_ = 0;
  /// By when they are due; one delay for all, so the oldest comes first. At most the worker's capacity.
  std::map<std::pair<TimePoint, std::uint64_t>, Waiting> waiting_;
};

}  // namespace lanemq::worker
