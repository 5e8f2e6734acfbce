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
#include <vector>

#include <lanemq/blob.hpp>
#include <lanemq/curve_keys.hpp>
#include <lanemq/error_table.hpp>
#include <lanemq/limits.hpp>
#include <lanemq/messages.hpp>
#include <lanemq/reply.hpp>

namespace lanemq {

/// A client's settings and bounds.
struct ClientOptions {
  /// The broker's endpoint for clients: tcp://HOST:PORT, ipc://PATH. Several, separated by commas, where
  /// another broker may go on in its place: one is connected to at a time, the next when it has said nothing
  /// for a second, or falls silent (Endpoints).
  std::string endpoint = "tcp://127.0.0.1:5570";
  /// For a broker that asks for keys. Where it refuses this one, all pending requests end with the local
  /// error `unauthorized`.
  CurveKeys keys{};

  /// Bound of requests without an answer, of all kinds; one more is refused at once with `client_full`.
  std::size_t pending_max = 10'000;
  /// Bound of the bytes of their bodies; that of a stream counts until its first piece. A larger body is
  /// accepted when nothing else is pending.
  std::size_t pending_bytes_max = std::size_t{256} * 1024 * 1024;
  /// Bound of one body; a larger one is refused at once with `too_large`.
  std::size_t body_bytes_max = limits::body_bytes_max;

  /// Jobs in one message, where so many wait to be sent and the broker accepts batches; at most
  /// limits::batch_items_max. 0 and 1: each goes alone.
  std::size_t batch_max = 16;

  /// How long after a job's own timeout its answer is awaited, before it ends with a local `deadline`.
  std::chrono::milliseconds grace{5'000};
  /// How long ping, stats, status and cancel wait for their answers.
  std::chrono::milliseconds control_timeout{10'000};

  /// Goes to other shards that the broker tells of. False: asks the broker at the endpoint and no other one,
  /// as at an endpoint for operators.
  bool follow_shards = true;

  /// Called with a sentence when a broker falls silent, and when one answers again. On the client's own
  /// thread; may be empty.
  std::function<void(std::string_view)> log{};
};

/// A job to be done. Empty texts and absent values take the broker's defaults.
struct JobRequest {
  std::string service{};  ///< required: the service that does the work
  /// The idempotency key, up to 128 bytes. Empty: the client makes one (a ULID). Sending a job again after a
  /// broken connection thus never runs it twice.
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
  /// A msgpack value passed on to the worker; empty: none. docs/handlers.md says what handlers read.
  std::string meta{};
  /// W3C Trace Context for the worker and the broker's spans, a msgpack map with `traceparent` and perhaps
  /// `tracestate`; empty: none.
  std::string trace{};
  bool stream = false;  ///< for leave(): the answer is made in pieces, for follow()
  /// Jobs of one group are counted together, and whoever watches it hears when it is over. Empty: none.
  std::string group{};
  std::optional<std::int64_t> group_size{};  ///< how many jobs it has; none: it is over when none is open
  /// A URL that hears of the job's end, or of its group's, where the broker has workers for that. Empty:
  /// none.
  std::string notify{};
};

/// A job that succeeded.
struct JobDone {
  std::string id{}, lane{};
  std::int64_t attempts = 1;
  std::chrono::milliseconds queued{0}, ran{0};
  std::optional<wire::Usage> usage{};
  std::int64_t chunks = 0;  ///< pieces of a streamed answer
  Blob body{};              ///< the answer; owns its bytes; of a stream what no piece carried
};

/// A job that the broker has accepted.
struct JobAccepted {
  std::string id{}, lane{};
  bool durable = false;    ///< on disk: it survives the broker
  bool duplicate = false;  ///< the broker knew the job before
  std::int64_t position = 0;
};

/// The end of a job: its result, or why it failed.
using Answer = Reply<JobDone>;
using AnswerCallback = std::function<void(Answer)>;

/// A piece of a streamed answer.
struct JobChunk {
  std::string id{};
  std::int64_t seq = 0;  ///< from 0, without gaps
  /// Set in the first piece, as in JobDone:
  std::string lane{};
  std::int64_t attempts = 1;
  std::chrono::milliseconds queued{0};
  Blob body{};  ///< owns its bytes
};

/// A reader of a streamed answer. Called on the client's own thread, except as submit() says of its callback;
/// must not block or throw.
struct StreamReader {
  /// Called for each piece, in order, exactly once, also across connections.
  std::function<void(JobChunk)> on_chunk{};
  /// Called once, after the last piece.
  AnswerCallback on_end{};
  /// True: a piece counts as taken when on_chunk returns. False: when Client::seen() says so. A reader that
  /// is limits::stream_chunks_max pieces or limits::stream_bytes_max bytes behind gets no more until it has
  /// taken some, and its upstream pauses.
  bool takes_at_once = true;
};

/// Whose changes a watch follows: jobs that all of this fits; empty texts fit any.
///
/// Where there are shards it is a watch at each of them: `watching`, `seq`, `gap` and `left_out` say
/// something about the changes of that `shard` alone, and changes of two shards come in no particular order.
struct WatchRequest {
  std::string id{}, client{}, lane{}, service{}, group{};
};

/// What has become of a job. docs/protocol/client.md says which fields go with which `what`.
struct JobChange {
  /// accepted, queued, started, adopted, progress, requeued, moved, ended, redriven; group_over, which is
  /// about no job but a group of them; or `watching`: from now on no change goes untold. That is the first
  /// one, and comes again after each connection that was lost.
  std::string what{};
  std::int64_t seq = 0;
  bool gap = false;           ///< changes right before this one were left out, or nobody knows
  std::int64_t left_out = 0;  ///< how many, where that is known
  std::string id{}, state{}, lane{}, service{}, client{}, model{}, from_lane{}, worker{}, code{};
  std::int64_t attempts = 0;
  std::optional<std::chrono::milliseconds> delay{}, queued{}, ran{};
  bool dead = false;
  std::optional<int> pct{};  ///< progress
  std::string note{};        ///< progress
  std::string group{};       ///< the job's; group_over: which is
  /// group_over: jobs that ended so, and how many of them are dead.
  std::int64_t succeeded = 0, failed = 0, cancelled = 0, expired = 0, died = 0;
  bool incomplete = false;          ///< group_over: the group went before it was over
  std::chrono::milliseconds at{0};  ///< since 1970, by the broker's clock
  std::string shard{};              ///< whose broker says it; empty: there are none, or it has not said yet
};

/// The reader of a watch. Called on the client's own thread; must not block or throw.
struct WatchReader {
  std::function<void(JobChange)> on_change{};
  /// Called once, when the broker has refused the watch, or the client is destroyed.
  std::function<void(ClientError)> on_end{};
};

/// The state of a job.
struct JobStatus {
  std::string id{};
  std::string state{};  ///< delayed queued running succeeded failed cancelled expired unknown
  std::string lane{};
  std::int64_t attempts = 0;
  std::chrono::milliseconds queued{0};  ///< until its last hand-over, or its end, or now
  std::optional<std::int64_t> position{};
  std::optional<std::chrono::milliseconds> eta{};
  std::string blocked_by{}, worker{};
  std::string group{};  ///< of a job that has not ended
  /// Of a running job whose worker says how far it is: its last word, and for how long nothing has come.
  std::optional<int> pct{};
  std::string note{};
  std::optional<std::chrono::milliseconds> silent{};
  std::string error_json{};  ///< a failed job's error as JSON; empty for any other
};

/// A job's answer, or its state if it did not end in time.
using FetchAnswer = Reply<std::variant<JobDone, JobStatus>>;

/// A shard of a cluster, and where clients reach its brokers.
struct BrokerShard {
  std::string name{};
  std::vector<std::string> endpoints{};
};

/// The broker answers.
struct BrokerPong {
  std::chrono::nanoseconds round_trip{0};
  std::chrono::milliseconds broker_time{0};  ///< since 1970, by the broker's clock
  std::string version{};
  std::string default_lane{};         ///< the lane of jobs that name none; other replies leave its name out
  std::string shard{};                ///< the one that it owns; empty: there are no shards
  std::vector<BrokerShard> shards{};  ///< all of them, in the order of their rules
};

/// A gateway's request for a share of what one of its keys may use, which the broker shares out among
/// gateways (docs/protocol/client.md, `spend`). Totals count since the session began; a limit of 0 is none.
struct SpendRequest {
  std::string key{}, session{};
  std::int64_t requests_per_minute = 0, tokens_per_minute = 0, concurrency = 0;
  std::int64_t requests = 0, requests_ahead = 0;
  std::int64_t tokens = 0, tokens_ahead = 0;
  std::int64_t places = 0, places_ahead = 0;  ///< in use now, not in all
};

/// What the session may use, in the same sense; what is left for all gateways, and when there is something if
/// not.
struct BrokerSpent {
  std::int64_t requests = 0, tokens = 0, places = 0;
  std::int64_t requests_left = 0, tokens_left = 0;
  std::chrono::milliseconds requests_wait{0}, tokens_wait{0};
};

/// The broker's document about itself, described in docs/protocol/operating.md.
struct BrokerStats {
  std::string json{};
};

/// The broker's answer to an operator: a document described in docs/protocol/operating.md.
struct AdminDocument {
  std::string json{};
};

/// An operator's request; docs/protocol/operating.md lists the verbs and their fields. Empty fields are left
/// out.
struct AdminRequest {
  std::string verb{};
  std::string what{}, name{}, id{}, lane{}, service{}, client{}, model{}, state{}, code{}, group{};
  std::string key{}, setting{}, value{}, reason{}, path{};
  std::int64_t from = 0;
  std::optional<std::int64_t> limit{}, top{};
  bool dry_run = false;
  /// How long the answer may take; none: ClientOptions::control_timeout.
  std::optional<std::chrono::milliseconds> timeout{};
};

/// A broker that requests wait for, and that says nothing.
struct BrokerSilence {
  std::chrono::steady_clock::time_point since{};
  std::string shard{};      ///< of its shard; empty: there are none, or it is not known
  std::string endpoints{};  ///< where it is looked for, separated by commas
};

/// Counters since the client was made.
struct ClientCounters {
  std::uint64_t sent = 0;             ///< requests sent, repetitions included
  std::uint64_t resent = 0;           ///< of those, repetitions after a broken connection
  std::uint64_t answered = 0;         ///< requests ended by the broker
  std::uint64_t expired = 0;          ///< requests ended by this client's clock
  std::uint64_t dropped_answers = 0;  ///< answers to no pending request: to a repetition, or late
  std::uint64_t undecodable = 0;      ///< messages that could not be decoded
  std::uint64_t reconnected = 0;      ///< new connections after the first
  /// When the broker was last heard; empty: never.
  std::optional<std::chrono::steady_clock::time_point> heard{};
  bool answers = false;                    ///< the broker was heard on the connection that stands
  std::optional<BrokerSilence> silence{};  ///< the longest that there is now, of a second at least
};

/// A connection to a broker, for any number of jobs at once.
///
/// Thread-safe: all members may be called from any thread, also from callbacks. The destructor must not run
/// at the same time as other calls, nor inside a callback. One thread per Client does input and output.
///
/// Each request ends exactly once: with the broker's answer, with a local error (`deadline`, `client_full`,
/// `too_large`), or with the local error `cancelled` if the Client is destroyed first. Connecting never
/// fails: requests made while the broker is away are sent once it is there. When a connection breaks or is
/// silent (2.5 s without a message while requests are pending) a new one is made and everything pending is
/// sent again, with the same ids and bytes; the broker joins it to what it has.
///
/// Where the broker says that there are shards, the Client is connected to a broker of each that it has
/// something for. A job goes to the shard whose rules name it; what is asked about a job goes to the shard
/// that has accepted it, if this Client has submitted it lately, or else to the one of all shards that knows
/// it: a shard that does not answer then holds up only what no other one knows, for control_timeout. All
/// brokers have one key.
///
/// Refusals that say when to retry (`lane_full`, `client_full`, `bytes_full`, `draining`, ...) go to the
/// caller, who decides whether to repeat the request.
class Client {
 public:
  /// Throws std::invalid_argument for an invalid endpoint, std::runtime_error where no descriptors are left.
  explicit Client(ClientOptions options = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Submits a job, and returns its answer. Copies bytes that the Blob does not own.
  std::future<Answer> submit(JobRequest request, const Blob& body = {});
  std::future<Answer> submit(JobRequest request, std::string body);

  /// Calls `callback` once: on the client's own thread, or inside this call when the request is refused
  /// before it is sent (pending_max, pending_bytes_max, body_bytes_max). It must not block, since all other
  /// answers wait for it, and must not throw: an exception is logged and dropped.
  void submit(JobRequest request, const Blob& body, AnswerCallback callback);
  void submit(JobRequest request, std::string body, AnswerCallback callback);

  /// Leaves a job with the broker. Ends when the broker has accepted it, not with its answer. Any client can
  /// fetch() the answer for as long as the broker keeps it (JobRequest::retain).
  std::future<Reply<JobAccepted>> leave(JobRequest request, const Blob& body = {});
  std::future<Reply<JobAccepted>> leave(JobRequest request, std::string body);

  /// Callbacks here and below are called as that of submit().
  void leave(JobRequest request, const Blob& body, std::function<void(Reply<JobAccepted>)> callback);

  /// Submits a job and reads its answer piece by piece while it is made. Asks again for pieces lost with a
  /// connection; if the broker no longer has them the stream ends with `gone`. A reader that takes no piece
  /// for 30 s is cut off with `slow_reader`.
  void stream(JobRequest request, const Blob& body, StreamReader reader);
  /// Reads the streamed answer of an earlier submit, by any client, from the piece `from_seq` on: first what
  /// the broker keeps, then what comes. Ends with `gone`, which names the oldest kept piece, if `from_seq` is
  /// not kept any more.
  void follow(const std::string& id, std::int64_t from_seq, StreamReader reader);
  /// The stream's reader has taken all pieces up to `seq`. Ids without a stream are ignored.
  void seen(const std::string& id, std::int64_t seq);

  /// Follows what becomes of jobs, at all shards, for as long as this client lives. A reader that is behind
  /// by limits::watch_events_max changes misses some, and the next one it gets says so.
  void watch(const WatchRequest& request, WatchReader reader);

  /// `shard`, here and below: asks a broker of that one, which BrokerPong names; empty: the broker at the
  /// endpoint.
  std::future<Reply<BrokerPong>> ping(std::string shard = {});
  /// `from`: of budgets and keys, how many to skip, as `next` of an earlier answer.
  std::future<Reply<BrokerStats>> stats(std::int64_t from = 0, std::string shard = {});
  std::future<Reply<JobStatus>> status(const std::string& id);
  std::future<Reply<JobStatus>> cancel(const std::string& id);
  void status(const std::string& id, std::function<void(Reply<JobStatus>)> callback);
  void cancel(const std::string& id, std::function<void(Reply<JobStatus>)> callback);
  /// For operators, at the broker's admin endpoint; the clients' endpoint refuses it.
  std::future<Reply<AdminDocument>> admin(const AdminRequest& request);
  /// Waits up to `wait` (at most 60 s) for the end of a job submitted earlier, by any client.
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
