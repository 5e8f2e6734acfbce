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

/// All jobs and kept results: found by number in O(1), and by an index of ids. Owns the jobs, which never
/// move; a result takes its job's place.
///
/// Jobs live in slots that are used again (JobSlots), so that what is in flight stays in few cache lines,
/// however many results are kept. Places are used again in turn, so that their generations grow evenly:
/// numbers pass 2^53 only after 2^29 jobs in each of at least 1024 places.
class JobTable {
 public:
  /// A job's number is a generation, then a place: jobs in the table at the same time have different places.
  using PlaceIndex = std::uint32_t;
  static constexpr int kNumberBits = 56, kSlotBits = IdIndex::kPlaceBits;  ///< of a number, of its place
  static constexpr std::size_t kPlacesMax = std::size_t{1} << kSlotBits;
  static constexpr std::uint64_t kGenerationMax = (std::uint64_t{1} << (kNumberBits - kSlotBits)) - 1;
  static constexpr PlaceIndex index_of(JobNumber number) {
    return static_cast<PlaceIndex>(static_cast<std::uint64_t>(number) & (kPlacesMax - 1));
  }
  static constexpr std::uint64_t generation_of(JobNumber number) {
    return static_cast<std::uint64_t>(number) >> kSlotBits;
  }
  static constexpr JobNumber number_of(std::uint64_t generation, std::size_t place) {
    return JobNumber{generation << kSlotBits | place};
  }

  /// Numbers begin at a generation below 2^28 that the caller draws: so a worker's late message about a job
  /// of an earlier life of the broker does not fit a job of this one. They stay below 2^53, the largest exact
  /// integer of some languages, for long.
  explicit JobTable(std::size_t jobs_max, std::uint64_t first_generation = 0, std::uint64_t hash_seed = 0)
      : jobs_max_(jobs_max),
        first_generation_(first_generation),
        generation_(first_generation),
        hash_seed_(hash_seed) {}
  ~JobTable();
  JobTable(const JobTable&) = delete;
  JobTable& operator=(const JobTable&) = delete;

  bool full() const { return size_ >= jobs_max_; }
  /// Jobs and kept results; a job with a result counts once.
  std::size_t size() const { return size_; }

  /// A new job with a number and its texts. Requires: !full().
  Job& create(const JobText::Contents& contents);
  /// Makes the job findable by its id. Requires: no other record has the id.
  void index(Job& job);
  /// The same; false where another record has the id.
  bool try_index(Job& job);
  Record* find(std::string_view id) const;
  /// The highest generation so far: numbers of later ones were never used. The setter is for the start,
  /// before the first job.
  std::uint64_t generation() const { return generation_; }
  void set_first_generation(std::uint64_t generation) { first_generation_ = generation_ = generation; }

  /// Restores a job under its old number: a new record, or a finished result. Null where the table is full or
  /// the number is taken. Requires: before restored(), and create() comes after it.
  Job* restore(JobNumber number, const JobText::Contents& contents);
  bool restore(JobNumber number, KeptResult& result);
  /// To be called when all jobs and results are restored.
  void restored();

  /// Null for an unknown number. A job that has a result is returned as the job.
  Record* find(JobNumber number) const;

  /// The number of places, from 0 on. A record keeps its place while it is known, so that a list place by
  /// place has each once, whatever comes and goes meanwhile.
  std::size_t places() const { return places_.size() * kChunk; }
  /// The place's record; null: none. Requires: index < places().
  Record* at(std::size_t index) const { return place(index).record(); }

  /// The job has ended: its id now leads to its result, or nowhere where that is null. Its number leads to
  /// the job until erase(). Requires: its state is an end.
  void replace(Job& job, KeptResult* result);
  /// Gives the job an Away for its time outside the queue. Requires: it has none, and is not queued.
  Away& go_away(Job& job);
  /// Takes the Away back. Requires: it is in no list.
  void come_back(Job& job);
  /// Destroys an ended job. Its number then leads to its result, if it has one. Requires: replace() was
  /// called.
  void erase(Job& job);
  /// The result's address has changed.
  void moved(KeptResult& result);
  /// Forgets a result that is about to be destroyed.
  void forget(KeptResult& result);

 private:
  static constexpr std::size_t kChunk = 1024, kAwayChunk = 256;

  struct AwaySlot {
    alignas(Away) std::array<std::byte, sizeof(Away)> bytes;
  };

  /// A place: its record, or while it is free its last generation and the next free place.
  class Place {
   public:
    Record* record() const { return is_free() ? nullptr : reinterpret_cast<Record*>(word_ & ~kResult); }
    /// Null for a result; reads the word alone, not the record.
    Job* job() const {
      return (word_ & (kFree | kResult)) != 0 ? nullptr : static_cast<Job*>(reinterpret_cast<Record*>(word_));
    }
    void hold(Record& record) {
      word_ = reinterpret_cast<std::uint64_t>(&record) | (record.is_result ? kResult : 0);
    }
    void leave(std::uint64_t generation) { word_ = generation << kGenerationAt | kFree; }
    /// Requires: the place is free.
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

  /// Seeded, since strangers choose ids: nobody can aim at one place.
  std::uint64_t hash_of(std::string_view id) const {
    return XXH3_64bits_withSeed(id.data(), id.size(), hash_seed_);
  }
  /// The record that the id leads to: the result, where there is one.
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
  std::size_t free_places_ = 0;  // linked, the longest free first
  PlaceIndex first_free_ = 0, last_free_ = 0;
  JobSlots slots_{sizeof(Job) + JobSlots::kStep};
  std::vector<std::unique_ptr<AwaySlot[]>> away_chunks_;
  std::vector<void*> free_aways_;
  IdIndex by_id_;
};

/// Whether the store has it.
inline bool is_durable(const Record& record) {
  const KeptResult* const result = record.result();
  return result != nullptr ? result->durable : record.job()->durable;
}

}  // namespace lanemq::core
