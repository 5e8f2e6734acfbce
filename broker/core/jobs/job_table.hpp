// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <xxhash.h>

#include "broker/core/jobs/id_index.hpp"
#include "broker/core/jobs/job.hpp"
#include "broker/core/jobs/job_slots.hpp"
#include "broker/core/jobs/kept_result.hpp"

namespace lanemq::core {

/// All jobs, and all kept results in the place of their jobs: found by number in O(1), and by an index of
/// ids. Owns the jobs, which never move.
///
/// Jobs live in slots that are used again (JobSlots), their texts behind them: what is in flight stays in few
/// cache lines, however many results are kept. Places are used again in turn, so that no
/// place's generation runs ahead: a number passes 2^53 only after 2^29 jobs in each of at least 1024 places.
class JobTable {
 public:
  /// Numbers begin at a generation below 2^28 that the caller draws, so that a worker's late words about a
  /// job of an earlier life of the broker do not fit a job of this one; and they stay below 2^53 for long,
  /// which is as far as the integers of some languages go.
  explicit JobTable(std::size_t jobs_max, std::uint64_t first_generation = 0, std::uint64_t hash_seed = 0)
      : jobs_max_(jobs_max),
        first_generation_(first_generation),
        generation_(first_generation),
        hash_seed_(hash_seed) {}
  ~JobTable();
  JobTable(const JobTable&) = delete;
  JobTable& operator=(const JobTable&) = delete;

  bool full() const { return size_ >= jobs_max_; }
  /// Jobs and kept results; one that has both counts once.
  std::size_t size() const { return size_; }

  /// A fresh job with a number, its texts and nothing else. Requires: !full().
  Job& create(const JobText::Contents& contents);
  /// Makes the job findable by its id. Requires: nothing else has it.
  void index(Job& job);
  /// The same where something else may have the id: then false.
  bool try_index(Job& job);
  Record* find(std::string_view id) const;
  /// The highest generation so far; numbers of later ones were never used. Before the first job another one
  /// may be set to begin with.
  std::uint64_t generation() const { return generation_; }
  void set_first_generation(std::uint64_t generation) { first_generation_ = generation_ = generation; }

  /// What was known before the broker stopped, under its old number: a fresh job, or a result that is already
  /// made. Null where the table is full or the number is taken. No job is created before restored().
  Job* restore(JobNumber number, const JobText::Contents& contents);
  bool restore(JobNumber number, KeptResult& result);
  /// Everything has been restored.
  void restored();

  /// Null for a number that is not, or no longer, a job's. Of one that has a job and a result: the job.
  Record* find(JobNumber number) const;

  /// All of them stand in places with numbers from 0 on, and each keeps its place while it is known: what is
  /// listed place by place lists each once, whatever comes and goes meanwhile.
  std::size_t places() const { return places_.size() * kChunk; }
  /// Null where nothing is. Requires: index < places().
  Record* at(std::size_t index) const { return place(index).record(); }

  /// The job has ended: from now on its id means its result, or nothing where that is null. The job itself
  /// stays, under its number, until it is erased. Requires: its state says so.
  void replace(Job& job, KeptResult* result);
  /// What the job has from now on while it is not in its queue. Requires: it has none, and its state is
  /// another than queued.
  Away& go_away(Job& job);
  /// The job comes back to its queue. Requires: it is in no list.
  void come_back(Job& job);
  /// Ends a job's record. Requires: it was replaced. Its number means its result from now on, where it has
  /// one.
  void erase(Job& job);
  /// The result is where it was not before.
  void moved(KeptResult& result);
  /// Forgets a result that is about to be destroyed.
  void forget(KeptResult& result);

 private:
  static constexpr std::size_t kChunk = 1024, kAwayChunk = 256;
  static constexpr int kSlotBits = IdIndex::kPlaceBits;  // of a number; the rest is the generation
  static constexpr int kNumberBits = 56;

  struct AwaySlot {
    alignas(Away) std::array<std::byte, sizeof(Away)> bytes;
  };

  using PlaceIndex = std::uint32_t;  // below 2^24, since numbers have as many bits for it

  /// What a number stands for: a record, or the generation that the place was used for last and the place
  /// that is free after it.
  class Place {
   public:
    Record* record() const { return is_free() ? nullptr : reinterpret_cast<Record*>(word_ & ~kResult); }
    /// Null for a result, which it does not look at.
    Job* job() const {
      return (word_ & (kFree | kResult)) != 0 ? nullptr : static_cast<Job*>(reinterpret_cast<Record*>(word_));
    }
    void hold(Record& record) {
      word_ = reinterpret_cast<std::uint64_t>(&record) | (record.is_result ? kResult : 0);
    }
    void leave(std::uint64_t generation) { word_ = generation << kGenerationAt | kFree; }
    /// Requires: it is free.
    std::uint64_t generation() const { return word_ >> kGenerationAt; }
    PlaceIndex next() const { return static_cast<PlaceIndex>(word_ >> 1 & kIndexMax); }
    void set_next(PlaceIndex next) { word_ = (word_ & ~(kIndexMax << 1)) | std::uint64_t{next} << 1; }

   private:
    static constexpr std::uint64_t kIndexMax = (std::uint64_t{1} << kSlotBits) - 1;
    static constexpr int kGenerationAt = 1 + kSlotBits;
    static constexpr std::uint64_t kFree = 1, kResult = 2;  // beside an address
    static_assert(alignof(Record) > kResult + kFree);

    bool is_free() const { return (word_ & kFree) != 0; }

    std::uint64_t word_ = kFree;
  };
  static_assert(sizeof(Place) == 8);

  /// Ids come from strangers: with a seed that they do not know, nobody can aim at one place.
  std::uint64_t hash_of(std::string_view id) const {
    return XXH3_64bits_withSeed(id.data(), id.size(), hash_seed_);
  }
  static PlaceIndex index_of(JobNumber number) {
    return static_cast<PlaceIndex>(static_cast<std::uint64_t>(number) &
                                   ((std::uint64_t{1} << kSlotBits) - 1));
  }
  static std::uint64_t generation_of(JobNumber number) {
    return static_cast<std::uint64_t>(number) >> kSlotBits;
  }
  /// What the id of the place's record means: its result, where it has one.
  Record* meant(PlaceIndex index) const {
    Record* const record = place(index).record();
    KeptResult* const result = record->result();
    return result != nullptr ? static_cast<Record*>(result) : record;
  }
  Place& place(std::size_t index) const { return places_[index / kChunk][index % kChunk]; }
  void add_places();
  Place* take_place(JobNumber number);
  Job& take_job(const JobText::Contents& contents);
  void leave(JobNumber number);

  void push_free(PlaceIndex index);

  std::size_t jobs_max_;
  std::uint64_t first_generation_, generation_, hash_seed_;
  std::size_t size_ = 0;
  std::vector<std::unique_ptr<Place[]>> places_;
  std::size_t free_places_ = 0;  // a line through them, the one left longest ago first
  PlaceIndex first_free_ = 0, last_free_ = 0;
  JobSlots slots_{sizeof(Job) + JobSlots::kStep};
  std::vector<std::unique_ptr<AwaySlot[]>> away_chunks_;
  std::vector<void*> free_aways_;
  IdIndex by_id_;
};

/// Whether it is kept on disk.
inline bool is_durable(const Record& record) {
  const KeptResult* const result = record.result();
  return result != nullptr ? result->durable : record.job()->durable;
}

}  // namespace lanemq::core
