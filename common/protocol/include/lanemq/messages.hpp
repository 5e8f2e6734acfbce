// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

namespace lanemq::wire {

// The messages of LMQ1 as values. Fields have their names on the wire; docs/protocol/ explains them. An
// absent text has a null data(), an absent optional is empty, an absent number or flag has its default. Views
// point into the decoded frame or the decoder: valid until its next decode().

/// msgpack bytes that pass through unchanged.
struct Raw {
  std::string_view bytes;
  bool present() const { return !bytes.empty(); }
};

/// The fields whose names begin with `x-`: keys and values in turn, each as msgpack.
struct Extras {
  std::uint32_t count = 0;  ///< pairs
  std::string_view bytes;
};

/// The cost of a request or job, as stated or estimated.
struct Cost {
  /// Bits of `certain`.
  static constexpr std::int64_t kInput = 1, kOutput = 2;

  std::optional<std::int64_t> input_tokens, output_tokens;
  /// Which of the two are known, and no guess. The broker believes that of some.
  std::optional<std::int64_t> certain{};

  bool knows_input() const { return input_tokens && (certain.value_or(0) & kInput) != 0; }
  bool knows_output() const { return output_tokens && (certain.value_or(0) & kOutput) != 0; }
};

/// Usage of an attempt, as the upstream reported it.
struct Usage {
  std::optional<std::int64_t> requests, input_tokens, output_tokens, cached_tokens, reasoning_tokens;
};

/// An upstream's limits, as it reported them.
struct UpstreamLimits {
  std::optional<std::int64_t> remaining_requests, remaining_tokens, remaining_input_tokens,
      remaining_output_tokens;
  std::optional<std::int64_t> reset_requests_ms, reset_tokens_ms, reset_input_tokens_ms,
      reset_output_tokens_ms;
  std::optional<std::int64_t> limit_requests, limit_tokens, limit_input_tokens, limit_output_tokens;
  std::optional<std::int64_t> limit_concurrency{};                       ///< calls at once
  std::optional<std::int64_t> period_requests_ms{}, period_tokens_ms{};  ///< of the figures; none: a minute
};

/// One hand-over of a job: the number the broker gave it and which attempt it is.
struct Lease {
  std::uint64_t job = 0;
  std::int64_t attempt = 1;
  friend bool operator==(const Lease&, const Lease&) = default;
};

// ---- client -> broker ---------------------------------------------------------------------------------

struct Submit {
  std::string_view service, id, lane, model, client;
  std::optional<Cost> cost;
  std::optional<std::int64_t> timeout_ms, delay_ms, attempts_max, retain_ms;
  std::string_view reply;                  ///< result (default), accepted, both
  std::string_view orphan;                 ///< keep (default), cancel
  std::string_view limited;                ///< wait (default), end
  std::string_view spent;                  ///< wait (default), end
  std::string_view group;                  ///< jobs that are counted together; absent: none
  std::optional<std::int64_t> group_size;  ///< jobs of the group; absent: as many as come
  std::string_view notify;                 ///< a URL that hears of the end; absent: none does
  bool stream = false;
  std::optional<bool> durable;
  std::int64_t batch = 0;
  Raw meta, trace, ref;
  Extras extras;
};

struct Cancel {
  std::string_view id;
  Raw ref;
};

struct StatusQuery {
  std::string_view id;
  std::vector<std::string_view> ids;
  Raw ref;
};

struct Fetch {
  std::string_view id;
  std::int64_t wait_ms = 0;
  std::optional<std::int64_t> from_seq;
  Raw ref;
};

struct Seen {
  std::string_view id;
  std::int64_t seq = 0;
  Raw ref;
};

/// Follow jobs' changes of state. Said again with the same ref it is the same watch, and renews it.
struct Watch {
  std::string_view id, client, lane, service, group;  ///< absent: any
  bool stop = false;                                  ///< end the watch of that ref
  std::int64_t batch = 0;
  Raw ref;
};

struct StatsQuery {
  std::int64_t from = 0;  ///< of budgets and keys: how many to skip, as `next` of an earlier answer
  Raw ref;
};

struct Ping {
  Raw ref;
  std::int64_t batch = 0;  ///< above 0: the answer is to say how large batches the broker accepts
  bool cluster = false;    ///< the answer is to say where the brokers are
};

/// A gateway's request for a share of what a key may use: see docs/protocol/client.md. Totals count since the
/// gateway began.
struct Spend {
  std::string_view key, session;
  std::int64_t requests_per_minute = 0, tokens_per_minute = 0, concurrency = 0;  ///< 0: no limit
  std::int64_t requests = 0, requests_ahead = 0;
  std::int64_t tokens = 0, tokens_ahead = 0;
  std::int64_t places = 0, places_ahead = 0;
  Raw ref;
};

/// An operator's request: `do` on the wire is a verb of admin_table.hpp, which says what other fields it
/// needs.
struct AdminQuery {
  std::string_view verb;
  std::string_view what, name;  ///< a kind of thing, and which of them
  std::string_view id, lane, service, client, model, state, code, group;
  std::string_view key, setting, value, reason;
  std::string_view path;              ///< a file on the broker's machine
  std::int64_t from = 0;              ///< of a list: `next` of an earlier answer
  std::optional<std::int64_t> limit;  ///< rows of a list in one answer
  std::optional<std::int64_t> top;    ///< of clients: how many, those with the most tokens first
  bool dry_run = false;               ///< say what would happen, and change nothing
  Raw ref;
};

// ---- broker -> client ---------------------------------------------------------------------------------

struct Accepted {
  std::string_view id, lane;
  bool durable = false, duplicate = false;
  std::int64_t position = 0;
  std::optional<std::int64_t> eta_ms;
  Raw ref;
  std::vector<std::string_view> ignored{};  ///< fields of a duplicate that the known job does not have
};

/// The terminal message of a job that succeeded. The body is the answer.
struct JobResult {
  std::string_view id, lane;
  std::int64_t attempts = 1;
  std::int64_t queued_ms = 0, ran_ms = 0;
  std::optional<Usage> usage;
  std::int64_t chunks = 0;
  Raw ref;
};

/// The terminal message of a job that did not succeed, or a refusal of a request.
struct ErrorReply {
  std::string_view id, code, message;
  std::optional<std::int64_t> retry_after_ms;
  std::int64_t attempts = 1, queued_ms = 0;
  std::string_view limiter;
  std::int64_t chunks = 0;
  std::optional<std::int64_t> upstream_status;  ///< the HTTP status, where the upstream sent one
  Raw ref;
  std::vector<std::string_view> endpoints{};  ///< not_owner: where to ask
  std::string_view shard{};                   ///< not_owner: of another shard, which takes such jobs
};

struct StatusReply {
  std::string_view id, state, lane;
  std::int64_t attempts = 0, queued_ms = 0;
  std::optional<std::int64_t> position, eta_ms;
  std::string_view blocked_by, worker;
  std::string_view group;  ///< of a job that has not ended
  /// Of a running job whose worker has said it: how far it is, and how long ago its last sign of life was.
  std::optional<std::int64_t> pct;
  std::string_view note;
  std::optional<std::int64_t> silent_ms;
  Raw error, jobs, ref;
};

/// The answer to a watch: it holds from now on, or is over.
struct Watching {
  std::int64_t seq = 0;  ///< of the event that comes next
  bool stop = false;
  Raw ref;
};

/// What has become of a job, or of a group of jobs, for who watches it.
struct JobEvent {
  std::int64_t seq = 0;
  bool gap = false;           ///< events right before it were left out,
  std::int64_t left_out = 0;  ///< so many
  std::string_view what, id, state;
  std::string_view lane, service, client, model;
  std::string_view from_lane;  ///< moved
  std::string_view worker;     ///< started, adopted: where the worker has a name
  std::string_view code;       ///< requeued: why; ended: of the error
  std::int64_t attempts = 0;
  std::optional<std::int64_t> delay_ms;           ///< until it is queued
  std::optional<std::int64_t> queued_ms, ran_ms;  ///< ended
  bool dead = false;                              ///< ended: it is kept, and may be run again
  std::optional<std::int64_t> pct;                ///< progress
  std::string_view note{};                        ///< progress
  std::string_view group{};                       ///< of the job; group_over: which
  /// group_over: jobs that ended so, and how many of them are dead.
  std::int64_t succeeded = 0, failed = 0, cancelled = 0, expired = 0, died = 0;
  bool incomplete = false;  ///< group_over: it went before it was over
  std::int64_t at_ms = 0;   ///< since 1970
  Raw ref;
};

/// The broker's document about itself: all fields of the message, as one msgpack map. A ref is written behind
/// the document's entries; after decoding it is in both places.
struct StatsReply {
  Raw document;
  Raw ref;
};

struct Pong {
  std::int64_t now_ms = 0;
  std::string_view version;
  Raw ref;
  std::int64_t batch =
      0;  ///< where the request asked for it: the most maps that the broker accepts in a batch
  std::string_view default_lane{};            ///< the lane of messages that name none
  std::vector<std::string_view> endpoints{};  ///< where asked for: of each broker that may own the store
  /// Where asked for, and there are shards: which one the broker owns, and all of them (lanemq/shards.hpp).
  std::string_view shard{};
  Raw shards{};
  std::string_view tenant{};  ///< where asked for: of the key that asks, whose jobs go by it
};

/// What a gateway may use of a key, as totals in the sense of its request.
struct Spent {
  std::string_view key;
  std::int64_t requests = 0, tokens = 0, places = 0;
  std::int64_t requests_left = 0, tokens_left = 0;  ///< for all gateways
  std::int64_t requests_wait_ms = 0, tokens_wait_ms = 0;
  Raw ref;
};

/// The answer to an operator: a document, as in StatsReply.
struct AdminReply {
  Raw document;
  Raw ref;
};

// ---- both ways ----------------------------------------------------------------------------------------

/// A piece of a streamed answer, from the broker to a client. The first one for a request has lane, attempts
/// and queued_ms, as JobResult has.
struct ChunkReply {
  std::string_view id;
  std::int64_t seq = 0;
  std::string_view lane;
  std::int64_t attempts = 1, queued_ms = 0;
  Raw ref;
};

// ---- worker -> broker ---------------------------------------------------------------------------------

struct Ready {
  std::vector<std::string_view> services;
  std::int64_t capacity = 0;
  std::vector<std::string_view> lanes;  ///< empty: all
  std::string_view name, version;
  std::int64_t batch = 0;
  bool resumes = false;        ///< its session goes on after its connection is lost
  std::string_view session{};  ///< of the last welcome
  std::string_view process{};  ///< the worker's process, see lanemq/process_name.hpp
  Raw labels;
  bool cluster = false;  ///< the answer is to say where the brokers are
};

struct Chunk {
  std::uint64_t job = 0;
  std::int64_t attempt = 1, seq = 0;
};

/// How far a running job is. Each replaces the one before.
struct Progress {
  std::uint64_t job = 0;
  std::int64_t attempt = 1;
  std::optional<std::int64_t> pct;
  std::string_view note;
};

struct Outcome {
  std::uint64_t job = 0;
  std::int64_t attempt = 1;
  std::optional<Usage> usage;
  std::optional<UpstreamLimits> limits;
};

struct Failure {
  std::uint64_t job = 0;
  std::int64_t attempt = 1;
  std::string_view error_class;  ///< `class` on the wire
  std::string_view code, message;
  std::optional<std::int64_t> retry_after_ms;
  std::optional<Usage> usage;
  std::optional<UpstreamLimits> limits;
  std::optional<std::int64_t> upstream_status;  ///< the HTTP status, where the upstream sent one
  std::string_view limited_by{};                ///< LimitedBy: which kind of limit refused; empty: not known
};

/// From a worker with its inventory; from the broker without one.
struct Heartbeat {
  std::vector<Lease> jobs;
};

struct Bye {};

// ---- broker -> worker ---------------------------------------------------------------------------------

struct Welcome {
  std::string_view session;
  std::int64_t heartbeat_ms = 1000;
  std::int64_t body_bytes_max = 0;
  std::int64_t batch = 0;                     ///< maps of one batch, in either direction; 0: no batches
  std::string_view default_lane{};            ///< the lane of messages that name none
  std::vector<std::string_view> endpoints{};  ///< where asked for: of each broker that may own the store
  std::string_view shard{};                   ///< as in a pong
  Raw shards{};                               ///< likewise, with the endpoints for workers and without rules
};

struct JobOffer {
  std::uint64_t job = 0;
  std::int64_t attempt = 1;
  std::string_view id, service, lane, model, client, key;
  std::optional<std::int64_t> timeout_ms;  ///< the rest of the job's timeout
  std::optional<Cost> cost;
  bool stream = false;
  Raw meta, trace;
  Extras extras;
};

struct Acked {
  std::vector<Lease> jobs;
};

struct CancelJob {
  std::uint64_t job = 0;
  std::int64_t attempt = 1;
  std::string_view reason;
};

struct Window {
  std::uint64_t job = 0;
  std::int64_t attempt = 1, seq = 0;
};

struct Drain {};

/// `unknown_session`, `stale` (with the job it is about) or `bad_request`.
struct WorkerRefusal {
  std::string_view code, message;
  std::optional<std::int64_t> job, attempt;
  Raw ref;  ///< of a message that could not be read: a client that asks at the wrong endpoint finds its
            ///< request
};

// ---- who says what to whom ----------------------------------------------------------------------------

using ClientRequest =
    std::variant<Submit, Cancel, StatusQuery, Fetch, Seen, StatsQuery, Ping, Spend, AdminQuery, Watch>;
using ClientReply = std::variant<Accepted, ChunkReply, JobResult, ErrorReply, StatusReply, StatsReply, Pong,
                                 Spent, AdminReply, Watching, JobEvent>;
using WorkerReport = std::variant<Ready, Chunk, Progress, Outcome, Failure, Heartbeat, Bye>;
using WorkerCommand =
    std::variant<Welcome, JobOffer, Acked, CancelJob, Window, Heartbeat, Drain, Bye, WorkerRefusal>;

}  // namespace lanemq::wire
