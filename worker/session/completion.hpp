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

/// The outcome of a job: an answer, or the failure in `report`. Most answers are bytes alone, so all else is
/// in `report`.
struct JobOutcome {
  struct Report {
    std::optional<ErrorClass> error_class;  ///< none: success
    std::string code, message, detail;
    std::optional<std::chrono::milliseconds> retry_after;
    std::optional<wire::Usage> usage;
    std::optional<wire::UpstreamLimits> limits;
    std::optional<int> upstream_status;
    std::optional<LimitedBy> limited_by;
  };

  Blob body;
  std::unique_ptr<Report> report;  ///< null: success without further fields

  bool succeeded() const { return !report || !report->error_class; }
  static JobOutcome success(Blob body, std::optional<wire::Usage> usage,
                            std::optional<wire::UpstreamLimits> limits);
  static JobOutcome failure(JobFailure failure);
};

struct FinishedJob {
  wire::Lease lease;
  JobOutcome outcome;
};

/// What Completion::progress() handed in.
struct ProgressWord {
  wire::Lease lease;
  JobProgress said;
};

/// A piece that Completion::chunk() handed in.
struct StreamPiece {
  wire::Lease lease;
  Blob body;             ///< owns its bytes
  bool overrun = false;  ///< no further pieces: the handler did not stop when it was told to wait
};

/// Pieces that a handler may still hand in after it was told to wait, since it has read them already. A
/// handler with more does not listen.
inline constexpr std::size_t kSurplusChunksMax = 16 * limits::stream_chunks_max;
inline constexpr std::size_t kSurplusBytesMax = 16 * limits::stream_bytes_max;

/// How far the handler of a streamed job is ahead of the job's reader. Shared by the handler's Completion and
/// the worker's session. Thread-safe.
class StreamGate {
 public:
  enum class Verdict : unsigned char {
    more,     ///< accepted; more may follow
    wait,     ///< accepted; no more until taken() returns true
    overrun,  ///< refused: over kSurplusChunksMax or kSurplusBytesMax; returned once, then `closed`
    closed,   ///< refused: nobody wants the piece
  };

  /// A piece of so many bytes is handed in.
  Verdict enter(std::size_t bytes);
  /// The verdict of the last enter().
  Verdict verdict() const;
  /// The reader has taken so much. True: a waiting handler may go on, since half of the window is free; so it
  /// does not stop and go for each piece.
  bool taken(std::size_t chunks, std::size_t bytes);
  void close();

 private:
  mutable std::mutex mutex_;
  std::size_t chunks_ = 0, bytes_ = 0;  ///< handed in and not taken yet
  std::size_t surplus_chunks_ = 0, surplus_bytes_ = 0;
  bool waiting_ = false, closed_ = false;
};

}  // namespace worker

/// Where handlers hand in words, pieces and outcomes, and what wakes the worker to fetch them. Holds at most
/// one outcome and one word per running job, and the pieces that its gate accepts.
///
/// finish(), progress() and chunk(): from any thread; on the worker's own they only append. take() and
/// wake_descriptor(): on the worker's thread.
class CompletionSink {
 public:
  /// Throws std::runtime_error when the system has no descriptor left.
  CompletionSink();
  ~CompletionSink();
  CompletionSink(const CompletionSink&) = delete;
  CompletionSink& operator=(const CompletionSink&) = delete;

  /// The calling thread becomes the worker's.
  void adopt_thread() { owner_ = std::this_thread::get_id(); }
  void finish(wire::Lease lease, worker::JobOutcome outcome);
  void chunk(worker::StreamPiece piece);
  /// Replaces the job's word that was not taken.
  void progress(worker::ProgressWord word);
  struct HandedIn {
    std::vector<worker::FinishedJob> finished;
    std::vector<worker::StreamPiece> pieces;
    std::vector<worker::ProgressWord> words;
    bool empty() const { return finished.empty() && pieces.empty() && words.empty(); }
  };
  /// Swaps all that was handed in into `all`, each kind in order per thread. Requires: it is empty. Handle
  /// the outcomes last: nothing came after its job's outcome.
  void take(HandedIn& all);
  bool has_local() const { return !local_.empty(); }

  /// Readable after another thread has handed something in or called wake().
  int wake_descriptor() const { return descriptor_; }
  /// Makes the descriptor readable. Async-signal-safe.
  void wake() noexcept;
  /// Makes the descriptor unreadable until the next wake(). Call take() next.
  void clear_wake();

 private:
  template <class Add>
  void hand_in(Add add);

  int descriptor_;
  std::thread::id owner_;
  HandedIn local_;  ///< of the worker's thread
  std::mutex mutex_;
  HandedIn remote_;  ///< under mutex_
};

}  // namespace lanemq
