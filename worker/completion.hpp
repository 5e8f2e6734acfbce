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
    std::string code, message, detail;
    std::optional<std::chrono::milliseconds> retry_after;
    std::optional<wire::Usage> usage;
    std::optional<wire::UpstreamLimits> limits;
    std::optional<int> upstream_status;
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

/// What Completion::chunk() handed in.
struct StreamPiece {
  wire::Lease lease;
  Blob body;             ///< owns its bytes
  bool overrun = false;  ///< nothing more comes: the handler does not stop when it is told to
};

/// What a handler may still hand in after it was told to wait: it has read its upstream already. More than
/// that and it does not listen.
inline constexpr std::size_t kSurplusChunksMax = 16 * limits::stream_chunks_max;
inline constexpr std::size_t kSurplusBytesMax = 16 * limits::stream_bytes_max;

/// How far the handler of a streamed job is ahead of the job's reader. Shared by the handler's Completion and
/// the worker's session; all is for any thread.
class StreamGate {
 public:
  enum class Verdict : unsigned char {
    more,     ///< taken, and more may follow
    wait,     ///< taken; nothing more until taken() says so
    overrun,  ///< refused: over kSurplusChunksMax or kSurplusBytesMax; said once, closed then
    closed,   ///< refused, as nobody wants it
  };

  /// The handler hands in a piece of so many bytes.
  Verdict enter(std::size_t bytes);
  /// The verdict of the last enter(), where there is nothing to hand in.
  Verdict verdict() const;
  /// So much was taken by the reader. Returns whether a handler that waits may go on: half of the window is
  /// free again, so that it does not stop and go for each piece.
  bool taken(std::size_t chunks, std::size_t bytes);
  void close();

 private:
  mutable std::mutex mutex_;
  std::size_t chunks_ = 0, bytes_ = 0;  ///< handed in and not taken
  std::size_t surplus_chunks_ = 0, surplus_bytes_ = 0;
  bool waiting_ = false, closed_ = false;
};

}  // namespace worker

/// Where handlers put what they finished, and what wakes the worker to fetch it.
///
/// finish() and chunk() are for any thread; on the worker's own thread they are a plain append. take() and
/// wake_descriptor() are for the worker's thread. Holds at most one outcome a running job, and the pieces
/// that its gate lets in.
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
  void chunk(worker::StreamPiece piece);
  /// Exchanges `finished` and `pieces`, which must be empty, for all that was handed in, each in its order
  /// per thread. The pieces are to be dealt with first: none of them came after the outcome of its job.
  void take(std::vector<worker::FinishedJob>& finished, std::vector<worker::StreamPiece>& pieces);
  bool has_local() const { return !local_.finished.empty() || !local_.pieces.empty(); }

  /// Becomes readable when another thread handed something in or called wake().
  int wake_descriptor() const { return descriptor_; }
  /// Makes the descriptor readable. Async-signal-safe.
  void wake() noexcept;
  /// Makes it unreadable until the next wake(). To be followed by take().
  void clear_wake();

 private:
  struct HandedIn {
    std::vector<worker::FinishedJob> finished;
    std::vector<worker::StreamPiece> pieces;
  };
  template <class Item>
  void hand_in(std::vector<Item> HandedIn::*list, Item item);

  int descriptor_;
  std::thread::id owner_;
  HandedIn local_;  ///< the worker's thread's
  std::mutex mutex_;
  HandedIn remote_;  ///< guarded by mutex_
};

}  // namespace lanemq
