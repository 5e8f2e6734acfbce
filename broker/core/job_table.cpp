// SPDX-License-Identifier: Apache-2.0
#include "broker/core/job_table.hpp"

#include <memory>
#include <new>

#include "broker/core/check.hpp"

namespace lanemq::core {

std::string_view name_of(JobState state) {
  switch (state) {
    case JobState::queued:
      return "queued";
    case JobState::delayed:
      return "delayed";
    case JobState::running:
      return "running";
    case JobState::succeeded:
      return "succeeded";
    case JobState::failed:
      return "failed";
    case JobState::cancelled:
      return "cancelled";
    case JobState::expired:
      return "expired";
  }
  return "unknown";
}

Job& JobTable::create() {
  LANEMQ_CHECK(!full());
  if (free_places_.empty()) {
    const std::size_t first = places_.size() * kChunk;
    LANEMQ_CHECK(first + kChunk <= std::size_t{1} << kSlotBits);
    places_.push_back(std::make_unique<Place[]>(kChunk));
    for (std::size_t i = first + kChunk; i-- > first;) {
      place(i).number = JobNumber{first_generation_ << kSlotBits | i};
      free_places_.push_back(static_cast<std::uint32_t>(i));
    }
  }
  if (free_jobs_.empty()) {
    chunks_.push_back(std::make_unique_for_overwrite<Job[]>(kChunk));
    for (std::size_t i = kChunk; i-- > 0;)
      free_jobs_.push_back(&chunks_.back()[i]);
  }
  Place& place = this->place(free_places_.back());
  free_places_.pop_back();
  Job& job = *free_jobs_.back();
  free_jobs_.pop_back();
  ++size_;
  place.number = JobNumber{static_cast<std::uint64_t>(place.number) + (std::uint64_t{1} << kSlotBits)};
  place.record = &job;
  job.number = place.number;
  return job;
}

void JobTable::index(Job& job) {
  const bool fresh = by_id_.insert(&job).second;
  LANEMQ_CHECK(fresh);
}

Record* JobTable::find(std::string_view id) const {
  const auto entry = by_id_.find(id);
  return entry == by_id_.end() ? nullptr : *entry;
}

Record* JobTable::find(JobNumber number) const {
  const std::size_t index = index_of(number);
  if (index >= places_.size() * kChunk || place(index).number != number) return nullptr;
  return place(index).record;
}

void JobTable::replace(Job& job, KeptResult* result) {
  const auto entry = by_id_.find(static_cast<Record*>(&job));
  LANEMQ_CHECK(entry != by_id_.end() && job.result == nullptr);
  if (result == nullptr) {
    by_id_.erase(entry);
    return;
  }
  // The key changes to another of the same id, so to its equal.
  const_cast<Record*&>(*entry) = result;
  job.result = result;
  result->job = &job;
}

void JobTable::erase(Job& job) {
  if (KeptResult* const result = job.result) {
    result->job = nullptr;
    place(index_of(job.number)).record = result;
  } else {
    leave(job.number);
  }
  std::destroy_at(&job);
  // Not construct_at: it would write zeros over all of the record first.
  ::new (&job) Job;
  free_jobs_.push_back(&job);
}

void JobTable::forget(KeptResult& result) {
  by_id_.erase(static_cast<Record*>(&result));
  if (result.job != nullptr)
    result.job->result = nullptr;
  else
    leave(result.number);
}

/// Nothing has the number any more.
void JobTable::leave(JobNumber number) {
  const std::size_t index = index_of(number);
  place(index).record = nullptr;
  free_places_.push_back(static_cast<std::uint32_t>(index));
  --size_;
}

}  // namespace lanemq::core
