// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <xxhash.h>

#include "broker/core/base/time.hpp"
#include "broker/core/jobs/id_index.hpp"

namespace lanemq::core {

/// The ids of the last `max` jobs that are no longer kept, as 64-bit hashes, so that a late question is
/// answered with "gone". An id that went twice takes two places. One unknown id in 2^64 / `max` is taken for
/// a gone one.
///
/// For an id whose result made way early it knows how long the result was promised: until then a submit of
/// the id would run again what has run.
class GoneIds {
 public:
  static constexpr std::size_t kIdsMax = std::size_t{1} << IdIndex::kPlaceBits;

  /// `seed` is secret, since strangers choose ids.
  GoneIds(std::size_t max, std::uint64_t seed) : max_(std::min(max, kIdsMax)), seed_(seed) {}

  /// Drops the oldest where there are too many. `promised_until`: when a result that made way early would
  /// have been forgotten.
  void remember(std::string_view id, TimePoint promised_until = kPast) {
    if (max_ == 0) return;
    const std::uint64_t hash = hash_of(id);
    if (const auto before = find(hash); before != IdIndex::kNone) index_.erase(hash, before);
    if (next_ == chunks_.size() * kChunk && chunks_.size() * kChunk < max_)
      chunks_.push_back(std::make_unique<Gone[]>(kChunk));
    Gone& gone = at(next_);
    if (full_) index_.erase(gone.hash, static_cast<IdIndex::Place>(next_));
    gone = {.hash = hash, .promised_until = promised_until};
    index_.insert(hash, static_cast<IdIndex::Place>(next_));
    if (++next_ < max_) return;
    next_ = 0;
    full_ = true;
  }
  bool contains(std::string_view id) const { return find(hash_of(id)) != IdIndex::kNone; }
  /// Whether the id's result made way and was promised to be still here.
  bool made_way(std::string_view id, TimePoint now) const {
    const IdIndex::Place place = find(hash_of(id));
    return place != IdIndex::kNone && now < at(place).promised_until;
  }
  std::size_t size() const { return index_.size(); }

 private:
  static constexpr std::size_t kChunk = 1024;
  static constexpr TimePoint kPast = TimePoint::min();

  struct Gone {
    std::uint64_t hash = 0;
    TimePoint promised_until{};
  };

  Gone& at(std::size_t place) const { return chunks_[place / kChunk][place % kChunk]; }
  IdIndex::Place find(std::uint64_t hash) const {
    return index_.find(hash, [&](IdIndex::Place place) { return at(place).hash == hash; });
  }
  std::uint64_t hash_of(std::string_view id) const {
    return XXH3_64bits_withSeed(id.data(), id.size(), seed_);
  }

  std::size_t max_;
  std::uint64_t seed_;
  std::vector<std::unique_ptr<Gone[]>> chunks_;  // a ring, in the order of remember()
  std::size_t next_ = 0;
  bool full_ = false;  // every place is used
  IdIndex index_;
};

}  // namespace lanemq::core
