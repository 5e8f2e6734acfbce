// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include <tl/expected.hpp>

#include <lanemq/blob.hpp>
#include <lanemq/error_table.hpp>
#include <lanemq/limits.hpp>
#include <lanemq/messages.hpp>

namespace lanemq {

/// How a client behaves. Every bound has a name here.
struct ClientOptions {
  /// Where the broker's clients' socket is: tcp://HOST:PORT, ipc://PATH.
  std::string endpoint = "tcp://127.0.0.1:5570";

  /// Requests without an answer, of all kinds. One more is refused at once with `client_full`.
  std::size_t pending_max = 10'000;
  /// Bodies of those requests together; that of a stream counts until its first piece is there. A single body
  /// may be larger when nothing else is pending.
  std::size_t pending_bytes_max = std::size_t{256} * 1024 * 1024;
  /// One body. A larger one is refused at once with `too_large`.
  std::size_t body_bytes_max = limits::body_bytes_max;

  /// Jobs that go in one message where so many wait to be sent at once and the broker takes batches; up to
  /// limits::batch_items_max. 0 and 1: each goes alone.
  std::size_t batch_max = 16;

  /// How long after a job's own timeout its answer is still waited for, before `deadline` is said locally.
  std::chrono::milliseconds grace{5'000};
  /// How long ping, stats, status and cancel wait for their answer.
  std::chrono::milliseconds control_timeout{10'000};

  /// Told in a sentence when the broker falls silent and when it answers again. Called on the client's own
  /// thread; may be empty.
  std::function<void(std::string_view)> log{};
};

/// What is to be done. Texts left empty and values left out take the broker's defaults.
struct JobRequest {
  std::string service{};  ///< required: what does the work
  /// The idempotency key, up to 128 bytes. Empty: the client makes one (a ULID), so that sending the job
  /// again after a broken connection never runs it twice.
  std::string id{};
  std::string lane{}, model{}, client{};
  std::optional<wire::Cost> cost{};
  std::optional<std::chrono::milliseconds> timeout{}, delay{}, retain{};
  std::optional<int> attempts_max{};
  std::optional<bool> durable{};
  bool cancel_when_gone = false;  ///< cancel the job when this client's connection is gone
  bool end_when_limited =
      false;                    ///< fail with `limited` rather than wait when the upstream's rate is used up
  bool end_when_spent = false;  ///< fail with `upstream_quota` rather than wait where all keys rest
  /// A msgpack value that goes to the worker as it is; empty: none. docs/handlers.md says what handlers read.
  std::string meta{};
  bool stream = false;  ///< of leave(): the answer is made in pieces, for follow()
};

/// A job that succeeded.
struct JobDone {
  std::string id{}, lane{};
  std::int64_t attempts = 1;
  std::chrono::milliseconds queued{0}, ran{0};
  std::optional<wire::Usage> usage{};
  std::int64_t chunks = 0;  ///< of a streamed answer
  Blob body{};              ///< the answer; owns its bytes; of a streamed one, what no chunk carried
};

/// Why a request was refused or a job did not succeed.
struct ClientError {
  std::string code{};  ///< as on the wire: a broker may know codes that this library does not
  std::string message{};
  std::string id{};  ///< the job's; empty where the request is about none
  std::optional<std::chrono::milliseconds> retry_after{};
  std::int64_t attempts = 0;
  std::chrono::milliseconds queued{0};  ///< of a job: until its last hand-over, or its end where it waited
  std::string limiter{};
  std::int64_t chunks = 0;               ///< of a streamed answer: so many of it came before it broke
  std::optional<int> upstream_status{};  ///< of HTTP, where the upstream answered with one
  Blob body{};                           ///< what the upstream said, where it said something; owns its bytes
  bool local = false;  ///< said by this library: whether the broker ran the job is not known

  std::optional<ErrorCode> known_code() const { return error_code(code); }
  /// The upstream refused the key that the worker showed it: that is for whoever runs the worker to mend.
  bool key_is_refused() const { return code == "upstream_quota" && upstream_status == 401; }
};

/// A value from the broker, or why there is none.
template <class T>
using Reply = tl::expected<T, ClientError>;

/// A job that the broker has taken.
struct JobAccepted {
  std::string id{}, lane{};
  bool durable = false;    ///< it is on disk, and outlives the broker
  bool duplicate = false;  ///< it was known before
  std::int64_t position = 0;
};

/// The one terminal message of a job.
using Answer = Reply<JobDone>;
using AnswerCallback = std::function<void(Answer)>;

/// A piece of a streamed answer.
struct JobChunk {
  std::string id{};
  std::int64_t seq = 0;  ///< from 0, without a gap
  /// Of the first piece alone: as in JobDone.
  std::string lane{};
  std::int64_t attempts = 1;
  std::chrono::milliseconds queued{0};
  Blob body{};  ///< owns its bytes
};

/// Who reads a streamed answer. All is called on the client's own thread, except where submit() says
/// otherwise of its callback, and must not block nor throw.
struct StreamReader {
  /// For each piece, in order and once, whatever happens to the connection.
  std::function<void(JobChunk)> on_chunk{};
  /// Once, after the last piece.
  AnswerCallback on_end{};
  /// A piece counts as taken when on_chunk has returned; else Client::seen() says so. A reader that is
  /// limits::stream_chunks_max pieces or limits::stream_bytes_max bytes behind gets no more until then, and
  /// its upstream pauses.
  bool takes_at_once = true;
};

/// Where a job is.
struct JobStatus {
  std::string id{};
  std::string state{};  ///< delayed queued running succeeded failed cancelled expired unknown
  std::string lane{};
  std::int64_t attempts = 0;
  std::chrono::milliseconds queued{0};  ///< until its last hand-over, its end, or now
  std::optional<std::int64_t> position{};
  std::optional<std::chrono::milliseconds> eta{};
  std::string blocked_by{}, worker{};
  std::string error_json{};  ///< of a job that failed: the error as JSON, else empty
};

/// A job's answer, or where it is when it did not end in the time given.
using FetchAnswer = Reply<std::variant<JobDone, JobStatus>>;

/// The broker is there.
struct BrokerPong {
  std::chrono::nanoseconds round_trip{0};
  std::chrono::milliseconds broker_time{0};  ///< since 1970, by the broker's clock
  std::string version{};
};

/// What the broker says of itself; the document is described in docs/protocol.md.
struct BrokerStats {
  std::string json{};
};

/// What the broker answers an operator: a document that docs/protocol.md describes.
struct AdminDocument {
  std::string json{};
};

/// What an operator asks for; docs/protocol.md lists the verbs and what each takes. What is empty is left
/// out.
struct AdminRequest {
  std::string verb{};
  std::string what{}, name{}, id{}, lane{}, service{}, client{}, model{}, state{}, code{};
  std::string key{}, setting{}, value{}, reason{}, path{};
  std::int64_t from = 0;
  std::optional<std::int64_t> limit{};
  bool dry_run = false;
  /// How long the answer may take; none: ClientOptions::control_timeout.
  std::optional<std::chrono::milliseconds> timeout{};
};

/// What this client did since it was made.
struct ClientCounters {
  std::uint64_t sent = 0;             ///< requests put on the wire, repetitions included
  std::uint64_t resent = 0;           ///< of those, the repetitions after a broken connection
  std::uint64_t answered = 0;         ///< requests that ended by the broker's word
  std::uint64_t expired = 0;          ///< requests that ended by this client's clock
  std::uint64_t dropped_answers = 0;  ///< answers to nothing pending: to a repetition, or late
  std::uint64_t undecodable = 0;      ///< messages that could not be read
  std::uint64_t reconnected = 0;      ///< new connections after the first
  /// When anything was last heard of the broker; empty: never.
  std::optional<std::chrono::steady_clock::time_point> heard{};
};

/// A connection to a broker, for any number of jobs at once.
///
/// Thread-safe: all members may be called from any thread, callbacks included; the destructor may not race
/// with them, nor run inside a callback. One thread per Client does the input and output.
///
/// Every request ends exactly once: with the broker's answer, with a local error (`deadline`, `client_full`,
/// `too_large`), or, when the Client is destroyed first, with the local error `cancelled`. Connecting never
/// fails: requests made while the broker is away are sent once it is there. After a broken or silent
/// connection (3 s without a word while something is pending) a new one is made and everything pending is
/// sent again, with the same ids and bytes; the broker joins it to what it already has.
///
/// Refusals that say when to retry (`lane_full`, `client_full`, `bytes_full`, `draining`, ...) are given to
/// the caller as they come; repeating them is the caller's decision.
class Client {
 public:
  /// Throws std::invalid_argument when the endpoint is not one, std::runtime_error when there are no
  /// descriptors.
  explicit Client(ClientOptions options = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Bytes that the Blob does not own are copied.
  std::future<Answer> submit(JobRequest request, const Blob& body = {});
  std::future<Answer> submit(JobRequest request, std::string body);

  /// `callback` is called once: on the client's own thread, or inside this call when the request is refused
  /// before it is sent (pending_max, pending_bytes_max, body_bytes_max). It must not block (all other answers
  /// wait for it) and must not throw (the exception is logged and forgotten).
  void submit(JobRequest request, const Blob& body, AnswerCallback callback);
  void submit(JobRequest request, std::string body, AnswerCallback callback);

  /// Leaves a job with the broker: answered when it is taken, not when it is over. Its answer is for fetch(),
  /// of this client or another, for as long as the broker keeps it (JobRequest::retain).
  std::future<Reply<JobAccepted>> leave(JobRequest request, const Blob& body = {});
  std::future<Reply<JobAccepted>> leave(JobRequest request, std::string body);

  /// All callbacks are called as that of submit() is.
  void leave(JobRequest request, const Blob& body, std::function<void(Reply<JobAccepted>)> callback);

  /// Submits a job whose answer is read piece by piece as it is made. Pieces that a broken connection lost
  /// are asked for again; where the broker does not have them any more, the stream ends with `gone`. A reader
  /// that leaves pieces untaken for 30 s is cut off with `slow_reader`.
  void stream(JobRequest request, const Blob& body, StreamReader reader);
  /// Reads the streamed answer of a job that was submitted before, by anyone, from the piece `from_seq` on:
  /// first what is kept of it, then what comes. What is not kept any more ends it with `gone`, which names
  /// the oldest piece that is.
  void follow(const std::string& id, std::int64_t from_seq, StreamReader reader);
  /// The reader of that stream has taken all pieces up to `seq`. Ids without a stream are ignored.
  void seen(const std::string& id, std::int64_t seq);

  std::future<Reply<BrokerPong>> ping();
  /// `from`: of budgets and keys, how many to leave out, as an earlier answer's `next` said.
  std::future<Reply<BrokerStats>> stats(std::int64_t from = 0);
  std::future<Reply<JobStatus>> status(const std::string& id);
  std::future<Reply<JobStatus>> cancel(const std::string& id);
  void status(const std::string& id, std::function<void(Reply<JobStatus>)> callback);
  void cancel(const std::string& id, std::function<void(Reply<JobStatus>)> callback);
  /// For operators, at a broker's admin endpoint: that of the clients refuses it.
  std::future<Reply<AdminDocument>> admin(const AdminRequest& request);
  /// Waits up to `wait` (at most 60 s) for a job that was submitted before, by anyone.
  std::future<FetchAnswer> fetch(const std::string& id,
                                 std::chrono::milliseconds wait = std::chrono::milliseconds{0});
  void fetch(const std::string& id, std::chrono::milliseconds wait,
             std::function<void(FetchAnswer)> callback);

  /// Requests without an answer.
  std::size_t pending() const;
  ClientCounters counters() const;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace lanemq
