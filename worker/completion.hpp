// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <lanemq/worker.hpp>

namespace lanemq {

namespace worker {

/// What came of a job: an answer, or the failure in `report`. Most answers carry nothing but bytes, so all
/// the rest stands aside.
struct JobOutcome {
  struct Report {
    std::optional<ErrorClass> error_class;  ///< absent: success
    std::string code, message;
    std::optional<std::chrono::milliseconds> retry_after;
    std::optional<wire::Usage> usage;
    std::optional<wire::UpstreamLimits> limits;
  };

  Blob body;
  std::unique_ptr<Report> report;  ///< null: success, with no more to say

  bool succeeded() const { return !report || !report->error_class; }
  static JobOutcome success(Blob body, std::optional<wire::Usage> usage,
                            std::optional<wire::UpstreamLimits> limits);
  static JobOutcome failure(JobFailure failure);
};

struct FinishedJob {
  wire::Lease lease;
  JobOutcome outcome;
};

}  // namespace worker

/// Where handlers put what they finished, and what wakes the worker to fetch it.
///
/// finish() is for any thread; on the worker's own thread it is a plain append. take() and wake_descriptor()
/// are for the worker's thread. Holds at most one entry a running job.
class CompletionSink {
 public:
  /// Throws std::runtime_error when the system has no descriptor left.
  CompletionSink();
  ~CompletionSink();
  CompletionSink(const CompletionSink&) = delete;
  CompletionSink& operator=(const CompletionSink&) = delete;

  /// Makes the calling thread the worker's.
  void adopt_thread() { owner_ = std::this_thread::get_id(); }
  void finish(wire::Lease lease, worker::JobOutcome outcome);
  /// Exchanges `into`, which must be empty, for all that was finished, in the order of finishing per thread.
  void take(std::vector<worker::FinishedJob>& into);
  bool has_local() const { return !local_.empty(); }

  /// Becomes readable when another thread finished a job or called wake().
  int wake_descriptor() const { return descriptor_; }
  /// Makes the descriptor readable. Async-signal-safe.
  void wake() noexcept;
  /// Makes it unreadable until the next wake(). To be followed by take().
  void clear_wake();

 private:
  int descriptor_;
  std::thread::id owner_;
  std::vector<worker::FinishedJob> local_;  ///< the worker's thread's
  std::mutex mutex_;
  std::vector<worker::FinishedJob> remote_;  ///< guarded by mutex_
};

}  // namespace lanemq
