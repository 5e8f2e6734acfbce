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

/// What clients are told, who waits for a job besides its submitter, and for whom a job goes on that is to be
/// cancelled when they are gone. It tells, and ends no job.
class Answers {
 public:
  /// Of a client that is gone, how long its jobs wait for it to come back, where they are cancelled without
  /// it.
  static constexpr Duration kOrphanPause = std::chrono::seconds(5);

  Answers(State& state, Journal& journal, Results& results, Dispatcher& dispatcher);
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

  // ---- answers
  void refuse(const Origin& to, wire::Raw ref, std::string_view id, const Refusal& why);
  /// What would have to wait for the disk as well.
  static const Refusal& disk_behind();
  /// Refuses what would wait for the disk, where more waits than may: true if it did. An answer that waits
  /// would come much later, and takes memory until then.
  bool refused_for_disk(const Origin& to, wire::Raw ref, std::string_view id);
  /// `position`: of the job in its queue; none for one that was known before. `eta_ms`: where that is known.
  void say_accepted(std::string_view id, const Lane& lane, bool durable, std::optional<std::size_t> position,
                    std::optional<std::int64_t> eta_ms, const Origin& to, wire::Raw ref);
  void say_status(const Record& record, const Origin& to, wire::Raw ref, TimePoint now);
  /// Where each of many jobs is, in the order of their ids: maps with the fields of a single status. An
  /// answer holds as many as fit into a header; who finds ids left out asks for those again.
  void say_statuses(const StatusAsked& event, TimePoint now);
  void say_unknown(std::string_view id, const Origin& to, wire::Raw ref);
  void say_terminal(const Terminal& end, const Origin& to, wire::Raw ref);
  /// How a job ended, and from where on its chunks are wanted: from memory, or when the store has been asked.
  void tell_end(const KeptResult& result, std::optional<std::int64_t> from_seq, const Origin& to,
                wire::Raw ref);
  /// The store has been.
  void result_read(const ResultRead& event);
  /// Why a reader cannot begin with a chunk, of a job whose chunks are kept from `first` on.
  static Refusal chunk_gone(std::string_view id, std::int64_t seq, std::int64_t first);

  // ---- who waits
  /// Whether one more request may wait for a job that was submitted before.
  std::optional<Refusal> no_room_to_wait(const Origin& from, wire::Raw ref, TimePoint now);
  void add_waiter(Job& job, const Origin& from, wire::Raw ref, std::optional<TimePoint> until);
  /// A fetch has waited long enough: it hears how far the job is.
  void end_waiting(Waiter& waiter, TimePoint now);
  void drop_waiters(Job& job);

  // ---- for whom a job goes on
  /// The job goes on for as long as somebody is left who asked for it: the connection is one from now on.
  void add_owner(Job& job, Connection& connection);
  void drop_owner(const Owner& owner);
  void drop_owners(Job& job);
  /// It spoke: whoever took it for gone was wrong.
  void note_life(Connection& connection);

 private:
  /// Who asked for a result that is read back from the store.
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
  std::map<std::uint64_t, std::vector<Asking>> asking_;  // by number of the result that is read back
  std::size_t asking_count_ = 0;
  std::unique_ptr<StoredDecoder> decoder_;  // of what is read back
  Buffer list_;
};

}  // namespace lanemq::core
