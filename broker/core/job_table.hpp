// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <absl/container/flat_hash_set.h>
#include <xxhash.h>

#include "broker/core/job.hpp"

namespace lanemq::core {

/// All jobs: slots that are used again, found by number in O(1), and an index by id. Jobs never move.
class JobTable {
 public:
  /// Numbers begin at a generation below 2^28 that the caller draws, so that a worker's late words about a
  /// job of an earlier life of the broker do not fit a job of this one; and they stay below 2^53 for long,
  /// which is as far as the integers of some languages go.
  explicit JobTable(std::size_t jobs_max, std::uint64_t first_generation = 0, std::uint64_t hash_seed = 0)
      : jobs_max_(jobs_max), first_generation_(first_generation), by_id_(0, IdHash{hash_seed}) {}

  bool full() const { return size_ >= jobs_max_; }
  std::size_t size() const { return size_; }

  /// A fresh job with a number. Requires: !full().
  Job& create();
  /// Makes the job findable by its id. Requires: no other job has it.
  void index(Job& job);
  Job* find(std::string_view id) const;
  /// Null for a number that is not, or no longer, a job's.
  Job* find(JobNumber number) const;
  /// Ends the job's record: it leaves the index and its slot may be used again.
  void erase(Job& job);

 private:
  static constexpr std::size_t kChunk = 1024;
  static constexpr int kSlotBits = 24;  // of a number; the rest is the generation

  /// Ids come from strangers: with a seed that they do not know, nobody can aim at one bucket.
  struct IdHash {
    using is_transparent = void;
    std::uint64_t seed = 0;
    std::size_t operator()(std::string_view id) const {
      return XXH3_64bits_withSeed(id.data(), id.size(), seed);
    }
    std::size_t operator()(const Job* job) const { return job->id_hash; }
  };
  struct IdEqual {
    using is_transparent = void;
    static std::string_view id(std::string_view text) { return text; }
    static std::string_view id(const Job* job) { return job->id(); }
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      if constexpr (std::is_same_v<A, B>)
        return a == b;  // two records: a job is only ever indexed once
      else
        return id(a) == id(b);
    }
  };

  Job& slot(std::size_t index) const { return chunks_[index / kChunk][index % kChunk]; }

  std::size_t jobs_max_;
  std::uint64_t first_generation_;
  std::size_t size_ = 0;
  std::vector<std::unique_ptr<Job[]>> chunks_;
  std::vector<std::uint64_t> generations_;  // by slot
  std::vector<std::uint32_t> free_;
  absl::flat_hash_set<Job*, IdHash, IdEqual> by_id_;
};

}  // namespace lanemq::core
