// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include <lanemq/blob.hpp>
#include <lanemq/error_table.hpp>
#include <lanemq/messages.hpp>

#include "broker/core/base/intrusive_list.hpp"
#include "broker/core/base/mark.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/base/timer_wheel.hpp"
#include "broker/core/jobs/dead_job.hpp"
#include "broker/core/jobs/fifo_arena.hpp"
#include "broker/core/jobs/job.hpp"
#include "broker/core/jobs/record.hpp"

namespace lanemq::core {

/// How a job ended, as a client is told. Views: valid as long as their source.
struct Terminal {
  std::string_view id;
  bool client_named_it = false;
  bool id_told = false;
  LaneIndex lane = 0;
  JobState state = JobState::succeeded;
  std::uint16_t attempts = 0;
  std::uint32_t queued_ms = 0, ran_ms = 0;
  const Ending* ending = nullptr;
  Blob body;
};

/// The record of an ended job, for clients that ask later. One block with its texts behind it, written once:
/// results are many and rarely read. Made by KeptResults.
struct KeptResult final : Record {
  /// What a result counts against the byte bounds besides its texts: the record, and its index entries.
  static constexpr std::size_t kRecordBytes = 128;
  /// A larger body of a durable job stands apart, so that memory can drop it and leave it to the store.
  static constexpr std::size_t kInlineBytesMax = 256;

  Terminal terminal() const;
  std::string_view id() const { return {texts(), id_size}; }
  std::string_view model() const { return {texts() + id_size, model_size}; }
  /// The name of the job's service, as text: what is kept of jobs holds no service.
  std::string_view service() const { return {texts() + id_size + model_size, service_size}; }
  /// Its share of the byte bounds; constant while it is kept.
  std::size_t bytes() const;

  /// Bytes in its place. A large body and the kept part of a stream are allocated apart, and stay there when
  /// it moves.
  std::size_t place_bytes() const {
    return kRecordBytes + names_size() + body_size + (body_loose ? body_bytes : 0);
  }

  /// Bytes that memory can drop because the store has them: body, kept stream, and how it succeeded.
  std::size_t loose_bytes() const;

  /// Whether it is kept for a time of its own, and not for the usual one.
  bool apart() const { return extra && extra->apart != nullptr; }

  /// The dead job's record; null: it is not dead.
  DeadJob* dead() const { return extra ? extra->dead.get() : nullptr; }

  /// The kept part of a streamed answer; null: nothing.
  const AnswerStream* answer() const { return extra ? extra->answer.get() : nullptr; }

  /// Fields that few results have.
  struct Extra {
    std::unique_ptr<Ending> ending;
    std::unique_ptr<AnswerStream> answer;
    std::unique_ptr<DeadJob> dead;          ///< as given to KeptResults::bury()
    Blob body;                              ///< where too large for the place behind the record
    Timer timer{TimerOwner::result, this};  ///< for the holder, where the result is apart
    KeptResult* apart = nullptr;            ///< the result itself, where it is apart
    TimePoint ended_at{};                   ///< where it is apart
    ListHook<Extra> of_holder;              ///< where it is apart: among its client's
  };

  std::uint32_t attempt = 0;  ///< of the last hand-over
  std::uint16_t attempts = 0;
  LaneIndex lane = 0;
  JobState state = JobState::succeeded;
  ListHook<KeptResult> hook;  ///< among results of its kind
  TimePoint due{};            ///< the time to forget it
  Job* job = nullptr;         ///< set while the job still has its place
  std::uint64_t body_hash = 0;
  std::unique_ptr<Extra> extra;
  std::uint32_t queued_ms = 0, ran_ms = 0;
  std::uint16_t id_size = 0, model_size = 0, service_size = 0, body_size = 0;
  LaneIndex submitted_lane = 0;
  bool client_named_it : 1 = false;
  bool id_told : 1 = false;              ///< a client knows the job by its id
  bool durable : 1 = false;              ///< the store has it
  bool body_stored : 1 = false;          ///< only the store has its loose bytes
  bool alone : 1 = false;                ///< has memory of its own
  bool body_loose : 1 = false;           ///< its body stands apart and may be left to the store
  bool pointer_behind : 1 = false;       ///< its body stood apart; the pointer's room is still there
  std::uint32_t body_bytes = 0;          ///< size of its body, wherever that is
  std::uint32_t holder = kNobody;        ///< its client, among KeptResults' holders
  KeptResult* next_of_holder = nullptr;  ///< the client's next result of the usual time

  static constexpr std::uint32_t kNobody = std::numeric_limits<std::uint32_t>::max();

 private:
  friend class KeptResults;
  KeptResult() : Record(true) {}
  KeptResult(KeptResult&&) = default;
  ~KeptResult() = default;

  std::size_t names_size() const { return std::size_t{id_size} + model_size + service_size; }
  /// Behind the record: its id, its model, its service, and its body or the address of that.
  const char* texts() const { return reinterpret_cast<const char*>(this + 1); }
  char* texts() { return reinterpret_cast<char*>(this + 1); }
  const char* loose_body() const {
    const char* body = nullptr;
    std::memcpy(&body, texts() + names_size(), sizeof body);
    return body;
  }
};
static_assert(sizeof(KeptResult) == 104);

/// How much one client may hold before its own results go first; 0: no bound.
struct ResultShare {
  std::size_t results = 0, bytes = 0;
  bool any() const { return results > 0 || bytes > 0; }
};

/// The kept results, the oldest first, in three kinds: those of the usual time, which leave in the order in
/// which they came; those apart; and those of dead jobs. Owns them.
///
/// The loose bytes of durable results may be left to the store, the oldest first. A client that holds more
/// than its share makes room among its own results before others' go.
class KeptResults {
 public:
  /// A client's share of the byte bounds while it has results and results are shared.
  static constexpr std::size_t kHolderBytes = 128;

  /// `retain`: the usual time.
  explicit KeptResults(Duration retain = {}, ResultShare share = {}) : retain_(retain), share_(share) {}
  ~KeptResults();
  KeptResults(const KeptResults&) = delete;
  KeptResults& operator=(const KeptResults&) = delete;

  /// The fields kept of a job besides its end. Views.
  struct Of {
    JobNumber number{};
    std::uint32_t attempt = 0;
    LaneIndex submitted_lane = 0;
    bool durable = false;
    std::uint64_t body_hash = 0;
    std::string_view service, model;
    std::uint64_t client = kNoMark;  ///< mark of the client's name
  };
  /// `client`: mark of the client's name.
  static Of of(const Job& job, std::string_view service, std::uint64_t client, std::uint64_t body_hash);
  /// Keeps how a job ended; `apart`: for a time of its own. A large body is shared if it owns its bytes, else
  /// copied. `answer`: what is kept of a stream.
  KeptResult& add(const Of& of, const Terminal& end, std::unique_ptr<Ending> ending, bool apart,
                  std::unique_ptr<AnswerStream> answer = nullptr);
  /// Further fields of a restored result.
  struct Restored {
    std::size_t body_bytes =
        0;  ///< used where the end has no body: only the store has it, and what else is loose
    TimePoint ended_at{}, due{};
    bool dead = false;  ///< bury() follows
  };
  /// Adds a result of an earlier life of the broker, in any order.
  KeptResult& restore(const Of& of, const Terminal& end, std::unique_ptr<Ending> ending,
                      const Restored& restored);
  /// Sorts restored results by age into their lists, and calls `tell` with each.
  template <class Tell>
  void list_restored(Tell tell) {
    std::stable_sort(restored_.begin(), restored_.end(), [this](const KeptResult* a, const KeptResult* b) {
      return ended_at(*a) < ended_at(*b);
    });
    for (KeptResult* const result : std::exchange(restored_, {})) {
      push_back(*result);
      tell(*result);
    }
  }
  /// Marks the result as that of a dead job. Requires: it is apart and not dead.
  void bury(KeptResult& result, std::unique_ptr<DeadJob> job);
  /// Takes the dead job out of its result, which is then not dead any more.
  std::unique_ptr<DeadJob> exhume(KeptResult& result);
  /// Drops what is kept of its stream. Requires: it is dead.
  void shed_answer(KeptResult& result);
  /// The result that makes way next: the oldest of a client above its share, else the oldest of all. Null:
  /// there is none.
  KeptResult* next_to_go() const;
  /// Whether a result that is not dead has its job's place for itself: its going would free one. Looks
  /// through those whose jobs still hold places at workers.
  bool any_holds_a_place() const;
  /// Moves the results that stay out of the memory before `result`, which is freed in order; calls `tell`
  /// with each at its new address. Each moves once at most. `bytes_left` is lowered by what moves; false
  /// where it is used up before all have moved.
  template <class Tell>
  bool pass_over_for(const KeptResult& result, std::size_t& bytes_left, Tell tell) {
    if (result.alone) return true;
    while (usual_.front() != &result) {
      if (bytes_left == 0) return false;
      KeptResult& next = *usual_.front();
      bytes_left -= std::min(bytes_left, next.place_bytes());
      tell(move_out(next));
    }
    return true;
  }
  /// Destroys a result. Requires: it is apart, or the oldest of the usual ones, or those before it were
  /// passed over.
  void remove(KeptResult& result);

  /// The oldest result of the usual time; null: none.
  KeptResult* oldest() const { return passed_over_.empty() ? usual_.front() : passed_over_.front(); }
  /// The result whose job ended first, of the usual time or apart.
  KeptResult* oldest_of_all() const;
  /// The time by which results apart are ordered among the others, whose times are timers': the job's end, to
  /// the millisecond.
  TimePoint mark(TimePoint ended_at) const { return TimerWheel::fires_at(ended_at + retain_) - retain_; }
  /// The job's end, to the millisecond. Requires: it is not dead.
  TimePoint ended_at(const KeptResult& result) const {
    return result.apart() ? result.extra->ended_at : result.due - retain_;
  }
  /// Drops the loose bytes of the oldest result from memory; false where none has any.
  bool unload_oldest();
  KeptResult* oldest_dead() const { return dead_.front(); }
  /// The next dead result.
  KeptResult* next_dead(const KeptResult& result) const { return dead_.next(result); }
  /// Results that are not dead.
  std::size_t size() const { return passed_over_.size() + usual_.size() + apart_.size(); }
  std::size_t dead_size() const { return dead_.size(); }
  /// Their share of the byte bounds, without dead results.
  std::size_t bytes() const { return bytes_; }
  std::size_t dead_bytes() const { return dead_bytes_; }
  /// Bytes of these that could be left to the store.
  std::size_t loose_bytes() const { return loose_bytes_; }
  /// Bytes that durable results take in the store, about.
  std::size_t stored_bytes() const { return stored_bytes_; }

 private:
  using List = IntrusiveList<KeptResult, &KeptResult::hook>;

  /// One client's results, without dead ones; and those of the usual retention, the oldest first.
  struct Holder {
    struct Line {
      KeptResult* first = nullptr;
      KeptResult* last = nullptr;
    };
    std::uint64_t mark = kNoMark;
    std::size_t results = 0, bytes = 0;
    Line passed_over, usual;
    IntrusiveList<KeptResult::Extra, &KeptResult::Extra::of_holder> apart;
    bool over = false;
  };

  List& list_of(const KeptResult& result) {
    return result.apart() ? apart_ : result.alone ? passed_over_ : usual_;
  }
  static Holder::Line& line_of(Holder& holder, const KeptResult& result) {
    return result.alone ? holder.passed_over : holder.usual;
  }
  KeptResult* older(KeptResult* usual, KeptResult* apart) const;
  KeptResult* oldest_of(const Holder& holder) const;
  void hold(KeptResult& result, std::uint64_t client);
  void count_in(KeptResult& result);
  void count_out(KeptResult& result);
  void let_go(KeptResult& result);
  void weigh(std::uint32_t index);
  KeptResult& move_out(KeptResult& result);
  KeptResult& make(const Of& of, const Terminal& end, bool in_arena);
  void destroy(KeptResult& result);
  void push_back(KeptResult& result);
  void free_loose_body(KeptResult& result);
  void unlist(KeptResult& result);
  KeptResult*& next_loose_of(const KeptResult& result) {
    return next_loose_[result.apart() ? 2 : result.alone ? 0 : 1];
  }
  KeptResult* find_loose(const List& list, KeptResult*& next);
  std::size_t bytes_in_store(const KeptResult& result) const;

  Duration retain_;
  ResultShare share_;
  // Results of the usual time are in two lists: first those with memory of their own (restored or passed
  // over), then the younger ones in the arena.
  List passed_over_, usual_, apart_, dead_;
  std::deque<Holder> holders_;
  std::vector<std::uint32_t> free_holders_, over_;
  absl::flat_hash_map<std::uint64_t, std::uint32_t> holder_of_;  // by the client's mark
  FifoArena arena_;                                              // memory of usual_
  FifoArena loose_bodies_;             // of usual_: bodies that may be left to the store
  std::vector<KeptResult*> restored_;  // in no list yet
  // In passed_over_, usual_ and apart_: the first result that may have something loose; null: none.
  std::array<KeptResult*, 3> next_loose_{};
  std::size_t bytes_ = 0, dead_bytes_ = 0, loose_bytes_ = 0, stored_bytes_ = 0;
  std::uint64_t next_death_ = 1;
};

}  // namespace lanemq::core
