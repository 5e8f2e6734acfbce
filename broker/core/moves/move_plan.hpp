// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <absl/container/flat_hash_set.h>

#include <lanemq/result.hpp>

#include "broker/core/base/string_hash.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/jobs/stored.hpp"
#include "broker/core/moves/free_numbers.hpp"
#include "broker/core/moves/move_filter.hpp"
#include "broker/core/moves/moved_groups.hpp"

namespace lanemq::core {

/// The rows of one store that move to another, and their form there: the rows of one tenant, or of one
/// service, with numbers, arrivals and times that the other store has room for. Pure; the caller reads and
/// writes.
///
/// Call source_* with all that the source holds, each kind in the order in which a store tells it, then
/// source_ends(); then target_* with all that the target holds, then settle(). If neither refuses, the rows
/// can be asked for their new form. A row that cannot be read is an error of the function that has it.
///
/// Holds some 40 bytes and the id for each row that moves, and the note of each group and budget of the
/// source.
class MovePlan {
 public:
  /// A note as the target is to have it.
  struct Note {
    std::string name, record;
  };
  struct Counts {
    std::uint64_t jobs = 0, dead = 0, results = 0, groups = 0, budgets = 0;  ///< dead ones are no results
    std::uint64_t running = 0;  ///< of the jobs; they keep all from going
    std::uint64_t there = 0;    ///< jobs and results of the scope that the target has already
  };

  explicit MovePlan(MoveScope scope) : filter_(std::move(scope)) {}

  Result<void> source_note(std::string_view name, std::string_view record);
  Result<void> source_job(std::uint64_t number, std::string_view state, std::string_view record);
  Result<void> source_result(std::uint64_t number, std::string_view record);
  /// An error (conflict) says why nothing may go: jobs run, or a group is shared with jobs that stay.
  Result<void> source_ends();

  Result<void> target_note(std::string_view name, std::string_view record);
  Result<void> target_job(std::uint64_t number, std::string_view state, std::string_view record);
  Result<void> target_result(std::uint64_t number, std::string_view record);
  /// An error (conflict) names jobs or results that go and are another shard's than the target's, by the
  /// rules: submitted again they would go to that one, and run twice.
  Result<void> of_shard(std::string_view targets) const;
  /// `shift`: the target's clock minus the source's. `rows_max`: of the target, when all has come. An error
  /// (conflict) names what the target has already, or what it lacks.
  Result<void> settle(Duration shift, std::size_t rows_max);

  // ---- after settle()
  const Counts& counts() const { return counts_; }
  /// Tells the source from other stores; 0: no broker has ever served it.
  std::uint64_t source_mark() const { return stores_.source.value_or(0); }
  /// The generation of the rows' numbers: no other number of the target has it.
  std::uint64_t generation() const { return numbers_.generation(); }
  /// The numbers of the source whose rows go, in order.
  std::vector<std::uint64_t> jobs() const { return numbers_of(jobs_); }
  std::vector<std::uint64_t> results() const { return numbers_of(results_); }
  /// The number of a row at the target; none: it stays.
  std::optional<std::uint64_t> job_there(std::uint64_t number) const { return there(jobs_, number); }
  std::optional<std::uint64_t> result_there(std::uint64_t number) const { return there(results_, number); }
  /// Appends what changes of a job that goes; its record stays. `body`: of its submit. Requires: job_there().
  Result<void> write_state(std::uint64_t number, std::string_view state, std::string_view body, Buffer& out);
  /// Appends the record of a result that goes.
  Result<void> write_result(std::string_view record, Buffer& out);
  /// Notes of groups, which leave the source, and of budgets that the target knows nothing of, which do not.
  Result<std::vector<Note>> notes();
  /// Names of notes that leave the source.
  std::vector<std::string> notes_leaving() const;

 private:
  struct Row {
    std::uint64_t number = 0, arrival = 0;              ///< at the source; results have no arrival
    std::uint64_t number_there = 0, arrival_there = 0;  ///< at the target
  };
  /// How the two stores differ.
  struct Stores {
    std::optional<std::uint64_t> source, target;  ///< seeds of the hashes of bodies; none: never served
    Duration shift{};                             ///< the target's clock minus the source's
  };

  /// Rows that go, and are one shard's by the rules.
  struct Placed {
    std::uint64_t count = 0;
    std::string first, service;  ///< id and service of the first one
  };

  void place(const Shard* shard, std::string_view id, std::string_view service);
  void take_conflict(std::string conflict);
  void number_rows();
  void order_arrivals();
  static const Row* find(const std::vector<Row>& rows, std::uint64_t number);
  static std::optional<std::uint64_t> there(const std::vector<Row>& rows, std::uint64_t number);
  static std::vector<std::uint64_t> numbers_of(const std::vector<Row>& rows);
  std::uint64_t hash_there(std::uint64_t hash, std::string_view body) const;

  MoveFilter filter_;
  MovedGroups groups_;
  FreeNumbers numbers_;
  StoredDecoder decoder_;
  Stores stores_;
  Counts counts_;
  std::vector<Row> jobs_, results_;                                // those that go, by number
  absl::flat_hash_set<std::string, StringHash, StringEqual> ids_;  // of these
  std::map<std::string, std::string, std::less<>> budgets_;        // notes that the target lacks, by name
  std::map<std::string, Placed, std::less<>> placed_;              // by the shard's name
  std::string conflict_;                                           // the first one; empty: none
};

}  // namespace lanemq::core
