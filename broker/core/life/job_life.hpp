// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "broker/core/base/event.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/budgets/circuit_breaker.hpp"
#include "broker/core/budgets/estimates.hpp"
#include "broker/core/jobs/job.hpp"
#include "broker/core/jobs/kept_result.hpp"
#include "broker/core/scheduler/connections.hpp"
#include "broker/core/scheduler/dispatcher.hpp"

namespace lanemq::core {

class Answers;
struct Group;
class Groups;
class Handover;
class Journal;
class Results;
struct State;
class Streams;
class Upstreams;
class Watchers;
class Webhooks;

/// The `orphan` of a submit whose job is cancelled when its client is gone.
inline constexpr std::string_view kOrphanCancel = "cancel";

/// Bytes of an id that the broker makes.
inline constexpr std::size_t kIdBytes = 26;

/// Admission's findings about a submit that is taken.
struct Admitted {
  Lane* lane = nullptr;
  Client* client = nullptr;
  Connection* connection = nullptr;  ///< gets the answer; null: nobody does
  Service* service = nullptr;
  BudgetSet budgets{};
  Estimate estimate{};
  bool durable = false, spilled = false;
  bool redriven = false;  ///< a dead job; if durable, its row is in the store already
  bool owed = false;  ///< the broker makes it itself, in the turn of an end: a durable one is in that commit
  std::optional<std::uint64_t> body_hash{};  ///< of a redriven job: of its first submit
  std::optional<std::size_t> body_bytes{};   ///< of a redriven job whose body only the store has
};

/// The life of a job: accepted, queued, run again, over. JobLife alone ends jobs.
class JobLife {
 public:
  enum class Requeue : std::uint8_t {
    costs_attempt,
    costs_turn,  ///< no attempt, but its client has had its turn
    free,        ///< it was not served at all
  };

  JobLife(State& state, Dispatcher& dispatcher, Upstreams& upstreams, Journal& journal, Results& results,
          Answers& answers, Groups& groups, Streams& streams, Handover& handover, Watchers& watchers,
          Webhooks& webhooks);
  JobLife(const JobLife&) = delete;
  JobLife& operator=(const JobLife&) = delete;

  Job& accept(const Submitted& event, const Admitted& admitted, ReplyMode mode, TimePoint now);
  /// The job's timer has fired: its deadline, or its delay, is over.
  void come_due(Job& job, TimePoint now);
  /// The group's timer has fired.
  void come_due(Group& group, TimePoint now);
  /// Tells clients that wait for groups that were given up before they were over.
  void tell_given_up(TimePoint now);
  /// An attempt ended without success and the job has left its place: it waits until `due`. `why`: for its
  /// watchers.
  void requeue(Job& job, Requeue how, std::string_view why, TimePoint due, TimePoint now);
  /// The job was handed over, but the offer is not sent to its worker: it goes back to its place.
  void take_back_unsent(const HandoverVoid& event, TimePoint now);
  /// The job's call is over: frees its place, and erases the job if it has ended.
  void leave_place(Job& job, Verdict verdict, TimePoint now);

  /// Ends a job: tells the clients that wait, once, and keeps the result for those that ask later. A running
  /// job keeps its place until its worker reports; any other job is destroyed.
  void end(Job& job, JobState state, std::unique_ptr<Ending> ending, const Blob& body, TimePoint now);
  void end_with(Job& job, JobState state, ErrorCode code, std::string message, TimePoint now);
  void expire(Job& job, TimePoint now);
  /// Fails a job whose worker is gone and whose client has part of the answer: it cannot run again.
  void fail_broken_stream(Job& job, TimePoint now);
  /// Ends a queued job whose upstream is paused beyond the job's deadline, as if the upstream had refused it.
  /// False: a call may be possible earlier, and the job waits on.
  bool end_if_shut_out(Job& job, TimePoint now);
  /// Ends a job that a lowered limit can never grant: it and all jobs behind it would wait for ever.
  void end_unsatisfiable(const Pick& pick, TimePoint now);
  /// Cancels a job whose last owner has stopped reading it.
  void cancel_unread(Job& job, TimePoint now);
  /// The connection is gone: removes it from the owners of its jobs, and cancels those without owners. At
  /// most kOwnedInATurn now, the rest from the next tick on.
  void leave_owned(Connection& connection, TimePoint now);
  /// A job's body was read from the store, or is missing.
  void take_body(const BodyRead& event, TimePoint now);
  /// Upstreams are shut for longer than before: has all jobs checked for those that wait in vain.
  void sweep_soon() { sweep_.due = true; }
  /// Checks a part of the jobs, where a sweep is due, and ends those that wait in vain.
  void sweep(TimePoint now);
  /// When sweep() wants to be called; kNever: only after a change.
  TimePoint next_wakeup() const;
  /// The broker stops: ends waiting jobs that are not durable.
  void drain(TimePoint now);
  /// Ends running jobs that are not durable, when the time to finish is over.
  void give_up_running(TimePoint now);

  /// Whether a job has an Extra from the start.
  static bool has_extra(const wire::Submit& fields, const Blob& body) {
    return fields.cost || fields.stream || fields.orphan == kOrphanCancel || !packed(body);
  }

  // For Restorer, which brings jobs of an earlier life back:
  /// Whether a body is packed with the job's texts.
  static bool packed(const Blob& body);
  /// The texts of a job; `body`: where it is in memory. Views, one of them of `extras`.
  static JobText::Parts texts_of(const wire::Submit& fields, std::string_view id, std::string_view envelope,
                                 const Blob& body, std::string& extras);
  /// Sets what never changes of a job besides its texts, and counts the job.
  void fill(Job& job, const wire::Submit& fields, const Blob& body);

 private:
  std::optional<std::uint64_t> kept_hash_of(const Submitted& event, const Admitted& admitted) const;
  std::string make_id(const Identity* owner, TimePoint now);
  void set_times(Job& job, const wire::Submit& fields, TimePoint now);
  void begin_waiting(Job& job, TimePoint now);
  void hand_back(Job& job, std::string_view why, TimePoint now);
  // The steps of end(), in order. Between the last two the result is kept and written (Results::keep()).
  void leave(Job& job, Terminal& how, TimePoint now);
  void tell_end(Job& job, const Terminal& how);
  void leave_group(const Job& job, bool dead, TimePoint now);
  void tell_over(const Group& group, TimePoint now);
  void let_go(Job& job, std::size_t bytes);
  void erase(Job& job, std::size_t bytes);

  State& state_;
  Dispatcher& dispatcher_;
  Upstreams& upstreams_;
  Journal& journal_;
  Results& results_;
  Answers& answers_;
  Groups& groups_;
  Streams& streams_;
  Handover& handover_;
  Watchers& watchers_;
  Webhooks& webhooks_;
  struct Sweep {
    bool due = false;
    std::size_t from = 0;  ///< the place to continue from
    TimePoint not_before{};
  };
  Sweep sweep_;
};

}  // namespace lanemq::core
