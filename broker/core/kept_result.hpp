// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <lanemq/blob.hpp>
#include <lanemq/error_table.hpp>
#include <lanemq/messages.hpp>

#include "broker/core/dead_job.hpp"
#include "broker/core/fifo_arena.hpp"
#include "broker/core/intrusive_list.hpp"
#include "broker/core/job.hpp"
#include "broker/core/record.hpp"
#include "broker/core/time.hpp"
#include "broker/core/timer_wheel.hpp"

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

  Terminal terminal() const;
  std::string_view id() const { return {texts(), id_size}; }
  std::string_view model() const { return {texts() + id_size, model_size}; }
  /// What it counts for in the byte bounds. Does not change once it is kept.
  std::size_t bytes() const;

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
  };

  std::uint32_t attempt = 0;  ///< the last hand-over
  std::uint16_t attempts = 0;
  LaneIndex lane = 0;
  JobState state = JobState::succeeded;
  ListHook<KeptResult> hook;  ///< among those of its kind
  TimePoint due{};            ///< when it is forgotten
  const Service* service = nullptr;
  Job* job = nullptr;  ///< set while the job's place is not free yet
  std::uint64_t body_hash = 0;
  std::unique_ptr<Extra> extra;
  std::uint32_t queued_ms = 0, ran_ms = 0;
  std::uint16_t id_size = 0, model_size = 0, body_size = 0;
  LaneIndex submitted_lane = 0;
  bool client_named_it = false;
  bool id_told = false;  ///< a client knows the job by its id
  bool durable = false;  ///< it is in the store

 private:
  friend class KeptResults;
  KeptResult() : Record(true) {}
  ~KeptResult() = default;

  const char* texts() const { return reinterpret_cast<const char*>(this + 1); }
  char* texts() { return reinterpret_cast<char*>(this + 1); }
};

/// The results that are kept, the oldest first: those for the usual time, which leave in the order in which
/// they came, those for a time of their own, and those of dead jobs. Owns them.
class KeptResults {
 public:
  KeptResults() = default;
  ~KeptResults();
  KeptResults(const KeptResults&) = delete;
  KeptResults& operator=(const KeptResults&) = delete;

  /// What is kept of a job besides its end. Views.
  struct Of {
    JobNumber number{};
    std::uint32_t attempt = 0;
    LaneIndex submitted_lane = 0;
    bool durable = false;
    const Service* service = nullptr;
    std::uint64_t body_hash = 0;
    std::string_view model;
  };
  static Of of(const Job& job, std::uint64_t body_hash);
  /// Keeps how a job ended; with `apart`, for a time of its own. A large body is shared where it owns its
  /// bytes, else copied. `answer`: what is kept of a streamed one.
  KeptResult& add(const Of& of, const Terminal& end, std::unique_ptr<Ending> ending, bool apart,
                  std::unique_ptr<AnswerStream> answer = nullptr);
  /// The result is that of a dead job from now on. Requires: it is apart and not dead yet.
  void bury(KeptResult& result, std::unique_ptr<DeadJob> job);
  /// The opposite: takes the job out of its result.
  std::unique_ptr<DeadJob> exhume(KeptResult& result);
  /// Destroys a result. Requires: it is apart, or the oldest of the others.
  void remove(KeptResult& result);

  /// The oldest of those for the usual time, null when there is none.
  KeptResult* oldest() const { return usual_.front(); }
  KeptResult* oldest_apart() const { return apart_.front(); }
  KeptResult* oldest_dead() const { return dead_.front(); }
  /// The dead one after it.
  KeptResult* next_dead(const KeptResult& result) const { return dead_.next(result); }
  /// Those that are not dead.
  std::size_t size() const { return usual_.size() + apart_.size(); }
  std::size_t dead_size() const { return dead_.size(); }
  /// What they count for in the byte bounds, without the dead.
  std::size_t bytes() const { return bytes_; }
  std::size_t dead_bytes() const { return dead_bytes_; }

 private:
  void destroy(KeptResult& result);

  IntrusiveList<KeptResult, &KeptResult::hook> usual_, apart_, dead_;
  FifoArena arena_;  // of the usual ones
  std::size_t bytes_ = 0, dead_bytes_ = 0;
  std::uint64_t next_death_ = 1;
};

}  // namespace lanemq::core
