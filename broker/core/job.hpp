// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <lanemq/blob.hpp>
#include <lanemq/error_table.hpp>
#include <lanemq/messages.hpp>

#include "broker/core/answer_stream.hpp"
#include "broker/core/budgets.hpp"
#include "broker/core/check.hpp"
#include "broker/core/dead_job.hpp"
#include "broker/core/intrusive_list.hpp"
#include "broker/core/job_text.hpp"
#include "broker/core/orphan.hpp"
#include "broker/core/record.hpp"
#include "broker/core/time.hpp"
#include "broker/core/timer_wheel.hpp"

namespace lanemq::core {

struct Connection;
struct Job;
struct KeptResult;
struct Worker;
class ClientQueue;
class Service;
class Stream;

using LaneIndex = std::uint8_t;

enum class JobState : std::uint8_t { queued, delayed, running, succeeded, failed, cancelled, expired };

std::string_view name_of(JobState state);

enum class ReplyMode : std::uint8_t { result, accepted, both };

/// Somebody besides the submitter who is to hear how a job ends: a second submit of it, or a fetch that
/// waits.
struct Waiter {
  Timer timer{.owner = TimerOwner::waiter,
              .object = this};  ///< set for a fetch: when to answer with a status
  Job* job = nullptr;
  Connection* connection = nullptr;
  std::string envelope, ref;
};

/// How a job ended, where there is more to say than its body.
struct Ending {
  ErrorCode code = ErrorCode::internal;
  std::string message;
  std::optional<Duration> retry_after;
  std::optional<wire::Usage> usage;
  std::optional<std::int64_t> upstream_status;  ///< of HTTP, where the upstream said one
  std::int64_t chunks = 0;                      ///< of a streamed answer, that were sent
};

/// What only a job has that is not in its queue: one that is delayed, or runs, or has ended and keeps its
/// place. Millions may be queued, and do without. Lives in the JobTable.
struct Away {
  explicit Away(Job& of) : job(of) {}

  Job& job;
  ListHook<Away> hook;        ///< among its worker's leases, or among the delayed
  Worker* worker = nullptr;   ///< set while it holds a place
  TimePoint due{};            ///< delayed: when it may be queued again
  TimePoint dispatched_at{};  ///< the last hand-over
  Reservation reservation;
  std::int64_t charged = 0;  ///< to its client, for the attempt under way
  std::uint32_t queued_ms = 0;
  std::uint8_t missing = 0;     ///< inventories in a row that did not list it
  bool reserved_place = false;  ///< the place it holds is a reserved worker's
  bool body_awaited = false;    ///< running, but its worker gets it when its body has been read back
};

static_assert(std::is_trivially_destructible_v<Away>);

/// One job, from its acceptance until it has ended and its place is free. Lives in the JobTable.
struct Job final : Record {
  /// What few of them have.
  struct Extra {
    std::optional<wire::Cost> cost;  ///< as the client stated it
    Blob body;                       ///< where too large for `text`
    Duration delay{};                ///< before accepted_at, of its stated timeout
    std::string key;                 ///< adoptable: the key that its worker has for it
    std::vector<std::unique_ptr<Waiter>> waiters;
    History history;                       ///< of its attempts
    std::unique_ptr<AnswerStream> answer;  ///< of one that asked for a stream
    std::unique_ptr<Orphan> orphan;        ///< set where its client wants it cancelled when it is gone itself
  };
  /// What a job counts for in the byte bounds, besides its texts: the record and its share of the indexes.
  static constexpr std::size_t kRecordBytes = 448;

  Job() : Record(false) {}

  std::uint32_t attempt = 0;   ///< hand-overs, the fence
  std::uint16_t attempts = 0;  ///< hand-overs that cost one
  LaneIndex lane = 0;
  JobState state = JobState::queued;
  ReplyMode reply = ReplyMode::result;
  std::uint8_t crashes = 0;
  bool client_named_it : 1 = false;
  bool timeout_stated : 1 = false;  ///< by the client; else it is the lane's
  bool returned : 1 = false;        ///< stands among its stream's returned jobs
  bool durable : 1 = false;         ///< it is in the store
  bool body_stored : 1 = false;     ///< its body is there alone
  bool adoptable : 1 = false;       ///< ran when the broker stopped; delayed until its worker names it
  std::uint16_t attempts_max = 0;
  bool streams = false;          ///< its client asked for a streamed answer
  LaneIndex submitted_lane = 0;  ///< part of what it was submitted with; an operator may have moved it since
  std::uint32_t bytes = 0;       ///< what it counts for in the byte bounds
  /// What a job that is queued has in the place of what others have.
  union {
    ListHook<Job> hook{};  ///< while it is queued: in its stream
    struct {
      Away* away;
      KeptResult* result;  ///< set when it has ended, while its result is kept
    } unqueued;
  };

  Timer timer{.owner = TimerOwner::job, .object = this};
  std::unique_ptr<Extra> extra;
  std::uint64_t arrival = 0;  ///< its place: lower numbers first, kept through every retry
  TimePoint accepted_at{};    ///< or when the delay that it was submitted with was over
  TimePoint deadline{};
  Connection* connection = nullptr;                   ///< of the first submit; holds a reference while set
  ClientQueue* queue = nullptr;                       ///< of its client in its stream
  std::uint32_t input_tokens = 0, output_tokens = 0;  ///< that it is expected to take
  std::uint32_t raw_input = 0;                        ///< the guess before its correction, to learn from
  std::uint64_t body_hash = 0;  ///< of what was submitted, where the client named the job
  std::uint32_t retain_ms = 0;
  JobText text;

  /// Null while it is queued, and where it has ended without a place.
  Away* away() const { return state == JobState::queued ? nullptr : unqueued.away; }
  /// Of a job that is delayed, or runs, or keeps a place.
  Away& at_away() const {
    LANEMQ_CHECK(away() != nullptr);
    return *unqueued.away;
  }
  /// Whose place it holds; null where it holds none.
  Worker* worker() const { return away() == nullptr ? nullptr : unqueued.away->worker; }
  /// Running, but its worker gets it when its body has been read back.
  bool body_awaited() const { return away() != nullptr && unqueued.away->body_awaited; }
  /// Set when it has ended, while its result is kept.
  KeptResult* result() const { return state == JobState::queued ? nullptr : unqueued.result; }

  Extra& need_extra() {
    if (!extra) extra = std::make_unique<Extra>();
    return *extra;
  }
  /// The request's body; good for as long as the job is not changed.
  Blob body() const {
    return extra && !extra->body.empty() ? extra->body : Blob::borrow(text.get(JobText::body));
  }
  Amounts expected() const { return {.input_tokens = input_tokens, .output_tokens = output_tokens}; }
  /// What it counts for where jobs share: its tokens, or one where they are not counted.
  std::int64_t cost() const { return std::max<std::int64_t>(std::int64_t{input_tokens} + output_tokens, 1); }
  /// Null where it asked for no stream, or has ended.
  AnswerStream* answer() const { return extra ? extra->answer.get() : nullptr; }
  /// Its client has a part of its answer: it can never be run again.
  bool has_content() const { return answer() != nullptr && answer()->begun(); }
  bool ended() const { return state >= JobState::succeeded; }
  /// From the submit on where it was stated, else from the end of its delay.
  Duration timeout() const { return deadline - accepted_at + (extra ? extra->delay : Duration{}); }
  Stream& stream() const;
  std::string_view id() const { return text.get(JobText::id); }
  /// A client knows it by its id: it chose the id, or was told it.
  bool id_told() const {
    return client_named_it || reply != ReplyMode::result || text.get(JobText::ref).empty();
  }
};

}  // namespace lanemq::core
