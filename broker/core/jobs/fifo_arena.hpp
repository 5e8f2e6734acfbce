// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <memory>

namespace lanemq::core {

/// Memory for blocks that are freed in the order in which they were made. The blocks are contiguous, so that
/// writing and forgetting many blocks streams through the caches and evicts little that the program uses
/// often.
class FifoArena {
 public:
  /// Bytes taken from the system at once; a larger block gets a chunk of its own.
  static constexpr std::size_t kChunkBytes = std::size_t{64} * 1024;

  /// Aligned for any object; valid until free_oldest() frees it.
  void* allocate(std::size_t bytes);
  /// Frees the oldest block. Requires: it was allocated with that size.
  void free_oldest(std::size_t bytes);
  /// Bytes taken from the system.
  std::size_t reserved() const;

 private:
  struct Chunk {
    std::unique_ptr<std::byte[]> memory;
    std::size_t size = 0, used = 0, freed = 0;
  };

  static std::size_t rounded(std::size_t bytes) {
    return (bytes + alignof(std::max_align_t) - 1) / alignof(std::max_align_t) * alignof(std::max_align_t);
  }

  std::deque<Chunk> chunks_;  // the oldest first
  Chunk spare_;               // the last chunk that was emptied
};

}  // namespace lanemq::core
