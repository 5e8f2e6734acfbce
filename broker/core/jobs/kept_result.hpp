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

/// How a job ended, as those who ask are told. Views: good for as long as what it was taken from.
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

/// What is kept of a job that has ended, for those who ask later. One block with its texts behind it, written
/// once: results are many and cold. Made by KeptResults.
struct KeptResult final : Record {
  /// What a result counts for in the byte bounds, besides its texts: this and its share of the indexes.
  static constexpr std::size_t kRecordBytes = 128;
  /// A larger body of a job that is in the store stands apart, to be left to it.
  static constexpr std::size_t kInlineBytesMax = 256;

  Terminal terminal() const;
  std::string_view id() const { return {texts(), id_size}; }
  std::string_view model() const { return {texts() + id_size, model_size}; }
  /// What it counts for in the byte bounds. Does not change once it is kept.
  std::size_t bytes() const;

  /// What of it the store alone can keep: its body, what is kept of a streamed answer, and how it succeeded.
  std::size_t loose_bytes() const;

  /// Kept for a time of its own, not for the usual one.
  bool apart() const { return extra && extra->apart != nullptr; }

  /// What is left of the job, null where it is not dead.
  DeadJob* dead() const { return extra ? extra->dead.get() : nullptr; }

  /// What is kept of a streamed answer; null where it was none, or nothing is.
  const AnswerStream* answer() const { return extra ? extra->answer.get() : nullptr; }

  /// What few of them have.
  struct Extra {
    std::unique_ptr<Ending> ending;
    std::unique_ptr<AnswerStream> answer;
    std::unique_ptr<DeadJob> dead;          ///< what KeptResults::bury() was given
    Blob body;                              ///< where too large to stand behind the record
    Timer timer{TimerOwner::result, this};  ///< for the holder to use, where it is kept apart
    KeptResult* apart = nullptr;            ///< the result itself, where it is kept for a time of its own
    TimePoint ended_at{};                   ///< likewise
    ListHook<Extra> of_holder;              ///< likewise: among those of its client
  };

  std::uint32_t attempt = 0;  ///< the last hand-over
  std::uint16_t attempts = 0;
  LaneIndex lane = 0;
  JobState state = JobState::succeeded;
  ListHook<KeptResult> hook;  ///< among those of its kind
  TimePoint due{};            ///< when it is forgotten
  Service* service = nullptr;
  Job* job = nullptr;  ///< set while the job's place is not free yet
  std::uint64_t body_hash = 0;
  std::unique_ptr<Extra> extra;
  std::uint32_t queued_ms = 0, ran_ms = 0;
  std::uint16_t id_size = 0, model_size = 0, body_size = 0;
  LaneIndex submitted_lane = 0;
  bool client_named_it : 1 = false;
  bool id_told : 1 = false;              ///< a client knows the job by its id
  bool durable : 1 = false;              ///< it is in the store
  bool body_stored : 1 = false;          ///< what is loose of it is there alone
  bool alone : 1 = false;                ///< its memory is its own
  bool body_loose : 1 = false;           ///< its body stands apart, where it can be left to the store
  bool pointer_behind : 1 = false;       ///< it stood there, and what says where is still behind the record
  std::uint32_t body_bytes = 0;          ///< of its body, wherever that is
  std::uint32_t holder = kNobody;        ///< whose it is, among KeptResults' holders
  KeptResult* next_of_holder = nullptr;  ///< of those of its client that are kept for the usual time

  static constexpr std::uint32_t kNobody = std::numeric_limits<std::uint32_t>::max();

 private:
  friend class KeptResults;
  KeptResult() : Record(true) {}
  KeptResult(KeptResult&&) = default;
  ~KeptResult() = default;

  /// Behind the record: its id, its model, and its body or where that is.
  const char* texts() const { return reinterpret_cast<const char*>(this + 1); }
  char* texts() { return reinterpret_cast<char*>(this + 1); }
  const char* loose_body() const {
    const char* body = nullptr;
    std::memcpy(&body, texts() + id_size + model_size, sizeof body);
    return body;
  }
};
static_assert(sizeof(KeptResult) == 104);

/// How much one client holds when the rest is for others; 0: however much.
struct ResultShare {
  std::size_t results = 0, bytes = 0;
  bool any() const { return results > 0 || bytes > 0; }
};

/// The results that are kept, the oldest first: those for the usual time, which leave in the order in which
/// they came, those for a time of their own, and those of dead jobs. Owns them.
///
/// What is loose of those that are in the store may be left to it, the oldest first.
///
/// While a client holds so much that the rest is for others, its own make way before theirs.
class KeptResults {
 public:
  /// What a client counts for in the byte bounds while it has results, where they are shared out.
  static constexpr std::size_t kHolderBytes = 128;

  /// `retain`: the usual time.
  explicit KeptResults(Duration retain = {}, ResultShare share = {}) : retain_(retain), share_(share) {}
  ~KeptResults();
  KeptResults(const KeptResults&) = delete;
  KeptResults& operator=(const KeptResults&) = delete;

  /// What is kept of a job besides its end. Views.
  struct Of {
    JobNumber number{};
    std::uint32_t attempt = 0;
    LaneIndex submitted_lane = 0;
    bool durable = false;
    Service* service = nullptr;
    std::uint64_t body_hash = 0;
    std::string_view model;
    std::uint64_t client = kNoMark;  ///< of its name
  };
  /// `client`: the mark of its client's name.
  static Of of(const Job& job, Service& service, std::uint64_t client, std::uint64_t body_hash);
  /// Keeps how a job ended; with `apart`, for a time of its own. A large body is shared where it owns its
  /// bytes, else copied. `answer`: what is kept of a streamed one.
  KeptResult& add(const Of& of, const Terminal& end, std::unique_ptr<Ending> ending, bool apart,
                  std::unique_ptr<AnswerStream> answer = nullptr);
  /// What of a result comes back besides what it was made of.
  struct Restored {
    std::size_t body_bytes =
        0;  ///< where the end has no body: it is in the store alone, and what is loose besides
    TimePoint ended_at{}, due{};
    bool dead = false;  ///< it is going to be buried
  };
  /// The same of a result that an earlier life of the broker kept, in any order.
  KeptResult& restore(const Of& of, const Terminal& end, std::unique_ptr<Ending> ending,
                      const Restored& restored);
  /// Those that were restored are listed by their age; then `tell` is called with each.
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
  /// The result is that of a dead job from now on. Requires: it is apart and not dead yet.
  void bury(KeptResult& result, std::unique_ptr<DeadJob> job);
  /// The opposite: takes the job out of its result.
  std::unique_ptr<DeadJob> exhume(KeptResult& result);
  /// What is kept of its streamed answer goes. Requires: it is dead.
  void shed_answer(KeptResult& result);
  /// The one that makes way next: of the clients that hold more than their share the oldest one, or else the
  /// oldest of all. Null when there is none.
  KeptResult* next_to_go() const;
  /// Those that stay, and stand before it in memory that is freed in its order, move elsewhere; `tell` is
  /// called with each where it is now. Each moves once at most. What they count for is taken from
  /// `bytes_left`: false where that is used up and some are left to move.
  template <class Tell>
  bool pass_over_for(const KeptResult& result, std::size_t& bytes_left, Tell tell) {
    if (result.alone) return true;
    while (usual_.front() != &result) {
      if (bytes_left == 0) return false;
      KeptResult& moved = move_out(*usual_.front());
      bytes_left -= std::min(bytes_left, moved.bytes());
      tell(moved);
    }
    return true;
  }
  /// Destroys a result. Requires: it is apart, or the oldest of the others, or those before it were passed
  /// over.
  void remove(KeptResult& result);

  /// The oldest of those for the usual time, null when there is none.
  KeptResult* oldest() const { return passed_over_.empty() ? usual_.front() : passed_over_.front(); }
  KeptResult* oldest_apart() const { return apart_.front(); }
  /// Of both, the one whose job ended first.
  KeptResult* oldest_of_all() const;
  /// By what a result that is kept apart stands in one order with the others, whose times are those of
  /// timers: when its job ended, to the millisecond.
  TimePoint mark(TimePoint ended_at) const { return TimerWheel::fires_at(ended_at + retain_) - retain_; }
  /// When its job ended, to the millisecond. Requires: it is not dead.
  TimePoint ended_at(const KeptResult& result) const {
    return result.apart() ? result.extra->ended_at : result.due - retain_;
  }
  /// Leaves what is loose of the oldest result to the store; false where nothing is.
  bool unload_oldest();
  KeptResult* oldest_dead() const { return dead_.front(); }
  /// The dead one after it.
  KeptResult* next_dead(const KeptResult& result) const { return dead_.next(result); }
  /// Those that are not dead.
  std::size_t size() const { return passed_over_.size() + usual_.size() + apart_.size(); }
  std::size_t dead_size() const { return dead_.size(); }
  /// What they count for in the byte bounds, without the dead.
  std::size_t bytes() const { return bytes_; }
  std::size_t dead_bytes() const { return dead_bytes_; }
  /// Of these, what could be left to the store.
  std::size_t loose_bytes() const { return loose_bytes_; }
  /// What those in the store take there, about.
  std::size_t stored_bytes() const { return stored_bytes_; }

 private:
  using List = IntrusiveList<KeptResult, &KeptResult::hook>;

  /// What a client has of them, the dead ones not counted. Of those for the usual time, too, the oldest
  /// first.
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
  // Those for the usual time are two: with memory of their own, as those have that were restored or passed
  // over, and behind them, younger, the ones in the arena.
  List passed_over_, usual_, apart_, dead_;
  std::deque<Holder> holders_;
  std::vector<std::uint32_t> free_holders_, over_;
  absl::flat_hash_map<std::uint64_t, std::uint32_t> holder_of_;  // by the client's mark
  FifoArena arena_;                                              // of the usual ones
  FifoArena loose_bodies_;             // of those of them that may be left to the store
  std::vector<KeptResult*> restored_;  // that are in no list yet
  // Of those passed over, the usual ones and those apart: the first that may have something loose; null: none
  // has.
  std::array<KeptResult*, 3> next_loose_{};
  std::size_t bytes_ = 0, dead_bytes_ = 0, loose_bytes_ = 0, stored_bytes_ = 0;
  std::uint64_t next_death_ = 1;
};

}  // namespace lanemq::core
