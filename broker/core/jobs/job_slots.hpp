// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "broker/core/base/intrusive_list.hpp"

namespace lanemq::core {

/// Memory for jobs with their texts behind them: slots of a few sizes in chunks of one size each, so that a
/// job pays for what it holds and no header.
///
/// A slot that is given back is the next one of its chunk to be taken, and chunks that are in use are filled
/// before others are begun: what is in flight stays in few cache lines. A chunk that is empty serves any
/// size again, and where no chunk of a size has room a free slot of a larger one is taken before a new
/// chunk; so that memory follows the jobs there are, not the most there ever were of each size.
class JobSlots {
 public:
  static constexpr std::size_t kStep = 32;  ///< between sizes
  static constexpr std::size_t kSizes = 9;

  /// `slot_min`: the smallest size. Requires: a multiple of 16.
  explicit JobSlots(std::size_t slot_min) : slot_min_(slot_min) {}
  JobSlots(const JobSlots&) = delete;
  JobSlots& operator=(const JobSlots&) = delete;

  std::size_t slot_max() const { return slot_min_ + (kSizes - 1) * kStep; }
  /// Aligned for any object; stays where it is. Requires: bytes <= slot_max().
  void* take(std::size_t bytes);
  /// Requires: it was taken here.
  void give_back(void* slot);
  /// Bytes taken from the system.
  std::size_t reserved() const { return regions_.size() * kRegionBytes; }

 private:
  static constexpr std::size_t kChunkBytes =
      std::size_t{64} * 1024;                                    // and so aligned: a slot finds its chunk
  static constexpr std::size_t kRegionBytes = 16 * kChunkBytes;  // what is taken from the system at once

  struct Free {
    Free* next;
  };
  /// Stands at the beginning of its memory.
  struct alignas(std::max_align_t) Chunk {
    ListHook<Chunk> hook;  // among the spare ones, or those of its size that have a free slot
    Free* free = nullptr;  // the one given back last first
    std::uint32_t size = 0, used = 0;
    std::uint32_t unused = 0;  // where the slots begin that were never taken
    std::uint32_t number = 0;  // of its size

    bool full() const { return free == nullptr && unused + size > kChunkBytes; }
  };
  struct RegionDeleter {
    void operator()(std::byte* region) const { ::operator delete (region, std::align_val_t{kChunkBytes}); }
  };
  using Chunks = IntrusiveList<Chunk, &Chunk::hook>;

  Chunk& chunk_for(std::size_t number);
  void begin(Chunk& chunk, std::size_t number) const;

  std::size_t slot_min_;
  std::array<Chunks, kSizes> open_;  // with a free slot, by size
  Chunks spare_;
  std::vector<std::unique_ptr<std::byte, RegionDeleter>> regions_;
};

}  // namespace lanemq::core
