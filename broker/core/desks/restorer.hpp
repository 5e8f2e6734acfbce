// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include <lanemq/result.hpp>

#include "broker/core/base/stored_entry.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/jobs/dead_job.hpp"
#include "broker/core/jobs/stored.hpp"

namespace lanemq::core {

class Groups;
class JobLife;
class Journal;
class Results;
struct State;
class Streams;

/// Restores what the broker knew when it stopped from what it had put into the outbox's writes. Call clock(),
/// then note(), job() and result() for all, then finish(), before the first handle(). An error says what
/// cannot be read.
class Restorer {
 public:
  /// The client of restored jobs that named none: their connections are gone.
  static constexpr std::string_view kClientOfNone = "restored";

  struct Restored {
    std::size_t queued = 0, delayed = 0, running = 0, dead = 0, results = 0;
    std::size_t without_lane =
        0;                   ///< jobs whose lanes are not configured any more: they are in the default one
    std::size_t untold = 0;  ///< jobs whose `notify` nobody will hear from, since webhook_service is empty
  };

  Restorer(State& state, Journal& journal, Results& results, Groups& groups, Streams& streams, JobLife& life);
  Restorer(const Restorer&) = delete;
  Restorer& operator=(const Restorer&) = delete;

  /// `shift`: the store's clock minus the wall clock, which may have been set.
  void clock(Duration shift);
  Result<void> note(std::string_view name, std::string_view record, TimePoint now);
  /// `body`: none where it stays in the store; then it has `body_bytes`.
  Result<void> job(std::uint64_t number, std::string_view state, std::string_view record,
                   std::optional<std::string_view> body, std::size_t body_bytes, TimePoint now);
  Result<void> result(std::uint64_t number, std::string_view record, std::optional<std::string_view> body,
                      std::size_t body_bytes, TimePoint now);
  /// Queues jobs in their old order; those that ran wait for their workers to name them. The outbox's writes
  /// must be on disk before the first handle(): they reserve numbers for jobs that are not written, and the
  /// next life must not use these again.
  Result<Restored> finish(TimePoint now);

 private:
  /// A job as it is read; the views are those of job()'s arguments.
  struct Row {
    std::uint64_t number;
    const StoredState& state;
    std::string_view record;
    const wire::Submit& fields;
    std::string_view client;
    const JobText::Parts& texts;
    const Blob& request;
    std::size_t body_bytes;
    bool stored;  ///< its body stays in the store
  };
  void keep_dead(const Row& row, History history);
  const char* bring_back(const Row& row, History history, TimePoint now);
  void set_times(Job& job, const StoredState& state, TimePoint now);

  State& state_;
  Journal& journal_;
  Results& results_;
  Groups& groups_;
  Streams& streams_;
  JobLife& life_;
  StoredDecoder decoder_;
  std::vector<Job*> jobs_;
  /// Dead jobs whose results were not read yet.
  absl::flat_hash_map<std::uint64_t, std::unique_ptr<DeadJob>> dead_;
  /// All entries of a budget's notes, by its name; of a learnt one by its note's.
  std::map<std::string, std::vector<StoredEntry>> budgets_;
  Restored count_;
  bool seeded_ = false;
};

}  // namespace lanemq::core
