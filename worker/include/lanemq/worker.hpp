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
#include <lanemq/curve_keys.hpp>
#include <lanemq/error_table.hpp>
#include <lanemq/limits.hpp>
#include <lanemq/messages.hpp>

namespace lanemq {

using TimePoint = std::chrono::steady_clock::time_point;

/// One job, as a handler gets it. The views are valid until Handler::start() returns; the body owns its bytes
/// and may be kept.
struct JobCall {
  wire::Lease lease;         ///< identifies the call among all that the worker holds
  std::string_view service;  ///< one of the worker's services
  std::string_view id;       ///< the job's id, from the client or the broker
  std::string_view lane;     ///< also where it is the broker's default lane
  std::string_view model, client, key;
  Blob body;
  TimePoint now;                      ///< the time when the worker read the job
  std::optional<TimePoint> deadline;  ///< no client waits for an answer after it
  std::size_t answer_bytes_max = 0;   ///< a longer answer is refused
  bool stream = false;
  wire::Raw meta, trace;
  wire::Extras extras;  ///< the `x-` fields of the submit
  /// W3C Trace Context for what the handler itself calls, ready for headers of those names; empty: there is
  /// no trace. The parent is this call's own span where WorkerOptions::calls makes one, else the job's.
  std::string_view traceparent{}, tracestate{};
};

/// Why a job failed.
struct JobFailure {
  ErrorClass error_class = ErrorClass::retry;
  std::string code{};     ///< for programs, 1..100 bytes: `upstream_503`, `timeout`
  std::string message{};  ///< for people, callers among them
  std::string detail{};   ///< for the worker's log alone: where the call went, and what the system said
  /// When the upstream says that it may be asked again. Facts on its limits, such as when one is
  /// replenished, go into `limits`.
  std::optional<std::chrono::milliseconds> retry_after{};
  Blob body{};  ///< what the upstream said, if anything
  std::optional<wire::Usage> usage{};
  std::optional<wire::UpstreamLimits> limits{};
  std::optional<int> upstream_status{};   ///< the HTTP status, where the upstream answered
  std::optional<LimitedBy> limited_by{};  ///< of class `limited`, where the upstream says which limit refused
};

/// How far a job is, for Completion::progress().
struct JobProgress {
  std::optional<int> pct{};  ///< 0..100; others are taken for the nearest
  std::string note{};        ///< for people; limits::progress_note_bytes_max bytes of it count
};

class CompletionSink;
namespace worker {
class StreamGate;
}

/// Answers a job: success() or failure(), once; before it any number of progress() and, if the job asks for a
/// stream, of chunk(). From any thread, one call at a time. On the thread of Worker::run() a call costs no
/// wake-up.
///
/// A Completion that is destroyed unused ends its job as `retry` with code `abandoned`, so that a handler
/// that forgets one loses no job. After its worker has ended it does nothing.
class Completion {
 public:
  /// `gate`: of a job that asks for a stream; null for any other.
  Completion(std::shared_ptr<CompletionSink> sink, wire::Lease lease,
             std::shared_ptr<worker::StreamGate> gate = nullptr);
  ~Completion();
  Completion(Completion&&) noexcept = default;
  Completion& operator=(Completion&& other) noexcept;

  /// Sends a piece of a streamed answer to the client, unchanged and in the order of the calls. Only for jobs
  /// with JobCall::stream. After the first piece the job is never retried: hold back what is no content yet
  /// (a role, a ping), and send it in front of the first content.
  ///
  /// Returns whether more may follow at once. After false the client is limits::stream_chunks_max pieces or
  /// limits::stream_bytes_max bytes behind: the handler should read no more from its upstream until
  /// Handler::resume(). Pieces sent nevertheless are kept and go later; far more than a window of them ends
  /// the job as `permanent` with code `stream_overrun`. After the job's end, or when nobody wants it any
  /// more, the call does nothing and returns true. An empty piece is ignored.
  bool chunk(Blob piece);
  /// Says how far the job is, for who asks the broker. Each word replaces the one before, and as often as
  /// wanted: of many the worker sends a few a second, the last among them. From the first one on the broker
  /// ends the attempt where neither a word nor a piece comes for its lane's stall_timeout. After the job's
  /// end the call does nothing.
  void progress(JobProgress said);
  /// Ends the job with its answer; of a stream, with the rest of it, mostly nothing. Requires: neither
  /// success() nor failure() was called before.
  void success(Blob body, std::optional<wire::Usage> usage = std::nullopt,
               std::optional<wire::UpstreamLimits> limits = std::nullopt);
  /// Ends the job without an answer. Requires: neither success() nor failure() was called before.
  void failure(JobFailure failure);

 private:
  std::shared_ptr<CompletionSink> sink_;  ///< null once used
  std::shared_ptr<worker::StreamGate> gate_;
  wire::Lease lease_;
};

/// Does the work of a service. The worker calls everything on the thread of Worker::run(), its loop, and
/// never from two threads at once. No call may block.
///
/// A handler that waits has threads of its own, or lives in the loop: it names the time of its next call
/// (next_wakeup(), advance()), or a descriptor that becomes readable when there is work (descriptor(),
/// on_readable()). That may be an epoll descriptor, which stands for any number of others: most event loops
/// and libcurl's multi interface fit in so. Answers given on the loop's thread cost no wake-up and no system
/// call, and those of one turn travel together.
///
/// Heartbeats and other handlers wait for the present call, so each call does some milliseconds of work at
/// most, and is called again for the rest.
class Handler {
 public:
  virtual ~Handler() = default;

  /// Takes a job. `done` may be used before start() returns (cheapest) or later from any thread.
  virtual void start(const JobCall& job, Completion done) = 0;
  /// The answer is not needed any more: end the job soon. Its Completion must still be used, with any
  /// outcome, which settles the usage; a failure is best `retry`, which does no harm should the job be needed
  /// after all. The handler may ignore this. An unknown lease is no error.
  virtual void cancel(wire::Lease lease) { static_cast<void>(lease); }
  /// The reader of a job whose chunk() returned false has caught up: send on. While another thread is inside
  /// chunk() this call may come before that thread has seen the false. An unknown lease is no error.
  virtual void resume(wire::Lease lease) { static_cast<void>(lease); }
  /// A descriptor that the loop watches while the worker runs; negative: none. Called once; the handler owns
  /// it. Handlers that share one event source return the same descriptor.
  virtual int descriptor() const { return -1; }
  /// The descriptor is readable. Called until it no longer is, every 150 µs, so that what comes close
  /// together is answered together. Of handlers with the same descriptor the first one is called.
  virtual void on_readable(TimePoint now) { static_cast<void>(now); }
  /// The time at which the handler wants advance() to be called; none: it needs no call.
  virtual std::optional<TimePoint> next_wakeup() const { return std::nullopt; }
  /// Does what is due by now. Called once a turn, also in turns with another cause.
  virtual void advance(TimePoint now) { static_cast<void>(now); }
};

/// A service and its handler. Services may share a handler.
struct Service {
  std::string name;  ///< 1..limits::name_bytes_max bytes of UTF-8
  std::shared_ptr<Handler> handler;
};

enum class LogLevel : unsigned char { debug, info, warning, error };

/// Receives the worker's log lines: an event with fields, without time and level.
struct Log {
  bool json = false;                ///< lines are JSON objects, not text
  LogLevel level = LogLevel::info;  ///< lower lines are not made
  std::function<void(LogLevel, std::string_view)> write;
  bool wants(LogLevel line) const { return write && line >= level; }
};

/// How a worker is at one shard.
struct ShardBeat {
  std::string name;
  bool connected = false;          ///< the shard's broker has welcomed it by this connection
  std::size_t capacity = 0;        ///< places that the shard has of the worker's
  std::size_t running = 0;         ///< jobs of the shard in its handlers
  std::size_t unacknowledged = 0;  ///< outcomes that the shard's broker has not confirmed
};

/// How a worker is, for WorkerOptions::on_beat. Of all shards together.
struct WorkerBeat {
  bool connected = false;           ///< a broker has welcomed it by this connection
  std::size_t running = 0;          ///< jobs in its handlers
  std::size_t unacknowledged = 0;   ///< outcomes that the broker has not confirmed
  std::uint64_t welcomes = 0;       ///< so far: times that a broker has welcomed it
  std::uint64_t stale = 0;          ///< so far: outcomes that came too late
  std::uint64_t dropped = 0;        ///< so far: outcomes that were never confirmed and found no room
  std::vector<ShardBeat> shards{};  ///< where there are shards
};

/// How a call ended, for CallWatcher.
struct CallEnd {
  std::string_view failure{};  ///< the code; empty: it succeeded
  std::optional<wire::Usage> usage{};
  std::optional<int> upstream_status{};
};

/// Follows the worker's calls, to make spans of them. Called on the thread of Worker::run(); must not block
/// or throw.
class CallWatcher {
 public:
  virtual ~CallWatcher() = default;
  /// A call begins. Returns its JobCall::traceparent; empty: as the job brought it, if it did.
  virtual std::string began(const JobCall& job) = 0;
  /// The first piece of a streamed answer has come.
  virtual void streams(wire::Lease lease, TimePoint now) = 0;
  /// The call is over; once for each that began.
  virtual void ended(wire::Lease lease, const CallEnd& end, TimePoint now) = 0;
};

/// What listens where a worker's broker should.
struct WhatIsThere {
  std::string problem{};       ///< such as `an HTTP server answers there`; empty: none is known
  bool asks_for_keys = false;  ///< it is a socket of ZeroMQ that takes those alone who show a key
};

struct WorkerOptions {
  /// The broker's workers endpoint; several, separated by commas, where another broker may go on in its place
  /// (Endpoints). Of any one shard where there are several: its broker tells of the others.
  std::string broker = "tcp://127.0.0.1:5571";
  CurveKeys keys;                  ///< for a broker that asks for keys
  std::string name;                ///< for people; empty: HOST-PID
  std::size_t capacity = 16;       ///< jobs held at once, of all shards together, 1..limits::capacity_max
  std::vector<std::string> lanes;  ///< take only jobs of these lanes; empty: of all
  std::size_t body_bytes_max = limits::body_bytes_max;
  std::chrono::milliseconds drain_timeout{10'000};  ///< for running jobs after stop()
  std::chrono::milliseconds connect_timeout{0};     ///< give up if no broker has answered by then; 0: never
  Log log;
  std::function<void(const std::string& name)>
      on_ready;  ///< called at the first welcome, on the thread of run()
  /// For the log of a worker that no broker has answered yet: looks at the endpoint. It may take a second.
  std::function<WhatIsThere(const std::string& endpoint)> look_there;
  /// How often on_beat is called, on the thread of run(); 0: never. A call that stays out tells of a handler
  /// that blocks, so that a watchdog can be fed here. The callback must not block or throw.
  std::chrono::milliseconds beat_every{0};
  std::function<void(const WorkerBeat&)> on_beat;
  std::shared_ptr<CallWatcher> calls;  ///< null: nobody follows them
};

enum class WorkerEnd : unsigned char {
  drained,      ///< stopped, with nothing left to do
  interrupted,  ///< stopped while jobs ran: the broker hands them to other workers
  unreachable,  ///< no broker within connect_timeout
  refused,  ///< no broker took it: an unknown lane, or no endpoint for workers; WorkerOptions::log has why
};

/// A worker: offers its services to a broker, runs jobs in its handlers, and repeats outcomes until the
/// broker has acknowledged them. Survives restarts of the broker and of the network. Not thread-safe but for
/// stop().
class Worker {
 public:
  /// Throws std::invalid_argument, with the option's name, for an invalid option.
  Worker(WorkerOptions options, std::vector<Service> services);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Works until stop(). To be called once. Throws std::invalid_argument for an invalid endpoint,
  /// std::runtime_error where the system refuses a socket.
  WorkerEnd run();

  /// First call: takes no more jobs, finishes the running ones within drain_timeout, then ends. Second call:
  /// ends now. Thread-safe, and async-signal-safe.
  void stop() noexcept;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace lanemq
