// SPDX-License-Identifier: Apache-2.0
#include "broker/core/jobs/job_slots.hpp"

#include <algorithm>

#include "broker/core/base/check.hpp"

namespace lanemq::core {

/// Sets an unused chunk up for slots of one size.
void JobSlots::begin(Chunk& chunk, std::size_t number) const {
  chunk.free = nullptr;
  chunk.size = static_cast<std::uint32_t>(slot_min_ + number * kStep);
  chunk.unused = sizeof(Chunk);
  chunk.number = static_cast<std::uint32_t>(number);
}

/// A chunk with a free slot of that size, or of the next larger size that has one.
JobSlots::Chunk& JobSlots::chunk_for(std::size_t number) {
  for (std::size_t larger = number; larger < kSizes; ++larger)
    if (!open_[larger].empty()) return *open_[larger].front();
  if (spare_.empty()) {
    regions_.emplace_back(
        static_cast<std::byte*>(::operator new (kRegionBytes, std::align_val_t{kChunkBytes})));
    for (std::size_t at = 0; at < kRegionBytes; at += kChunkBytes)
      spare_.push_back(*::new (regions_.back().get() + at) Chunk);
  }
  Chunk& chunk = *spare_.pop_front();
  begin(chunk, number);
  open_[number].push_back(chunk);
  return chunk;
}

void* JobSlots::take(std::size_t bytes) {
  LANEMQ_CHECK(bytes <= slot_max());
  const std::size_t number = bytes <= slot_min_ ? 0 : (bytes - slot_min_ + kStep - 1) / kStep;
  Chunk& chunk = open_[number].empty() ? chunk_for(number) : *open_[number].front();
  void* slot = chunk.free;
  if (slot != nullptr) {
    chunk.free = chunk.free->next;
  } else {
    slot = reinterpret_cast<std::byte*>(&chunk) + chunk.unused;
    chunk.unused += chunk.size;
  }
  ++chunk.used;
  if (chunk.full()) open_[chunk.number].remove(chunk);
  return slot;
}

void JobSlots::give_back(void* slot) {
  const auto address = reinterpret_cast<std::uintptr_t>(slot);
  Chunk& chunk = *reinterpret_cast<Chunk*>(address - address % kChunkBytes);
  Chunks& open = open_[chunk.number];
  if (chunk.full()) open.push_back(chunk);
  chunk.free = ::new (slot) Free{chunk.free};
  if (--chunk.used > 0 || open.size() == 1)
    return;  // the last chunk of a size stays: it is likely needed again
  open.remove(chunk);
  spare_.push_back(chunk);
}

}  // namespace lanemq::core
