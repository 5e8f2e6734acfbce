// SPDX-License-Identifier: Apache-2.0
#include "broker/core/job_table.hpp"

#include <algorithm>
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

/// Requires: no place is free.
void JobTable::add_places() {
  const std::size_t first = places_.size() * kChunk;
  LANEMQ_CHECK(first + kChunk <= std::size_t{1} << kSlotBits);
  places_.push_back(std::make_unique<Place[]>(kChunk));
  for (std::size_t i = first; i < first + kChunk; ++i)
    place(i).number = JobNumber{first_generation_ << kSlotBits | i};
}

Job& JobTable::take_job() {
  if (free_jobs_.empty()) {
    chunks_.push_back(std::make_unique_for_overwrite<Job[]>(kChunk));
    for (std::size_t i = kChunk; i-- > 0;)
      free_jobs_.push_back(&chunks_.back()[i]);
  }
  Job& job = *free_jobs_.back();
  free_jobs_.pop_back();
  return job;
}

Job& JobTable::create() {
  LANEMQ_CHECK(!full());
  if (free_places_.empty()) {
    const std::size_t first = places_.size() * kChunk;
    add_places();
    free_places_.make_room(places());
    for (std::size_t i = first; i < places(); ++i)
      free_places_.push(static_cast<std::uint32_t>(i));
  }
  Place& place = this->place(free_places_.pop());
  Job& job = take_job();
  ++size_;
  // What was restored there may be older than what an earlier life has used the place for since.
  const std::uint64_t generation =
      std::max(static_cast<std::uint64_t>(place.number) >> kSlotBits, first_generation_) + 1;
  place.number = JobNumber{generation << kSlotBits | index_of(place.number)};
  generation_ = std::max(generation_, generation);
  place.record = &job;
  job.number = place.number;
  return job;
}

JobTable::Place* JobTable::take_place(JobNumber number) {
  const std::size_t index = index_of(number);
  if (full() || number == JobNumber{}) return nullptr;
  while (index >= places())
    add_places();
  Place& place = this->place(index);
  if (place.record != nullptr) return nullptr;
  place.number = number;
  ++size_;
  return &place;
}

Job* JobTable::restore(JobNumber number) {
  Place* const place = take_place(number);
  if (place == nullptr) return nullptr;
  Job& job = take_job();
  place->record = &job;
  job.number = number;
  return &job;
}

bool JobTable::restore(JobNumber number, KeptResult& result) {
  Place* const place = take_place(number);
  if (place == nullptr || !by_id_.insert(&result).second) return false;
  place->record = &result;
  return true;
}

void JobTable::restored() {
  free_places_.make_room(places());
  for (std::size_t i = 0; i < places(); ++i)
    if (place(i).record == nullptr) free_places_.push(static_cast<std::uint32_t>(i));
}

void JobTable::index(Job& job) {
  const bool fresh = try_index(job);
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
  LANEMQ_CHECK(entry != by_id_.end() && job.ended() && job.result() == nullptr);
  if (result == nullptr) {
    by_id_.erase(entry);
    return;
  }
  // The key changes to another of the same id, so to its equal.
  const_cast<Record*&>(*entry) = result;
  job.unqueued.result = result;
  result->job = &job;
}

Away& JobTable::go_away(Job& job) {
  LANEMQ_CHECK(job.state != JobState::queued && job.unqueued.away == nullptr);
  if (free_aways_.empty()) {
    away_chunks_.push_back(std::make_unique_for_overwrite<AwaySlot[]>(kAwayChunk));
    for (std::size_t i = kAwayChunk; i-- > 0;)
      free_aways_.push_back(&away_chunks_.back()[i]);
  }
  Away& away = *::new (free_aways_.back()) Away(job);
  free_aways_.pop_back();
  job.unqueued.away = &away;
  return away;
}

void JobTable::come_back(Job& job) {
  Away& away = job.at_away();
  LANEMQ_CHECK(away.worker == nullptr);
  job.unqueued.away = nullptr;
  free_aways_.push_back(&away);
}

void JobTable::erase(Job& job) {
  if (KeptResult* const result = job.result()) {
    result->job = nullptr;
    place(index_of(job.number)).record = result;
  } else {
    leave(job.number);
  }
  if (job.away() != nullptr) come_back(job);
  std::destroy_at(&job);
  // Not construct_at: it would write zeros over all of the record first.
  ::new (&job) Job;
  free_jobs_.push_back(&job);
}

void JobTable::forget(KeptResult& result) {
  by_id_.erase(static_cast<Record*>(&result));
  if (result.job != nullptr)
    result.job->unqueued.result = nullptr;
  else
    leave(result.number);
}

/// Nothing has the number any more.
void JobTable::leave(JobNumber number) {
  const std::size_t index = index_of(number);
  place(index).record = nullptr;
  free_places_.push(static_cast<std::uint32_t>(index));
  --size_;
}

}  // namespace lanemq::core
