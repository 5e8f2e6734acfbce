// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lanemq/blob.hpp>
#include <lanemq/error_table.hpp>
#include <lanemq/limits.hpp>
#include <lanemq/messages.hpp>

namespace lanemq {

using TimePoint = std::chrono::steady_clock::time_point;

/// One job as a handler is given it. The views live until Handler::start() returns; the body owns its bytes
/// and may be kept.
struct JobCall {
  wire::Lease lease;         ///< names this call among all that the worker holds
  std::string_view service;  ///< one of the worker's services
  std::string_view id;       ///< the client's or the broker's name of the job
  std::string_view lane, model, client, key;
  Blob body;
  TimePoint now;                      ///< when the worker read the job
  std::optional<TimePoint> deadline;  ///< nobody waits for an answer after it
  std::size_t answer_bytes_max = 0;   ///< a longer answer is refused
  bool stream = false;
  wire::Raw meta, trace;
  wire::Extras extras;  ///< the `x-` fields of the submit
};

/// Why a job failed.
struct JobFailure {
  ErrorClass error_class = ErrorClass::retry;
  std::string code{};     ///< for programs, 1..100 bytes: `upstream_503`, `timeout`
  std::string message{};  ///< for people, callers among them
  std::string detail{};   ///< for the worker's log alone: where the call went, and what the system said
  std::optional<std::chrono::milliseconds> retry_after{};
  Blob body{};  ///< what the upstream said, if anything
  std::optional<wire::Usage> usage{};
  std::optional<wire::UpstreamLimits> limits{};
  std::optional<int> upstream_status{};  ///< of HTTP, where the upstream answered with one
};

class CompletionSink;
namespace worker {
class StreamGate;
}

/// The one way to answer a job: success() or failure(), once, from any thread; before it, where the job asks
/// for a stream, any number of pieces with chunk(). On the thread of Worker::run() these calls wake nobody.
///
/// A Completion that is destroyed unused ends its job as `retry` with code `abandoned`, so that a handler
/// that forgets one loses no job. One that is used after its worker has ended does nothing.
class Completion {
 public:
  /// `gate`: of a job that asks for a stream.
  Completion(std::shared_ptr<CompletionSink> sink, wire::Lease lease,
             std::shared_ptr<worker::StreamGate> gate = nullptr);
  ~Completion();
  Completion(Completion&&) noexcept = default;
  Completion& operator=(Completion&& other) noexcept;

  /// Sends a piece of a streamed answer to the client, in the order of the calls, its bytes untouched. Only
  /// of jobs with JobCall::stream. The first piece ends all retries of the job: what is no content yet (a
  /// role, a ping) is best held back and sent in front of the first content.
  ///
  /// Returns whether more may follow at once. After false the client is limits::stream_chunks_max pieces or
  /// limits::stream_bytes_max bytes behind: the handler stops reading its upstream until Handler::resume().
  /// What is sent nevertheless is kept and goes later; far more than a window of it ends the job as
  /// `permanent` with code `stream_overrun`. After the job's end, or when nobody wants it any more, it does
  /// nothing and returns true. A piece without bytes is none.
  bool chunk(Blob piece);
  /// Hands in the answer; of a stream, what is left of it, mostly nothing. Requires: neither call was made
  /// before.
  void success(Blob body, std::optional<wire::Usage> usage = std::nullopt,
               std::optional<wire::UpstreamLimits> limits = std::nullopt);
  /// Says why there is none. Requires: neither call was made before.
  void failure(JobFailure failure);

 private:
  std::shared_ptr<CompletionSink> sink_;  ///< null once used
  std::shared_ptr<worker::StreamGate> gate_;
  wire::Lease lease_;
};

/// What does the work of a service. The worker calls all of it on the thread of Worker::run(), which is the
/// worker's loop, and never from two threads at once; no call may block.
///
/// A handler that waits for something has threads of its own, or it lives in the loop: it names the time at
/// which it wants to be called (next_wakeup(), advance()), or a descriptor that becomes readable when there
/// is something to do (descriptor(), on_readable()). The descriptor may be that of an epoll set, and so stand
/// for any number of others: most event loops and libcurl's multi interface fit in so. What is answered on
/// the loop's thread costs no wake-up and no system call, and what one turn answers travels together.
///
/// Heartbeats and other handlers wait for the call that is under way, so each does a bounded part of what
/// there is, some milliseconds of work at the most, and is called again for the rest.
class Handler {
 public:
  virtual ~Handler() = default;

  /// Takes a job. `done` may be used before start() returns (cheapest) or later from any thread.
  virtual void start(const JobCall& job, Completion done) = 0;
  /// Nobody needs the answer any more: end the job soon. Its Completion is still due, with any outcome, and
  /// what was used is then settled; a failure is best `retry`, which harms nothing should the job be needed
  /// after all. Ignoring this is allowed. A lease that the handler does not know is no error.
  virtual void cancel(wire::Lease lease) { static_cast<void>(lease); }
  /// The reader of a job whose Completion::chunk() returned false has caught up: more may follow. Where
  /// another thread is inside chunk(), it may come before that one has seen the false. A lease that the
  /// handler does not know is no error.
  virtual void resume(wire::Lease lease) { static_cast<void>(lease); }
  /// A descriptor that the loop watches for as long as the worker runs; negative: none. Asked once, and owned
  /// by the handler. Handlers that share what is behind it name the same one.
  virtual int descriptor() const { return -1; }
  /// The descriptor is readable. Called again and again until it no longer is, 150 µs apart, so that what
  /// comes close together is answered together; of handlers that share the descriptor, the first one is
  /// called.
  virtual void on_readable(TimePoint now) { static_cast<void>(now); }
  /// When advance() wants to be called next; absent: whenever.
  virtual std::optional<TimePoint> next_wakeup() const { return std::nullopt; }
  /// Does what is due by now. Called once a turn, in turns that something else has caused too.
  virtual void advance(TimePoint now) { static_cast<void>(now); }
};

/// A service and what serves it. Services may share a handler.
struct Service {
  std::string name;  ///< 1..limits::name_bytes_max bytes of UTF-8
  std::shared_ptr<Handler> handler;
};

enum class LogLevel : unsigned char { debug, info, warning, error };

/// Where the worker's log lines go: an event with fields, without time and level.
struct Log {
  bool json = false;                ///< lines are objects of JSON, not text
  LogLevel level = LogLevel::info;  ///< lines below it are not made
  std::function<void(LogLevel, std::string_view)> write;
  bool wants(LogLevel line) const { return write && line >= level; }
};

struct WorkerOptions {
  std::string broker = "tcp://127.0.0.1:5571";  ///< the broker's workers endpoint
  std::string name;                             ///< for people; empty: HOST-PID
  std::size_t capacity = 16;                    ///< jobs held at once, 1..limits::capacity_max
  std::vector<std::string> lanes;               ///< take jobs of these lanes only; empty: of all
  std::size_t body_bytes_max = limits::body_bytes_max;
  std::chrono::milliseconds drain_timeout{10'000};  ///< running jobs get this long after stop()
  std::chrono::milliseconds connect_timeout{0};     ///< give up when no broker has welcomed by then; 0: never
  Log log;
  std::function<void(const std::string& name)> on_ready;  ///< the first welcome; on the thread of run()
};

enum class WorkerEnd : unsigned char {
  drained,      ///< stopped, and nothing was left undone
  interrupted,  ///< stopped while jobs were running: the broker gives them to others
  unreachable,  ///< connect_timeout is over
};

/// A worker: announces its services to a broker, runs the jobs it is sent in its handlers, and hands in what
/// comes of them until the broker says that it is safe. Survives restarts of the broker and of the network.
class Worker {
 public:
  /// Throws std::invalid_argument naming the option when one cannot be used.
  Worker(WorkerOptions options, std::vector<Service> services);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Works until stop(). To be called once. Throws std::invalid_argument when the broker's endpoint is none,
  /// std::runtime_error when the system refuses a socket.
  WorkerEnd run();

  /// First call: take no more jobs, finish the running ones within drain_timeout, leave. Second call: leave
  /// now. Safe from any thread and from a signal handler.
  void stop() noexcept;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace lanemq
