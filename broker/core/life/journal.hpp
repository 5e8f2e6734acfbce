// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "broker/core/base/time.hpp"
#include "broker/core/jobs/job.hpp"
#include "broker/core/jobs/kept_result.hpp"
#include "broker/core/jobs/stored.hpp"

namespace lanemq::core {

struct State;

/// Puts each change that outlives the broker into the outbox's writes, and converts times by the store's
/// clock. Jobs that are not durable leave no trace.
class Journal {
 public:
  // Names of notes. A note of limits is named after its budget; an account's adds a line end and the
  // account's name. Earlier versions had all accounts in the budget's note.
  static constexpr std::string_view kNumbers = "numbers", kSeed = "seed";
  static constexpr std::string_view kBudget = "budget ", kBudgetAccount = "account ", kLearnt = "learnt ";
  static constexpr std::string_view kGroup = "group ";

  explicit Journal(State& state) : state_(state) {}
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// `shift`: the store's clock minus the wall clock, which may have been set.
  void set_clock(Duration shift) { shift_ = shift; }
  /// The core's time zero by the store's clock, in us of Unix time.
  std::int64_t epoch_us() const;
  TimePoint time_of(std::int64_t stored_us) const { return TimePoint(Duration(stored_us - epoch_us())); }

  /// The hash of a body, with the store's seed.
  std::uint64_t hash_of(std::string_view body) const;
  static std::uint64_t hash_of(std::string_view body, std::uint64_t seed);
  /// The hash of the submitted body; 0 where the client did not name the job.
  std::uint64_t body_hash_of(const Job& job) const;

  /// `group_size`: of the job's group; none: it has none.
  void write_accepted(const Job& job, std::optional<std::int64_t> group_size, const Blob& body);
  /// Writes the job's changed state.
  void write_changed(const Job& job);
  /// The row of a dead job now belongs to this job.
  void write_renamed(const Job& job, JobNumber stored_as);
  /// `result`: kept until `due`; null: nothing is. A job that died keeps its row, since it may run again.
  void write_ended(const Job& job, const Terminal& how, const KeptResult* result, TimePoint due, bool died,
                   TimePoint now);
  void write_forgotten(const KeptResult& result);
  /// How a stored job ended. Views of `stored` and `ending`.
  Terminal terminal_of(const StoredResult& stored, const Ending* ending, Blob body) const;

  /// Writes a number at which the next life begins: beyond those of this life, also of jobs that are not
  /// durable, since a worker may still name them. Does so when few reserved numbers are left.
  void note_numbers();
  void write_numbers();
  /// The same for a store that no broker serves.
  static void write_numbers(std::uint64_t generation, Writes& writes);
  /// An earlier life reserved the numbers up to this generation.
  void restore_numbers(std::uint64_t generation);
  /// Writes the seed of the hashes, once for a store.
  void write_seed();
  bool has_notes() const;
  /// Adds what has changed of budgets. True if the core wants to know when it is on disk.
  bool write_notes();

 private:
  std::int64_t stored_us(TimePoint when) const { return when.time_since_epoch().count() + epoch_us(); }
  void write_state(const Job& job, bool dead = false);

  State& state_;
  std::uint64_t generations_noted_ = 0;  // the next life's numbers begin there
  Duration shift_{};
};

}  // namespace lanemq::core
