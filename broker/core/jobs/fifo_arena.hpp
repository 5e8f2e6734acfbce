// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <memory>

namespace lanemq::core {

/// Memory for blocks that are freed in the order in which they were made. They lie behind each other, so that
/// writing and forgetting many of them goes through the caches as a stream, and does not make the memory cold
/// that the rest of the program uses again and again.
class FifoArena {
 public:
  /// What is taken from the system at once; a larger block gets a chunk of its own.
  static constexpr std::size_t kChunkBytes = std::size_t{64} * 1024;

  /// Aligned for any object; good until it is the oldest and freed.
  void* allocate(std::size_t bytes);
  /// Frees the oldest block. Requires: it was allocated with so many bytes.
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
  Chunk spare_;               // the chunk that was emptied last
};

}  // namespace lanemq::core
