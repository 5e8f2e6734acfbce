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

/// Memory for jobs with their texts behind them: slots of a few sizes, in chunks of one size each, without a
/// header per slot.
///
/// The slot that was given back last is taken first, and chunks in use are filled before others are begun: so
/// jobs in flight stay in few cache lines. An empty chunk can serve any size. Where no chunk of a size has
/// room, a free slot of a larger size is taken before a new chunk. So memory follows the jobs there are, not
/// the most there ever were of each size.
class JobSlots {
 public:
  static constexpr std::size_t kStep = 32;  ///< between sizes
  static constexpr std::size_t kSizes = 9;

  /// `slot_min`: the smallest size. Requires: a multiple of 16.
  explicit JobSlots(std::size_t slot_min) : slot_min_(slot_min) {}
  JobSlots(const JobSlots&) = delete;
  JobSlots& operator=(const JobSlots&) = delete;

  std::size_t slot_max() const { return slot_min_ + (kSizes - 1) * kStep; }
  /// Aligned for any object; it never moves. Requires: bytes <= slot_max().
  void* take(std::size_t bytes);
  /// Requires: take() returned it.
  void give_back(void* slot);
  /// Bytes taken from the system.
  std::size_t reserved() const { return regions_.size() * kRegionBytes; }

 private:
  static constexpr std::size_t kChunkBytes =
      std::size_t{64} * 1024;  // and aligned so: a slot's address tells its chunk
  static constexpr std::size_t kRegionBytes = 16 * kChunkBytes;  // taken from the system at once

  struct Free {
    Free* next;
  };
  /// Stands at the beginning of the chunk's memory.
  struct alignas(std::max_align_t) Chunk {
    ListHook<Chunk> hook;  // among the spare chunks, or those of its size with a free slot
    Free* free = nullptr;  // the slot given back last comes first
    std::uint32_t size = 0, used = 0;
    std::uint32_t unused = 0;  // offset of the slots that were never taken
    std::uint32_t number = 0;  // of the chunk's size

    bool full() const { return free == nullptr && unused + size > kChunkBytes; }
  };
  struct RegionDeleter {
    void operator()(std::byte* region) const { ::operator delete (region, std::align_val_t{kChunkBytes}); }
  };
  using Chunks = IntrusiveList<Chunk, &Chunk::hook>;

  Chunk& chunk_for(std::size_t number);
  void begin(Chunk& chunk, std::size_t number) const;

  std::size_t slot_min_;
  std::array<Chunks, kSizes> open_;  // chunks with a free slot, by size
  Chunks spare_;
  std::vector<std::unique_ptr<std::byte, RegionDeleter>> regions_;
};

}  // namespace lanemq::core
