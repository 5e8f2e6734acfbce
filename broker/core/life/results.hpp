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

class Groups;
class Journal;
struct State;

/// Keeps and forgets the results of ended jobs, dead jobs, and ids that are gone. Decides what makes way when
/// a bound is reached.
class Results {
 public:
  Results(State& state, Journal& journal, Groups& groups, std::uint64_t seed);
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;

  KeptResults& kept() { return kept_; }
  const KeptResults& kept() const { return kept_; }

  /// Bytes of all jobs, their clients and groups, waiting requests and kept results, as the bounds count
  /// them.
  std::size_t memory_bytes() const;
  /// Whether a durable job's body is left to the store because much memory is used. `bytes`: the job's share
  /// of the byte bounds.
  bool spills(std::size_t bytes, std::size_t body_bytes) const;
  /// Whether so much is loose that some must be left to the store.
  bool much_is_loose() const;

  /// Replaces an ended job by its kept result, or by nothing. Returns the result of a dead job, else null.
  KeptResult* keep(Job& job, const Terminal& how, std::unique_ptr<Ending> ending,
                   std::unique_ptr<AnswerStream> answer, TimePoint now);
  /// Adds an attempt without success to the job's history. Requires: the job still has its worker.
  void remember_attempt(Job& job, std::string_view cause, std::string_view code, std::string_view message,
                        TimePoint now);
  /// The job's last attempt goes on after all.
  void take_back_attempt(Job& job);

  /// Forgets expired results, and continues to make way; of very many only a part.
  void begin_turn(TimePoint now);
  /// When begin_turn() wants to be called; kNever: only after a change.
  TimePoint next_wakeup() const;
  /// Forgets a result; its id is gone.
  void forget(KeptResult& result);
  /// Forgets a result whose id is about to get another job.
  void remove(KeptResult& result);
  /// Results make way until all bounds hold. Dead jobs stay: they have their own bounds, and make way only
  /// for dead jobs.
  void evict(TimePoint now);
  /// The oldest dead jobs make way until memory_max holds.
  void evict_dead_for_memory();
  /// Whether `needed` more bytes do not fit memory_max, or with `job` one more job has no place.
  bool lacks_room(std::size_t needed, bool job) const;
  /// Whether there would be that room if results made way. Changes nothing.
  bool could_make_room(std::size_t needed, bool job) const;
  /// Results make way until there is that room. True if there is. No result goes where could_make_room() says
  /// no; where it says yes there may still be none in this turn, since results that stay must move first.
  ///
  /// To be asked last, when nothing else refuses what needs the room.
  bool make_room(std::size_t needed, bool job, TimePoint now);
  /// Evicts an eighth of the results in the store, once a second until there is room. For a full disk of the
  /// store, where nothing else keeps new work from being accepted. Results that may still wait to be stored
  /// stay.
  void make_room_in_store(TimePoint now);

  /// How long after its job ended an id is known at present: retain, or less while a bound forgets results
  /// early.
  Duration ids_good_for(TimePoint now) const;
  /// The answer for an unknown id: gone, or not found.
  Refusal not_known(std::string_view id) const;
  /// Refuses a submit of a job that succeeded and whose result made way early, so that it does not run twice
  /// unnoticed.
  std::optional<Refusal> ran_before(std::string_view id, TimePoint now);

 private:
  enum class Forgotten : std::uint8_t { in_its_time, before_its_time };

  static ResultShare share_of(const Options& options);
  bool dies(const Job& job, JobState state) const;
  void bury(Job& job, KeptResult& result, TimePoint now);
  void forget(KeptResult& result, Forgotten why);
  bool pass_over_for(const KeptResult& result);
  bool evict_one(TimePoint now);
  bool evict_for_memory(TimePoint now);
  bool evict_dead();

  State& state_;
  Journal& journal_;
  Groups& groups_;
  KeptResults kept_;
  GoneIds gone_;
  TimePoint begun_at_{};                 // of the present turn
  std::size_t passing_left_ = 0;         // bytes of results that may still move in this turn
  bool making_way_ = false;              // more results must make way
  std::optional<TimePoint> evicted_at_;  // when a result last made way
  TimePoint make_room_at_{};             // on a full disk: when results may make way again
};

}  // namespace lanemq::core
