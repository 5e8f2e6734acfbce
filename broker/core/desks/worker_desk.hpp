// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "broker/core/base/event.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/jobs/job.hpp"
#include "broker/core/scheduler/workers.hpp"

namespace lanemq::core {

class Admission;
class Answers;
class Handover;
class JobLife;
class ProgressKeeper;
class Results;
struct State;
class Streams;
class Upstreams;

/// Handles the messages of workers, and their silence.
class WorkerDesk {
 public:
  WorkerDesk(State& state, Upstreams& upstreams, Results& results, Streams& streams, Handover& handover,
             JobLife& life, ProgressKeeper& progress, Admission& admission)
      : state_(state),
        upstreams_(upstreams),
        results_(results),
        streams_(streams),
        handover_(handover),
        life_(life),
        progress_(progress),
        admission_(admission) {}
  WorkerDesk(const WorkerDesk&) = delete;
  WorkerDesk& operator=(const WorkerDesk&) = delete;

  void on(const WorkerReady& event, TimePoint now);
  void on(const ChunkReported& event, TimePoint now);
  void on(const ProgressReported& event, TimePoint now);
  void on(const OutcomeReported& event, TimePoint now);
  void on(const FailureReported& event, TimePoint now);
  void on(const HeartbeatHeard& event, TimePoint now);
  void on(const WorkerLeaving& event, TimePoint now);
  void on(const WorkerHeard& event, TimePoint now);
  void on(const WorkerUnreachable& event, TimePoint now);
  void on(const WorkerDisconnected& event, TimePoint now);
  /// The worker's timer has fired: the worker is lost, or gets a heartbeat.
  void tick(Worker& worker, TimePoint now);
  void say_welcome(Worker& worker);

 private:
  /// What a refused call has shown about its key and budgets.
  struct Refused {
    bool key_left = false;                                ///< quota: another key of the pool is good
    Budgets::HeldBack holds = Budgets::HeldBack::nobody;  ///< limited: until then
    TimePoint until{};
  };

  // ---- sessions
  Worker* heard(std::string_view address, TimePoint now);
  void mend(Worker& worker);
  void say_unknown_session(std::string_view address);
  std::vector<Service*> services_named(const std::vector<std::string_view>& names);
  void come_back(Worker& worker, std::string_view address, TimePoint now);
  void tell_again(Worker& worker, TimePoint now);
  void lose(Worker& worker, bool dead, TimePoint now);
  void count_death(Job& job, bool alone, Lost& lost, TimePoint now);
  void keep_session(const Worker& worker, std::vector<Lost> jobs, TimePoint now);
  std::vector<Lost> take_lost(const WorkerReady& event, TimePoint now);
  void take_back_deaths(const std::vector<Lost>& jobs);
  bool goes_on(Worker& worker, wire::Lease lease, TimePoint now);
  void rest(Worker& worker, TimePoint now);
  void end_rest(Worker& worker);
  void note(Notice::Kind kind, const Worker& worker, std::size_t jobs);

  // ---- outcomes
  Job* leased(Worker& worker, std::uint64_t number, std::int64_t attempt);
  void refuse_chunk(Worker& worker, const wire::Chunk& chunk, const std::string& why);
  void say_stale(Worker& worker, std::uint64_t number, std::int64_t attempt);
  void ack(Worker& worker, wire::Lease lease);
  void flush_acks(Worker& worker);
  void settle(Job& job, const std::optional<wire::Usage>& usage, TimePoint now);
  Amounts used_by(const Job& job, const wire::Usage& usage, TimePoint now);
  void learn(const Job& job, const wire::Usage& usage);
  bool begin_to_learn(Job& job, const std::optional<wire::UpstreamLimits>& limits, TimePoint now);
  std::int64_t bounded(std::int64_t said, std::int64_t most, std::string_view what, const Job& job,
                       TimePoint now);

  // ---- failures
  Duration asked_pause(const Job& job, std::int64_t retry_after_ms, TimePoint now);
  void take_key(const Job& job, bool answered, TimePoint now);
  Refused take_refusal(Job& job, ErrorClass error_class, const wire::Failure& fields, TimePoint now);
  void take_failure(Job& job, ErrorClass error_class, const Refused& refused, const FailureReported& event,
                    TimePoint now);
  void retry_later(Job& job, const FailureReported& event, TimePoint now);
  void fail(Job& job, ErrorCode code, const FailureReported& event, TimePoint now,
            const std::string& why = {});

  // ---- inventories
  void check_inventory(Worker& worker, const wire::Heartbeat& inventory, TimePoint now);
  void requeue_missing(Job& job, TimePoint now);
  void drop_stray(Worker& worker, wire::Lease lease);

  State& state_;
  Upstreams& upstreams_;
  Results& results_;
  Streams& streams_;
  Handover& handover_;
  JobLife& life_;
  ProgressKeeper& progress_;
  Admission& admission_;
  /// The session of a worker that was taken for lost.
  struct LostSession {
    std::string name, key;  ///< of the session, and that its worker has shown
    TimePoint until{};
    std::vector<Lost> jobs;
  };
  std::deque<LostSession> lost_;           // the oldest first
  std::vector<std::string> told_unknown_;  // addresses that owe an inventory, a ring
  std::size_t told_unknown_next_ = 0;
  TimePoint bounded_told_at_ = kNever;  // the last notice of a number out of bounds; kNever: none
};

}  // namespace lanemq::core
