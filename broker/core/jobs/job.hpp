// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <lanemq/blob.hpp>
#include <lanemq/error_table.hpp>
#include <lanemq/messages.hpp>

#include "broker/core/base/check.hpp"
#include "broker/core/base/intrusive_list.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/base/timer_wheel.hpp"
#include "broker/core/budgets/budgets.hpp"
#include "broker/core/budgets/circuit_breaker.hpp"
#include "broker/core/budgets/estimates.hpp"
#include "broker/core/jobs/answer_stream.hpp"
#include "broker/core/jobs/dead_job.hpp"
#include "broker/core/jobs/job_text.hpp"
#include "broker/core/jobs/owner.hpp"
#include "broker/core/jobs/record.hpp"
#include "broker/core/jobs/stream_reader.hpp"

namespace lanemq::core {

struct Connection;
struct Job;
struct KeptResult;
struct Worker;
class ClientQueue;
class Service;
class Flow;

using LaneIndex = std::uint8_t;

enum class JobState : std::uint8_t { queued, delayed, running, succeeded, failed, cancelled, expired };

std::string_view name_of(JobState state);

/// How long a result is kept, in 4 bytes: beyond 24 days in whole seconds.
class Retention {
 public:
  constexpr Retention() = default;
  constexpr explicit Retention(std::int64_t ms)
      : coded_(ms < kInSeconds ? static_cast<std::uint32_t>(std::max<std::int64_t>(ms, 0))
                               : kInSeconds | static_cast<std::uint32_t>(std::min<std::int64_t>(
                                                  (ms + 999) / 1000, kInSeconds - 1))) {}

  constexpr std::int64_t ms() const {
    return coded_ < kInSeconds ? std::int64_t{coded_} : std::int64_t{coded_ - kInSeconds} * 1000;
  }
  constexpr bool nothing() const { return coded_ == 0; }

 private:
  static constexpr std::uint32_t kInSeconds = std::uint32_t{1} << 31;

  std::uint32_t coded_ = 0;
};

enum class ReplyMode : std::uint8_t { result, accepted, both };

/// Somebody besides the submitter who is to hear how a job ends: a second submit of it, or a fetch that
/// waits.
struct Waiter {
  Timer timer{TimerOwner::waiter, this};  ///< set for a fetch: when to answer with a status
  Job* job = nullptr;
  Connection* connection = nullptr;
  std::string envelope, ref;

  /// What it counts for in the byte bounds.
  std::size_t bytes() const { return sizeof(Waiter) + envelope.size() + ref.size(); }
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

inline Expected expected_of(const Estimate& estimate) {
  return {.input_tokens = static_cast<std::uint32_t>(estimate.amounts.input_tokens),
          .output_tokens = static_cast<std::uint32_t>(estimate.amounts.output_tokens),
          .raw_input = estimate.raw_input};
}
/// What is to be said of it with the texts of a job: nothing, where nothing counts.
inline std::optional<Expected> stated(const Expected& expected) {
  return expected == Expected{} ? std::nullopt : std::optional(expected);
}

/// Of a body that is in the store alone: its size, in the place of the body.
class StoredSize {
 public:
  explicit StoredSize(std::size_t size) : size_(static_cast<std::uint32_t>(size)) {}
  /// Lives as long as this does.
  Blob blob() const { return Blob::borrow({reinterpret_cast<const char*>(&size_), sizeof size_}); }
  static std::size_t of(std::string_view text) {
    std::uint32_t size = 0;
    if (text.size() == sizeof size) std::memcpy(&size, text.data(), sizeof size);
    return size;
  }

 private:
  std::uint32_t size_;
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
  std::optional<std::uint64_t>
      streamed_bytes{};  ///< of the answer of one that has ended, where that is known
  std::uint32_t queued_ms = 0;
  CircuitBreaker::Period called_in = CircuitBreaker::kNoPeriod;  ///< of its service's breaker
  /// Of its model's, where that failed by itself.
  CircuitBreaker::Period model_called_in = CircuitBreaker::kNoPeriod;
  std::uint8_t missing = 0;     ///< inventories in a row that did not list it
  bool reserved_place = false;  ///< the place it holds is a reserved worker's
  bool body_awaited = false;    ///< running, but its worker gets it when its body has been read back
  bool offer_waited = false;    ///< for the disk, and its cancel must not pass it
  std::uint32_t lent = 0;  ///< bytes of its body that was read back, until its worker says that it has it
};

static_assert(std::is_trivially_destructible_v<Away>);

/// One job, from its acceptance until it has ended and its place is free. Lives in the JobTable.
struct Job final : Record {
  /// What few of them have.
  struct Extra {
    std::optional<wire::Cost> cost;  ///< as the client stated it
    Blob body;                       ///< where too large for `text`
    Duration delay{};                ///< before accepted_at, of its stated timeout
    Expected expected;               ///< where its texts have no room for them
    std::string key;                 ///< adoptable: the key that its worker has for it
    std::vector<std::unique_ptr<Waiter>> waiters;
    std::uint8_t crashes = 0;                         ///< of its workers
    std::uint8_t missed = 0;                          ///< a hand-over of it never arrived
    std::uint16_t refused_key = Reservation::kNoKey;  ///< key_refused: which one, where that is known
    History history;                                  ///< of its attempts
    std::unique_ptr<AnswerStream> answer;             ///< of one that asked for a stream
    /// Where its client wants it cancelled when nobody is left: those who are.
    std::vector<std::unique_ptr<Owner>> owners;
  };
  /// What a job counts for in the byte bounds, besides its texts: the record, what stands behind it besides
  /// the texts, and its share of the indexes.
  static constexpr std::size_t kRecordBytes = 192;
  /// What a streamed answer counts for besides its chunks.
  static constexpr std::size_t kStreamBytes = sizeof(AnswerStream) + sizeof(StreamReader);
  static constexpr std::uint64_t kArrivalMax = (std::uint64_t{1} << 48) - 1;

  Job() : Record(false) {}

  // Millions may be queued: every byte counts, and the order leaves no gap.
  std::uint32_t attempt = 0;   ///< hand-overs, the fence
  std::uint16_t attempts = 0;  ///< hand-overs that cost one
  std::uint16_t attempts_max = 0;
  std::uint64_t arrival : 48 = 0;  ///< its place: lower numbers first, kept through every retry
  LaneIndex lane : 8 = 0;
  LaneIndex submitted_lane : 8 = 0;  ///< part of what it was submitted with; an operator may have moved it
  TimePoint accepted_at{};           ///< or when the delay that it was submitted with was over
  TimePoint deadline{};
  /// What a job that is queued has in the place of what others have.
  union {
    ListHook<Job> hook{};  ///< while it is queued: in its flow
    struct {
      Away* away;
      KeptResult* result;  ///< set when it has ended, while its result is kept
    } unqueued;
  };
  Timer timer{TimerOwner::job, this};
  std::unique_ptr<Extra> extra;
  Connection* connection = nullptr;  ///< of the first submit; holds a reference while set
  ClientQueue* queue = nullptr;      ///< of its client in its flow
  Retention retain;
  JobState state : 3 = JobState::queued;
  ReplyMode reply : 2 = ReplyMode::result;
  bool client_named_it : 1 = false;
  bool timeout_stated : 1 = false;  ///< by the client; else it is the lane's
  bool streams : 1 = false;         ///< its client asked for a streamed answer
  bool returned : 1 = false;        ///< stands among its flow's returned jobs
  bool durable : 1 = false;         ///< it is in the store
  bool body_stored : 1 = false;     ///< its body is there alone
  bool ends_limited : 1 = false;    ///< its client does not want it to wait for its upstream's pause
  bool key_refused : 1 = false;     ///< an upstream refused a key that it had
  bool adoptable : 1 = false;       ///< ran when the broker stopped; delayed until its worker names it
  JobText text;                     ///< the last: what it holds stands behind the job

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
  /// The request's body where it is in memory; good for as long as the job is not changed.
  Blob body() const {
    if (body_stored) return {};
    return extra && !extra->body.empty() ? extra->body : Blob::borrow(text.get(JobText::body));
  }
  /// Of the request's body, wherever that is.
  std::size_t body_bytes() const {
    return body_stored ? StoredSize::of(text.get(JobText::body)) : body().size();
  }
  /// What it is expected to take; nothing where none of its budgets counts tokens.
  Expected expected() const {
    return text.has_expected() ? text.expected() : extra ? extra->expected : Expected{};
  }
  void set_expected(const Expected& expected) {
    if (text.has_expected())
      text.set_expected(expected);
    else if (extra || expected != Expected{})
      need_extra().expected = expected;
  }
  /// What it counts for where jobs share.
  std::int64_t cost() const { return cost_of(expected().amounts()); }
  std::uint8_t crashes() const { return extra ? extra->crashes : std::uint8_t{0}; }
  /// What it counts for in the byte bounds.
  std::size_t bytes() const {
    if (ended()) return kRecordBytes + text.size();
    return kRecordBytes + text.size() + (streams ? kStreamBytes : 0) +
           (extra ? extra->body.size() + extra->history.bytes() : 0);
  }
  /// Null where it asked for no stream, or has ended.
  AnswerStream* answer() const { return extra ? extra->answer.get() : nullptr; }
  /// Its client has a part of its answer: it can never be run again.
  bool has_content() const { return answer() != nullptr && answer()->begun(); }
  bool ended() const { return state >= JobState::succeeded; }
  /// From the submit on where it was stated, else from the end of its delay.
  Duration timeout() const { return deadline - accepted_at + (extra ? extra->delay : Duration{}); }
  Flow& flow() const;
  std::string_view id() const { return text.get(JobText::id); }
  /// A client knows it by its id: it chose the id, or was told it.
  bool id_told() const {
    return client_named_it || reply != ReplyMode::result || text.get(JobText::ref).empty();
  }
};

static_assert(sizeof(Job) == 112);

/// From acceptance, or the end of the delay, to the last hand-over; of a job that waits, until now.
inline std::uint32_t waited_ms(const Job& job, TimePoint now) {
  if (job.state == JobState::running) return job.at_away().queued_ms;
  const bool begins_later = job.state == JobState::delayed && job.attempt == 0;
  return begins_later ? 0 : to_ms32(now - job.accepted_at);
}

}  // namespace lanemq::core
