// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "broker/core/base/options.hpp"
#include "broker/core/base/refusal.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/jobs/gone_ids.hpp"
#include "broker/core/jobs/job.hpp"
#include "broker/core/jobs/kept_result.hpp"

namespace lanemq::core {

class Journal;
struct State;

/// What is kept of jobs that have ended, what is still known of ids that are not kept, and what makes way
/// when a bound is reached.
class Results {
 public:
  Results(State& state, Journal& journal, std::uint64_t seed);
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;

  KeptResults& kept() { return kept_; }
  const KeptResults& kept() const { return kept_; }

  /// Bytes of all jobs, of who waits for them and of kept results, as the bounds count them.
  std::size_t memory_bytes() const;
  /// Whether a body is left to the store: of those that it has, while much is in memory. `bytes`: what its
  /// job counts for.
  bool spills(std::size_t bytes, std::size_t body_bytes) const;
  /// Whether what is loose in memory is as much as may be left to the store.
  bool much_is_loose() const;

  /// The job has ended so, and is replaced by what is kept of it, or by nothing. Returns that where it is
  /// dead, else null.
  KeptResult* keep(Job& job, const Terminal& how, std::unique_ptr<Ending> ending,
                   std::unique_ptr<AnswerStream> answer, TimePoint now);
  /// The attempt under way is over without success. Requires: the job has its worker still.
  void remember_attempt(Job& job, std::string_view cause, std::string_view code, std::string_view message,
                        TimePoint now);

  /// Forgets what has been kept for its time, and goes on with what makes way; of very much a part.
  void begin_turn(TimePoint now);
  /// When it wants to be called; kNever: when something has changed.
  TimePoint next_wakeup() const;
  /// For good: its id means nothing any more, but that it did.
  void forget(KeptResult& result);
  /// Its id means another job from now on.
  void remove(KeptResult& result);
  /// Kept results make way until all bounds hold. Dead jobs stay: they are bounded apart, and make way for
  /// their like alone.
  void evict(TimePoint now);
  /// The oldest dead jobs make way until memory_max holds.
  void evict_dead_for_memory();
  /// Kept results make way until `needed` bytes more are within memory_max, and with `job` until there is a
  /// place for one more job, as far as that helps. True if there is room.
  bool make_room(std::size_t needed, bool job, TimePoint now);
  /// The store's disk is full, and new work is refused for that: an eighth of what results take there makes
  /// way, once a second, until there is room.
  void make_room_in_store(TimePoint now);

  /// For how long an id means its job, as it looks at present: less than was promised while bounds bite.
  Duration ids_good_for(TimePoint now) const;
  /// Why an id is not known.
  Refusal not_known(std::string_view id) const;
  /// Of a submit of what has succeeded, and whose result made way: it is not to run twice without a word.
  std::optional<Refusal> ran_before(std::string_view id, TimePoint now);

 private:
  enum class Forgotten : std::uint8_t { in_its_time, before_its_time };

  static ResultShare share_of(const Options& options);
  bool dies(const Job& job, JobState state) const;
  void bury(Job& job, KeptResult& result, TimePoint now);
  void forget(KeptResult& result, Forgotten why);
  bool pass_over_for(const KeptResult& result);
  bool evict_one(TimePoint now);
  bool evict_dead();

  State& state_;
  Journal& journal_;
  KeptResults kept_;
  GoneIds gone_;
  TimePoint begun_at_{};                 // the turn
  std::size_t passing_left_ = 0;         // bytes of results that may still move in it, so that one makes way
  bool making_way_ = false;              // and more have to
  std::optional<TimePoint> evicted_at_;  // the last time that a result made way
  TimePoint make_room_at_{};             // on a full disk: when results may make way again
};

}  // namespace lanemq::core
