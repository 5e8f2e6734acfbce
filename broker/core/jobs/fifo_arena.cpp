// SPDX-License-Identifier: Apache-2.0
#include "broker/core/jobs/fifo_arena.hpp"

#include <algorithm>
#include <utility>

#include "broker/core/base/check.hpp"

namespace lanemq::core {

void* FifoArena::allocate(std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  if (chunks_.empty() || chunks_.back().size - chunks_.back().used < size) {
    // Drops an empty chunk that is too small: the first chunk must hold the oldest block.
    if (!chunks_.empty() && chunks_.back().used == 0) chunks_.pop_back();
    Chunk chunk = std::exchange(spare_, {});
    if (chunk.size < size) {
      chunk.size = std::max(size, kChunkBytes);
      chunk.memory = std::make_unique_for_overwrite<std::byte[]>(chunk.size);
    }
    chunks_.push_back(std::move(chunk));
  }
  Chunk& chunk = chunks_.back();
  std::byte* const block = chunk.memory.get() + chunk.used;
  chunk.used += size;
  return block;
}

void FifoArena::free_oldest(std::size_t bytes) {
  LANEMQ_CHECK(!chunks_.empty());
  Chunk& oldest = chunks_.front();
  oldest.freed += rounded(bytes);
  LANEMQ_CHECK(oldest.freed <= oldest.used);
  if (oldest.freed < oldest.used) return;
  oldest.used = oldest.freed = 0;
  if (chunks_.size() == 1) return;  // the only chunk is used again
  spare_ = std::move(oldest);
  chunks_.pop_front();
}

std::size_t FifoArena::reserved() const {
  std::size_t reserved = spare_.size;
  for (const Chunk& chunk : chunks_)
    reserved += chunk.size;
  return reserved;
}

}  // namespace lanemq::core
