// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "broker/core/base/writes.hpp"

namespace lanemq::io {

/// What several turns make of the rows together: at most one change a row, so that one statement can make all
/// changes of a kind, in any order but for erasing first. Each list is in the order in which its rows first
/// came. Views are of the writes' bytes.
struct NetWrites {
  /// The parts of a body that is too large for its row.
  struct Parts {
    std::int64_t key = 0;  ///< below zero; zero: it is in the row
    bool put = false;      ///< they are there already
  };
  struct NewJob {
    std::uint64_t number = 0;
    std::string_view state, record, body;
    Parts parts{};
  };
  struct ChangedJob {
    std::uint64_t number = 0;   ///< of the row before
    std::uint64_t renamed = 0;  ///< its number from now on; the same where it keeps it
    std::string_view state;
  };
  struct NewResult {
    std::uint64_t number = 0;
    std::string_view record, body;
    Parts parts{};
  };
  struct Note {
    std::string_view name, record;
  };

  std::vector<std::uint64_t> erased_jobs, erased_results;
  std::vector<std::string_view> erased_notes;
  std::vector<NewJob> new_jobs;
  std::vector<ChangedJob> changed_jobs;
  std::vector<NewResult> new_results;
  std::vector<Note> put_notes;
};

/// Makes NetWrites of turns. Borrows the bytes of their writes. Pure.
class WriteReducer {
 public:
  /// Adds a turn's writes after those of earlier turns.
  void add(const core::Writes& writes);
  NetWrites net() const;

 private:
  /// A row as these writes leave it.
  struct Job {
    std::uint64_t before = 0;  ///< its number in the table, if it is there
    std::uint64_t number = 0;
    std::string_view state, record, body;
    bool is_new = false, erased = false;
  };
  struct Result {
    std::uint64_t number = 0;
    std::string_view record, body;
    bool was_stored = false;  ///< a row of this number is in the table
    bool is_there = false;
  };
  struct Note {
    std::string_view name, record;
    bool erased = false;
  };

  Job& job_of(std::uint64_t number);
  void add(const core::Writes& writes, const core::Write& write);
  void add_result(std::uint64_t number, std::string_view record, std::string_view body, bool inserts);
  void add_note(std::string_view name, std::string_view record, bool erases);

  std::vector<Job> jobs_;
  std::vector<Result> results_;
  std::vector<Note> notes_;
  absl::flat_hash_map<std::uint64_t, std::size_t> job_at_, result_at_;  ///< by the number that counts now
  absl::flat_hash_map<std::string_view, std::size_t> note_at_;
};

}  // namespace lanemq::io
