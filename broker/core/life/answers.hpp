// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lanemq/codec.hpp>

#include "broker/core/base/event.hpp"
#include "broker/core/base/refusal.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/jobs/job.hpp"
#include "broker/core/jobs/kept_result.hpp"
#include "broker/core/jobs/stored.hpp"
#include "broker/core/scheduler/connections.hpp"
#include "broker/core/scheduler/dispatcher.hpp"

namespace lanemq::core {

class Journal;
class Results;
struct State;

/// Answers clients' requests. Knows the clients that wait for a job besides its submitter, and the owners of
/// jobs that are cancelled without owners. Ends no job.
class Answers {
 public:
  /// How long the broker waits for a client that seems gone, before it cancels jobs that nobody else owns.
  static constexpr Duration kOrphanPause = std::chrono::seconds(5);

  Answers(State& state, Journal& journal, Results& results, Dispatcher& dispatcher);
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

  // ---- answers
  void refuse(const Origin& to, wire::Raw ref, std::string_view id, const Refusal& why);
  /// The refusal of a request that would have to wait for the disk, whose backlog is too long.
  static const Refusal& disk_behind();
  /// The refusal while another broker may own the store.
  static const Refusal& another_owns();
  /// Refuses a request whose answer would wait for the store while more waits than may (it would come late
  /// and use memory until then), or while another broker may own it. True if refused.
  bool refused_for_store(const Origin& to, wire::Raw ref, std::string_view id);
  /// Answers a submit of a known job as a duplicate. `ignored`: fields of the submit that have no effect.
  void say_duplicate(const Record& known, const Lane& lane, std::vector<std::string_view> ignored,
                     const Origin& to, wire::Raw ref);
  /// `position`: of the job in its queue. `eta_ms`: where known.
  void say_accepted(std::string_view id, const Lane& lane, bool durable, std::size_t position,
                    std::optional<std::int64_t> eta_ms, const Origin& to, wire::Raw ref);
  void say_status(const Record& record, const Origin& to, wire::Raw ref, TimePoint now);
  /// Answers with the states of many jobs, in the order of the ids asked for: maps with the fields of a
  /// single status. An answer holds as many as fit a header; the client asks again for ids that it lacks.
  void say_statuses(const StatusAsked& event, TimePoint now);
  void say_unknown(std::string_view id, const Origin& to, wire::Raw ref);
  void say_terminal(const Terminal& end, const Origin& to, wire::Raw ref);
  /// Tells how a job ended, and sends its chunks from `from_seq` on: now, or once the store was read.
  void tell_end(const KeptResult& result, std::optional<std::int64_t> from_seq, const Origin& to,
                wire::Raw ref);
  /// The store was read: answers the requests that wait for this result.
  void result_read(const ResultRead& event);
  /// The refusal of a reader that wants a chunk before `first`, the oldest one kept.
  static Refusal chunk_gone(std::string_view id, std::int64_t seq, std::int64_t first);

  // ---- who waits
  /// Refuses a request that would wait for a known job, where too many wait.
  std::optional<Refusal> no_room_to_wait(const Origin& from, wire::Raw ref, TimePoint now);
  void add_waiter(Job& job, const Origin& from, wire::Raw ref, std::optional<TimePoint> until);
  /// A fetch has waited its time: answers with the job's state.
  void end_waiting(Waiter& waiter, TimePoint now);
  void drop_waiters(Job& job);

  // ---- for whom a job goes on
  /// Makes the connection an owner of the job, which goes on while it has owners.
  void add_owner(Job& job, Connection& connection);
  void drop_owner(const Owner& owner);
  void drop_owners(Job& job);
  /// The connection has sent something, so it is not gone.
  void note_life(Connection& connection);

 private:
  /// A request that waits for a result to be read from the store.
  struct Asking {
    std::string id, address, envelope, ref;
    std::optional<std::int64_t> from_seq;
  };

  void fill_status(wire::StatusReply& reply, Dispatcher::Wait& wait, const Record& record, TimePoint now);
  void replay(const Terminal& end, const AnswerStream* stream, std::int64_t from_seq, const Origin& to,
              wire::Raw ref);
  void drop_waiter(Waiter& waiter);

  State& state_;
  Journal& journal_;
  Results& results_;
  Dispatcher& dispatcher_;
  std::map<std::uint64_t, std::vector<Asking>> asking_;  // by the number of the result
  std::size_t asking_count_ = 0;
  std::unique_ptr<StoredDecoder> decoder_;  // of results that were read
  Buffer list_;
};

}  // namespace lanemq::core
