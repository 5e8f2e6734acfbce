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
#include "broker/core/base/mark.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/base/timer_wheel.hpp"
#include "broker/core/budgets/budgets.hpp"
#include "broker/core/budgets/circuit_breaker.hpp"
#include "broker/core/budgets/estimates.hpp"
#include "broker/core/jobs/answer_stream.hpp"
#include "broker/core/jobs/dead_job.hpp"
#include "broker/core/jobs/job_text.hpp"
#include "broker/core/jobs/owner.hpp"
#include "broker/core/jobs/progress.hpp"
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

/// The `limited` or `spent` of a submit whose job does not wait for that.
inline constexpr std::string_view kElsewhere = "end";

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

/// A peer besides the first submitter that is to hear how a job ends: it submitted the job again, or waits in
/// a fetch.
struct Waiter {
  Timer timer{TimerOwner::waiter, this};  ///< set for a fetch: the time to answer with a status
  Job* job = nullptr;
  std::size_t at = 0;  ///< its place among the job's waiters
  Connection* connection = nullptr;
  std::string envelope, ref;

  /// Its share of the byte bounds.
  std::size_t bytes() const { return sizeof(Waiter) + envelope.size() + ref.size(); }
};

/// How a job ended, where its body does not say all.
struct Ending {
  ErrorCode code = ErrorCode::internal;
  std::string message;
  std::optional<Duration> retry_after;
  std::optional<wire::Usage> usage;
  std::optional<std::int64_t> upstream_status;  ///< the HTTP status, where the upstream sent one
  std::int64_t chunks = 0;                      ///< chunks of a streamed answer that were sent
};

inline Expected expected_of(const Estimate& estimate) {
  return {.input_tokens = static_cast<std::uint32_t>(estimate.amounts.input_tokens),
          .output_tokens = static_cast<std::uint32_t>(estimate.amounts.output_tokens),
          .raw_input = estimate.raw_input};
}
/// The amounts for a job's texts; none where no budget counts tokens.
inline std::optional<Expected> stated(const Expected& expected) {
  return expected == Expected{} ? std::nullopt : std::optional(expected);
}

/// The size of a body that only the store has, kept where the body would be.
class StoredSize {
 public:
  explicit StoredSize(std::size_t size) : size_(static_cast<std::uint32_t>(size)) {}
  /// Valid as long as this object.
  Blob blob() const { return Blob::borrow({reinterpret_cast<const char*>(&size_), sizeof size_}); }
  static std::size_t of(std::string_view text) {
    std::uint32_t size = 0;
    if (text.size() == sizeof size) std::memcpy(&size, text.data(), sizeof size);
    return size;
  }

 private:
  std::uint32_t size_;
};

/// The part of a job that exists only while it is delayed, runs, or has ended and keeps its place. Millions
/// of queued jobs do without. Lives in the JobTable.
struct Away {
  explicit Away(Job& of) : job(of) {}

  Job& job;
  ListHook<Away> hook;        ///< among its worker's leases, or the delayed jobs
  Worker* worker = nullptr;   ///< set while the job holds a place
  TimePoint due{};            ///< delayed: when it may be queued again
  TimePoint dispatched_at{};  ///< the last hand-over
  Reservation reservation;
  std::int64_t charged = 0;       ///< to its client, for this attempt
  std::uint64_t model = kNoMark;  ///< running: its model's mark
  std::optional<std::uint64_t>
      streamed_bytes{};  ///< bytes of a streamed answer after the job's end, where known
  std::uint32_t queued_ms = 0;
  CircuitBreaker::Period called_in = CircuitBreaker::kNoPeriod;  ///< the period of its service's breaker
  /// The period of its model's breaker, where the model failed alone.
  CircuitBreaker::Period model_called_in = CircuitBreaker::kNoPeriod;
  std::uint8_t missing = 0;     ///< inventories in a row that did not list it
  bool reserved_place = false;  ///< the place it holds is a reserved worker's
  bool body_awaited = false;    ///< runs, but its worker gets the offer when its body was read back
  bool offer_waited = false;    ///< its offer waited for the disk, so its cancel must wait, too
  std::uint32_t lent = 0;       ///< bytes of its body that was read back, until the worker confirms it
};

static_assert(std::is_trivially_destructible_v<Away>);

/// The jobs that a worker held when it was lost: any of them may be why (Isolation).
using Company = std::uint32_t;
inline constexpr Company kNoCompany = 0;

/// One job, from its acceptance until it has ended and its place is free. Lives in the JobTable.
struct Job final : Record {
  /// Fields that few jobs have.
  struct Extra {
    std::optional<wire::Cost> cost;  ///< as the client stated it
    Blob body;                       ///< a body that is too large for `text`
    Duration delay{};                ///< of the submit: the stated timeout began before it
    Expected expected;               ///< where `text` has no room for it
    std::string key;                 ///< of an adoptable job: the key that its worker has
    std::vector<std::unique_ptr<Waiter>> waiters;
    std::uint8_t crashes = 0;                         ///< workers that were lost with it alone
    bool missed : 1 = false;                          ///< one of its hand-overs never arrived
    bool waits_alone : 1 = false;                     ///< queued, and takes no turn; kept by Isolation
    std::uint8_t shared_deaths : 6 = 0;               ///< that do not count against attempts_max
    std::uint16_t refused_key = Reservation::kNoKey;  ///< of key_refused: the key, where known
    Company company = kNoCompany;                     ///< those with whom it was when a worker was lost
    std::optional<TimePoint> waits_again_since;       ///< of one whose waits are told: its last requeue
    History history;                                  ///< of its attempts
    std::unique_ptr<AnswerStream> answer;             ///< set where the client asked for a stream
    std::unique_ptr<Progress> progress;               ///< set once this attempt's worker has said any
    /// The clients of a job that is cancelled when it has no client left.
    std::vector<std::unique_ptr<Owner>> owners;
  };
  /// A job's share of the byte bounds without its texts: the record, the fixed part behind it, and its share
  /// of the indexes.
  static constexpr std::size_t kRecordBytes = 192;
  /// A streamed answer's share of the byte bounds without its chunks.
  static constexpr std::size_t kStreamBytes = sizeof(AnswerStream) + sizeof(StreamReader);
  /// The share of an Extra that a job has from the start, with its place at the allocator, and about half of
  /// an owner: of two that have one, one states a cost and the other names its orphan.
  static constexpr std::size_t kExtraBytes = sizeof(Extra) + 64;
  static constexpr std::uint64_t kArrivalMax = (std::uint64_t{1} << 48) - 1;

  Job() : Record(false) {}

  // Millions may be queued: every byte counts, and this order needs no padding.
  std::uint32_t attempt = 0;   ///< hand-overs, the fence
  std::uint16_t attempts = 0;  ///< hand-overs that cost one
  std::uint16_t attempts_max = 0;
  std::uint64_t arrival : 48 = 0;  ///< its rank: lower numbers go first; kept through every retry
  LaneIndex lane : 8 = 0;
  LaneIndex submitted_lane : 8 = 0;  ///< as submitted; an operator may have moved the job
  TimePoint accepted_at{};           ///< of the submit, or of the end of its delay
  TimePoint deadline{};
  /// Queued jobs need one field here, all others two.
  union {
    ListHook<Job> hook{};  ///< queued: in its flow
    struct {
      Away* away;
      KeptResult* result;  ///< set when it has ended, while its result is kept
    } unqueued;
  };
  Timer timer{TimerOwner::job, this};
  std::unique_ptr<Extra> extra;
  Connection* connection = nullptr;  ///< of the first submit; holds a reference
  ClientQueue* queue = nullptr;      ///< of its client, in its flow
  Retention retain;
  JobState state : 3 = JobState::queued;
  ReplyMode reply : 2 = ReplyMode::result;
  bool client_named_it : 1 = false;
  bool timeout_stated : 1 = false;  ///< the client stated it; else the lane's counts
  bool streams : 1 = false;         ///< its client asked for a streamed answer
  bool returned : 1 = false;        ///< in its flow's list of returned jobs
  bool durable : 1 = false;         ///< the store has it
  bool body_stored : 1 = false;     ///< only the store has its body
  bool ends_limited : 1 = false;    ///< the client does not want it to wait for an upstream's pause
  bool key_refused : 1 = false;     ///< an upstream refused one of its keys
  bool estimate_rough : 1 = false;  ///< made anew when its turn comes, or its body
  bool adoptable : 1 = false;       ///< ran when the broker stopped; delayed until its worker names it
  bool extra_counts : 1 = false;    ///< it had an Extra from the start, which counts in bytes()
  JobText text;                     ///< the last: what it holds stands behind the job

  /// Null while it is queued, and where it ended without a place.
  Away* away() const { return state == JobState::queued ? nullptr : unqueued.away; }
  /// Requires: it is delayed, runs, or keeps a place.
  Away& at_away() const {
    LANEMQ_CHECK(away() != nullptr);
    return *unqueued.away;
  }
  /// The worker whose place it holds; null: none.
  Worker* worker() const { return away() == nullptr ? nullptr : unqueued.away->worker; }
  /// Whether it runs, but its worker gets the offer when its body was read back.
  bool body_awaited() const { return away() != nullptr && unqueued.away->body_awaited; }
  /// Null unless the job has ended and its result is kept.
  KeptResult* result() const { return state == JobState::queued ? nullptr : unqueued.result; }

  Extra& need_extra() {
    if (!extra) extra = std::make_unique<Extra>();
    return *extra;
  }
  /// The request's body where it is in memory; valid until the job is changed.
  Blob body() const {
    if (body_stored) return {};
    return extra && !extra->body.empty() ? extra->body : Blob::borrow(text.get(JobText::body));
  }
  /// Size of the request's body, wherever that is.
  std::size_t body_bytes() const {
    return body_stored ? StoredSize::of(text.get(JobText::body)) : body().size();
  }
  /// The tokens that it is expected to take; 0 where no budget counts them.
  Expected expected() const {
    return text.has_expected() ? text.expected() : extra ? extra->expected : Expected{};
  }
  void set_expected(const Expected& expected) {
    if (text.has_expected())
      text.set_expected(expected);
    else if (extra || expected != Expected{})
      need_extra().expected = expected;
  }
  /// By this cost lanes, flows and clients share.
  std::int64_t cost() const { return cost_of(expected().amounts()); }
  bool waits_alone() const { return extra && extra->waits_alone; }
  /// Whether its attempts are spent.
  bool attempts_spent() const { return attempts >= attempts_max + (extra ? extra->shared_deaths : 0); }
  std::uint8_t crashes() const { return extra ? extra->crashes : std::uint8_t{0}; }
  /// Its share of the byte bounds.
  std::size_t bytes() const {
    if (ended()) return kRecordBytes + text.size();
    return kRecordBytes + text.size() + (streams ? kStreamBytes : 0) + (extra_counts ? kExtraBytes : 0) +
           (extra ? extra->body.size() + extra->history.bytes() : 0) + (progress() ? progress()->bytes() : 0);
  }
  /// The progress that its worker has reported; null: nothing yet.
  Progress* progress() const { return extra ? extra->progress.get() : nullptr; }
  /// Its worker is about to hear that it may send more chunks: if it had to wait for that, its silence begins
  /// now. Requires: answer() is not null.
  void note_window(TimePoint now) const {
    if (progress() != nullptr && answer()->holds_worker()) progress()->heard_at = now;
  }
  /// Null where the client asked for no stream, or the job has ended.
  AnswerStream* answer() const { return extra ? extra->answer.get() : nullptr; }
  /// Whether its client has part of the answer, so that it cannot run again.
  bool has_content() const { return answer() != nullptr && answer()->begun(); }
  bool ended() const { return state >= JobState::succeeded; }
  /// Counted from the submit if the client stated it, else from the end of the delay.
  Duration timeout() const { return deadline - accepted_at + (extra ? extra->delay : Duration{}); }
  Flow& flow() const;
  std::string_view id() const { return text.get(JobText::id); }
  /// Whether a client knows the id: it chose it, or was told it.
  bool id_told() const {
    return client_named_it || reply != ReplyMode::result || text.get(JobText::ref).empty();
  }
};

static_assert(sizeof(Job) == 112);

/// From acceptance, or the end of the delay, to the last hand-over; of a waiting job to `now`.
inline std::uint32_t waited_ms(const Job& job, TimePoint now) {
  if (job.state == JobState::running) return job.at_away().queued_ms;
  const bool begins_later = job.state == JobState::delayed && job.attempt == 0;
  return begins_later ? 0 : to_ms32(now - job.accepted_at);
}

}  // namespace lanemq::core
