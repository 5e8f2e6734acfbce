// SPDX-License-Identifier: Apache-2.0
#include "broker/core/jobs/job_table.hpp"

#include <algorithm>
#include <memory>
#include <new>

#include "broker/core/base/check.hpp"

namespace lanemq::core {
namespace {

/// A job's share of the tables when they have just grown.
constexpr std::size_t kIndexBytes = sizeof(std::uint64_t) + IdIndex::kBytesMost;
/// The bytes behind a record besides texts: their ends, the numbers, and the slot's rounding.
constexpr std::size_t kTailBytes =
    JobText::kParts * sizeof(std::uint16_t) + sizeof(std::uint64_t) + sizeof(Expected) + JobSlots::kStep / 2;
static_assert(Job::kRecordBytes >= sizeof(Job) + kTailBytes + kIndexBytes);

}  // namespace

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
  for (std::size_t index = 0; index < places(); ++index)
    if (Job* const job = place(index).job()) std::destroy_at(job);
}

void JobTable::add_places() {
  LANEMQ_CHECK(places() + kChunk <= kPlacesMax);
  places_.push_back(std::make_unique<Place[]>(kChunk));
  for (std::size_t i = places() - kChunk; i < places(); ++i)
    place(i).leave(first_generation_);
}

Job& JobTable::take_job(const JobText::Contents& contents) {
  Job& job = *::new (slots_.take(sizeof(Job) + JobText::tail_bytes(contents))) Job;
  // JobText expects its bytes right behind the job.
  LANEMQ_CHECK(static_cast<void*>(&job.text + 1) == static_cast<void*>(&job + 1));
  job.text.fill(contents);
  return job;
}

Job& JobTable::create(const JobText::Contents& contents) {
  LANEMQ_CHECK(!full());
  if (free_places_ == 0) {
    add_places();
    for (std::size_t i = places() - kChunk; i < places(); ++i)
      push_free(static_cast<PlaceIndex>(i));
  }
  const PlaceIndex index = first_free_;
  Place& place = this->place(index);
  first_free_ = place.next();
  --free_places_;
  Job& job = take_job(contents);
  ++size_;
  // An earlier life may have used the place after the restored record was made.
  const std::uint64_t generation = std::max(place.generation(), first_generation_) + 1;
  generation_ = std::max(generation_, generation);
  place.hold(job);
  job.number = number_of(generation, index);
  return job;
}

/// Null where the table is full, or the number is taken or impossible.
JobTable::Place* JobTable::take_place(JobNumber number) {
  const std::size_t index = index_of(number);
  if (full() || number == JobNumber{} || generation_of(number) > kGenerationMax) return nullptr;
  while (index >= places())
    add_places();
  Place& place = this->place(index);
  if (place.record() != nullptr) return nullptr;
  ++size_;
  return &place;
}

Job* JobTable::restore(JobNumber number, const JobText::Contents& contents) {
  Place* const place = take_place(number);
  if (place == nullptr) return nullptr;
  Job& job = take_job(contents);
  place->hold(job);
  job.number = number;
  return &job;
}

bool JobTable::restore(JobNumber number, KeptResult& result) {
  if (find(result.id()) != nullptr) return false;
  Place* const place = take_place(number);
  if (place == nullptr) return false;
  place->hold(result);
  by_id_.insert(hash_of(result.id()), index_of(number));
  return true;
}

void JobTable::restored() {
  for (std::size_t i = 0; i < places(); ++i)
    if (place(i).record() == nullptr) push_free(static_cast<PlaceIndex>(i));
}

void JobTable::index(Job& job) {
  by_id_.insert(hash_of(job.id()), index_of(job.number));
}

bool JobTable::try_index(Job& job) {
  if (find(job.id()) != nullptr) return false;
  index(job);
  return true;
}

Record* JobTable::find(std::string_view id) const {
  const PlaceIndex index =
      by_id_.find(hash_of(id), [&](PlaceIndex place) { return meant(place)->id() == id; });
  return index == IdIndex::kNone ? nullptr : meant(index);
}

Record* JobTable::find(JobNumber number) const {
  const PlaceIndex index = index_of(number);
  if (index >= places()) return nullptr;
  Record* const record = place(index).record();
  return record == nullptr || record->number != number ? nullptr : record;
}

void JobTable::replace(Job& job, KeptResult* result) {
  LANEMQ_CHECK(job.ended() && job.result() == nullptr);
  if (result == nullptr) {
    const bool erased = by_id_.erase(hash_of(job.id()), index_of(job.number));
    LANEMQ_CHECK(erased);
    return;
  }
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
    place(index_of(job.number)).hold(*result);
  } else {
    leave(job.number);
  }
  if (job.away() != nullptr) come_back(job);
  std::destroy_at(&job);
  slots_.give_back(&job);
}

void JobTable::moved(KeptResult& result) {
  if (result.job != nullptr)
    result.job->unqueued.result = &result;
  else
    place(index_of(result.number)).hold(result);
}

void JobTable::forget(KeptResult& result) {
  by_id_.erase(hash_of(result.id()), index_of(result.number));
  if (result.job != nullptr)
    result.job->unqueued.result = nullptr;
  else
    leave(result.number);
}

/// Frees the number's place.
void JobTable::leave(JobNumber number) {
  place(index_of(number)).leave(generation_of(number));
  push_free(index_of(number));
  --size_;
}

void JobTable::push_free(PlaceIndex index) {
  if (free_places_++ == 0)
    first_free_ = index;
  else
    place(last_free_).set_next(index);
  last_free_ = index;
}

}  // namespace lanemq::core
