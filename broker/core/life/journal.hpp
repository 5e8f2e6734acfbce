// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "broker/core/base/time.hpp"
#include "broker/core/jobs/job.hpp"
#include "broker/core/jobs/kept_result.hpp"
#include "broker/core/jobs/stored.hpp"

namespace lanemq::core {

struct State;

/// What outlives the broker: it puts each change into the outbox's writes, and reads times back by the
/// store's clock. What is not durable leaves no trace here.
class Journal {
 public:
  // Names of notes. Of a budget's own limits, and of an account of its keys: the budget's name, a line's end,
  // the account's. Earlier versions have all accounts in the first.
  static constexpr std::string_view kNumbers = "numbers", kSeed = "seed";
  static constexpr std::string_view kBudget = "budget ", kBudgetAccount = "account ";

  explicit Journal(State& state) : state_(state) {}
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// Offset of the store's clock to the wall clock, which somebody may have set.
  void set_clock(Duration shift) { shift_ = shift; }
  /// The core's time zero by the store's clock.
  std::int64_t epoch_us() const;
  TimePoint time_of(std::int64_t stored_us) const { return TimePoint(Duration(stored_us - epoch_us())); }

  /// The hash of a body, by the store's seed.
  std::uint64_t hash_of(std::string_view body) const;
  /// Of what was submitted; 0 where the client did not name the job.
  std::uint64_t body_hash_of(const Job& job) const;

  void write_accepted(const Job& job, const wire::Submit& fields, const Blob& body);
  /// Its state has changed.
  void write_changed(const Job& job);
  /// The row that was a dead job's is this one's from now on.
  void write_renamed(const Job& job, JobNumber stored_as);
  /// `result`: what is kept of it until `due`, null for nothing. One that died keeps its row: it may run
  /// again.
  void write_ended(const Job& job, const Terminal& how, const KeptResult* result, TimePoint due, bool died,
                   TimePoint now);
  void write_forgotten(const KeptResult& result);
  /// How a stored job ended. Views of `stored` and `ending`.
  Terminal terminal_of(const StoredResult& stored, const Ending* ending, Blob body) const;

  /// Another life of the broker begins its numbers behind those of this one: those of jobs that are not on
  /// disk too, for a worker may still speak of them. Notes them where few are left.
  void note_numbers();
  void write_numbers();
  /// An earlier life has noted that numbers up to this generation may be in use.
  void restore_numbers(std::uint64_t generation);
  /// What hashes are made with: once for a store.
  void write_seed();
  bool has_notes() const;
  /// Adds what has changed of budgets. True if that is to be told when it is on disk.
  bool write_notes();

 private:
  std::int64_t stored_us(TimePoint when) const { return when.time_since_epoch().count() + epoch_us(); }
  void write_state(const Job& job, bool dead = false);

  State& state_;
  std::uint64_t generations_noted_ = 0;  // of job numbers: another life of the broker begins there
  Duration shift_{};
};

}  // namespace lanemq::core
