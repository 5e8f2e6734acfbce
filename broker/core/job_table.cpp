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
  if (free_.empty()) {
    const std::size_t first = chunks_.size() * kChunk;
    LANEMQ_CHECK(first + kChunk <= std::size_t{1} << kSlotBits);
    chunks_.push_back(std::make_unique_for_overwrite<Job[]>(kChunk));
    generations_.resize(first + kChunk, first_generation_);
    for (std::size_t i = kChunk; i-- > 0;)
      free_.push_back(static_cast<std::uint32_t>(first + i));
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  ++size_;
  Job& job = slot(index);
  job.number = JobNumber{++generations_[index] << kSlotBits | index};
  return job;
}

void JobTable::index(Job& job) {
  job.id_hash = by_id_.hash_function()(job.id());
  const bool fresh = by_id_.insert(&job).second;
  LANEMQ_CHECK(fresh);
}

Job* JobTable::find(std::string_view id) const {
  const auto place = by_id_.find(id);
  return place == by_id_.end() ? nullptr : *place;
}

Job* JobTable::find(JobNumber number) const {
  const auto value = static_cast<std::uint64_t>(number);
  const std::size_t index = value & ((std::uint64_t{1} << kSlotBits) - 1);
  if (index >= generations_.size() || value == 0) return nullptr;
  Job& job = slot(index);
  return job.number == number ? &job : nullptr;
}

void JobTable::erase(Job& job) {
  const auto index =
      static_cast<std::uint32_t>(static_cast<std::uint64_t>(job.number) & ((1u << kSlotBits) - 1));
  by_id_.erase(&job);
  std::destroy_at(&job);
  // Not construct_at: it would write zeros over all of a cold record first.
  ::new (&job) Job;
  free_.push_back(index);
  --size_;
}

}  // namespace lanemq::core
