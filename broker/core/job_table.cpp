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

JobTable::~JobTable() {
  for (const Place& place : places_)
    if (place.record != nullptr)
      if (KeptResult* const result = place.record->result()) KeptResult::Deleter()(result);
}

Job& JobTable::create() {
  LANEMQ_CHECK(!full());
  if (free_places_.empty()) {
    const std::size_t first = places_.size();
    LANEMQ_CHECK(first + kChunk <= std::size_t{1} << kSlotBits);
    for (std::size_t i = 0; i < kChunk; ++i)
      places_.push_back({JobNumber{first_generation_ << kSlotBits | (first + i)}, nullptr});
    for (std::size_t i = kChunk; i-- > 0;)
      free_places_.push_back(static_cast<std::uint32_t>(first + i));
  }
  if (free_jobs_.empty()) {
    chunks_.push_back(std::make_unique_for_overwrite<Job[]>(kChunk));
    for (std::size_t i = kChunk; i-- > 0;)
      free_jobs_.push_back(&chunks_.back()[i]);
  }
  Place& place = places_[free_places_.back()];
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
  const auto place = by_id_.find(id);
  return place == by_id_.end() ? nullptr : *place;
}

Record* JobTable::find(JobNumber number) const {
  const std::size_t index = index_of(number);
  if (index >= places_.size() || places_[index].number != number) return nullptr;
  return places_[index].record;
}

KeptResult* JobTable::replace(Job& job, KeptResult::Ptr result) {
  const auto place = by_id_.find(static_cast<Record*>(&job));
  LANEMQ_CHECK(place != by_id_.end() && job.result == nullptr);
  if (result == nullptr) {
    by_id_.erase(place);
    return nullptr;
  }
  // The key changes to another of the same id, so to its equal.
  const_cast<Record*&>(*place) = result.get();
  job.result = result.get();
  result->job = &job;
  return result.release();
}

void JobTable::erase(Job& job) {
  if (KeptResult* const result = job.result) {
    result->job = nullptr;
    places_[index_of(job.number)].record = result;
  } else {
    leave(job.number);
  }
  std::destroy_at(&job);
  // Not construct_at: it would write zeros over all of the record first.
  ::new (&job) Job;
  free_jobs_.push_back(&job);
}

void JobTable::erase(KeptResult& result) {
  by_id_.erase(static_cast<Record*>(&result));
  if (result.job != nullptr)
    result.job->result = nullptr;
  else
    leave(result.number);
  KeptResult::Deleter()(&result);
}

/// Nothing has the number any more.
void JobTable::leave(JobNumber number) {
  const std::size_t index = index_of(number);
  places_[index].record = nullptr;
  free_places_.push_back(static_cast<std::uint32_t>(index));
  --size_;
}

}  // namespace lanemq::core
