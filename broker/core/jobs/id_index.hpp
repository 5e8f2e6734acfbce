// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace lanemq::core {

/// Finds the place of an id: 8 bytes each, with 24 bits for the place and 40 bits of the id's hash.
///
/// Each of 32 parts grows by itself, by a quarter, from its own entries: no record is read, and no turn moves
/// more than a 32nd of the table, however many ids there are.
class IdIndex {
 public:
  using Place = std::uint32_t;
  static constexpr int kPlaceBits = 24;
  static constexpr Place kNone = 0xFFFFFFFF;
  /// Most bytes of an id, when its part has just grown: parts are filled to four fifths.
  static constexpr std::size_t kBytesMost = sizeof(std::uint64_t) * 25 / 16 + 1;

  /// The place with that hash for which `is_meant(place)` is true; kNone: there is none.
  template <class IsMeant>
  Place find(std::uint64_t hash, IsMeant is_meant) const {
    const Part& part = parts_[hash >> kPartAt];
    if (part.capacity == 0) return kNone;
    const std::uint64_t tag = tag_of(hash);
    for (std::uint32_t at = part.home(tag); part.slots[at] != 0; at = part.next(at))
      if (const std::uint64_t slot = part.slots[at]; slot >> kPlaceBits == tag && is_meant(place_of(slot)))
        return place_of(slot);
    return kNone;
  }

  /// Requires: the place is below 2^24, and not in the index with that hash.
  void insert(std::uint64_t hash, Place place) {
    Part& part = parts_[hash >> kPartAt];
    if ((std::uint64_t{part.used} + 1) * kFillOf > std::uint64_t{part.capacity} * kFill) part.grow();
    part.put(tag_of(hash) << kPlaceBits | place);
    ++part.used;
    ++size_;
  }

  /// Returns whether it was there.
  bool erase(std::uint64_t hash, Place place) {
    Part& part = parts_[hash >> kPartAt];
    if (part.capacity == 0) return false;
    const std::uint64_t wanted = tag_of(hash) << kPlaceBits | place;
    std::uint32_t at = part.home(tag_of(hash));
    while (part.slots[at] != wanted) {
      if (part.slots[at] == 0) return false;
      at = part.next(at);
    }
    part.close(at);
    --part.used;
    --size_;
    return true;
  }

  std::size_t size() const { return size_; }

 private:
  static constexpr int kPartAt = 59, kTagAt = 19, kTagBits = 40;
  static constexpr std::uint64_t kFill = 4, kFillOf = 5;

  struct Part {
    static constexpr std::uint32_t kCapacityMin = 8, kSmall = 64;

    /// The slot where a search for a tag begins; it goes on to the following ones.
    std::uint32_t home(std::uint64_t tag) const {
      return static_cast<std::uint32_t>((tag & 0xFFFFFFFF) * capacity >> 32);
    }
    std::uint32_t next(std::uint32_t at) const { return at + 1 == capacity ? 0 : at + 1; }
    std::uint32_t distance(std::uint32_t from, std::uint32_t to) const {
      return to >= from ? to - from : to + capacity - from;
    }
    void put(std::uint64_t slot) {
      std::uint32_t at = home(slot >> kPlaceBits);
      while (slots[at] != 0)
        at = next(at);
      slots[at] = slot;
    }
    /// Empties a slot, and moves those entries up that a search would no longer reach.
    void close(std::uint32_t hole) {
      for (std::uint32_t at = next(hole); slots[at] != 0; at = next(at)) {
        if (distance(home(slots[at] >> kPlaceBits), at) < distance(hole, at)) continue;
        slots[hole] = slots[at];
        hole = at;
      }
      slots[hole] = 0;
    }
    void grow() {
      const std::unique_ptr<std::uint64_t[]> before = std::move(slots);
      const std::uint32_t count = capacity;
      capacity = std::max(kCapacityMin, count + count / (count < kSmall ? 2 : 4));
      slots = std::make_unique<std::uint64_t[]>(capacity);
      for (std::uint32_t at = 0; at < count; ++at)
        if (before[at] != 0) put(before[at]);
    }

    std::unique_ptr<std::uint64_t[]> slots;  // 0: empty
    std::uint32_t capacity = 0, used = 0;
  };

  /// Never 0, so that 0 means an empty slot.
  static std::uint64_t tag_of(std::uint64_t hash) {
    return std::max<std::uint64_t>(hash >> kTagAt & ((std::uint64_t{1} << kTagBits) - 1), 1);
  }
  static Place place_of(std::uint64_t slot) {
    return static_cast<Place>(slot & ((std::uint64_t{1} << kPlaceBits) - 1));
  }

  std::array<Part, 32> parts_;
  std::size_t size_ = 0;
};

}  // namespace lanemq::core
