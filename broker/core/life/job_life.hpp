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
class Handover;
class Journal;
class Results;
struct State;
class Streams;
class Upstreams;

/// What a submit says whose job is to be cancelled when its client is gone.
inline constexpr std::string_view kOrphanCancel = "cancel";
/// What a submit says of what its job is not to wait for.
inline constexpr std::string_view kElsewhere = "end";

/// Of an id that the broker makes.
inline constexpr std::size_t kIdBytes = 26;

/// What a submit that is taken leads to.
struct Admitted {
  Lane* lane = nullptr;
  Client* client = nullptr;
  Connection* connection = nullptr;  ///< whom the answer goes to; null for nobody
  Service* service = nullptr;
  BudgetSet budgets{};
  Estimate estimate{};
  bool durable = false, spilled = false;
  bool redriven = false;                     ///< the store has it already, where it is durable
  std::optional<std::uint64_t> body_hash{};  ///< of what it was submitted with first, where redriven
  std::optional<std::size_t> body_bytes{};   ///< likewise, where that is in the store alone
};

/// The life of a job: accepted, queued, run again, over. The one place where a job ends.
class JobLife {
 public:
  enum class Requeue : std::uint8_t { costs_attempt, free };

  JobLife(State& state, Dispatcher& dispatcher, Upstreams& upstreams, Journal& journal, Results& results,
          Answers& answers, Streams& streams, Handover& handover);
  JobLife(const JobLife&) = delete;
  JobLife& operator=(const JobLife&) = delete;

  Job& accept(const Submitted& event, const Admitted& admitted, ReplyMode mode, TimePoint now);
  /// Its timer has fired: its time is over, or its delay.
  void come_due(Job& job, TimePoint now);
  /// A job whose attempt is over without success, and that has left its place, waits until `due`.
  void requeue(Job& job, Requeue how, TimePoint due, TimePoint now);
  /// The call that the job was handed over for is over; a job that had ended meanwhile is gone.
  void leave_place(Job& job, Verdict verdict, TimePoint now);

  /// The one way in which a job ends: whoever waits for it is told, once, and its result is kept for those
  /// who ask later. A job that ends while it runs keeps its place until its worker says so; any other is
  /// gone.
  void end(Job& job, JobState state, std::unique_ptr<Ending> ending, const Blob& body, TimePoint now);
  void end_with(Job& job, JobState state, ErrorCode code, std::string message, TimePoint now);
  void expire(Job& job, TimePoint now);
  /// A job whose client has a part of its answer is never run again: its worker cannot end it any more.
  void fail_broken_stream(Job& job, TimePoint now);
  /// Ends a queued job whose upstream takes nobody before its time is over: it hears so now, as if it had
  /// been refused itself. False: somebody may be taken, and it waits on.
  bool end_if_shut_out(Job& job, TimePoint now);
  /// A limit was lowered since the job was taken in: it would wait for ever, and keep all behind it waiting.
  void end_unsatisfiable(const Pick& pick, TimePoint now);
  /// Its last owner has stopped reading it.
  void cancel_unread(Job& job, TimePoint now);
  /// Its client is gone: what it owned has one owner less, and is cancelled where that was the last. What it
  /// owned beyond a part of it is for the next tick, so that others are served in between.
  void leave_owned(Connection& connection, TimePoint now);
  /// The body of a job that was handed over has been read, or is not there.
  void take_body(const BodyRead& event, TimePoint now);
  /// Upstreams are shut for longer than they were: all jobs are looked at for those that wait in vain.
  void sweep_soon() { sweep_is_due_ = true; }
  /// Does a part of that, where it is due. Such jobs end wherever they stand.
  void sweep(TimePoint now);
  /// When sweep() wants to be called; kNever: when something has changed.
  TimePoint next_wakeup() const;
  /// The broker stops: what is not on disk and waits ends now.
  void drain(TimePoint now);
  /// Likewise what runs still; for when the time to finish is over.
  void give_up_running(TimePoint now);

  // For whoever brings a job back that was accepted in another life.
  /// Whether a body is packed with the texts of its job.
  static bool packed(const Blob& body);
  /// The texts of a job; `body` is its body where that is in memory. Views, also of `extras`, which holds
  /// one.
  static JobText::Parts texts_of(const wire::Submit& fields, std::string_view id, std::string_view envelope,
                                 const Blob& body, std::string& extras);
  /// What of a job never changes besides its texts; then it counts.
  void fill(Job& job, const wire::Submit& fields, const Blob& body);

 private:
  std::optional<std::uint64_t> kept_hash_of(const Submitted& event, const Admitted& admitted) const;
  std::string make_id(TimePoint now);
  // The steps of end(), in their order; between the last two the result is kept and written
  // (Results::keep()).
  void leave(Job& job, Terminal& how, TimePoint now);
  void tell_end(Job& job, const Terminal& how);
  void let_go(Job& job, std::size_t bytes);
  void erase(Job& job, std::size_t bytes);

  State& state_;
  Dispatcher& dispatcher_;
  Upstreams& upstreams_;
  Journal& journal_;
  Results& results_;
  Answers& answers_;
  Streams& streams_;
  Handover& handover_;
  bool sweep_is_due_ = false;
  std::size_t sweep_from_ = 0;  // the place from which on it goes on
  TimePoint sweep_not_before_{};
};

}  // namespace lanemq::core
