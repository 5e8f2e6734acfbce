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
/// answered with "gone". One unknown id in 2^64 / `max` is taken for a gone one.
///
/// For an id whose result made way early it knows how long the result was promised: until then a submit of
/// the id would run again what has run. Such ids are remembered apart, `max` of them beside the others, so
/// that those which promise nothing push none of them out.
class GoneIds {
 public:
  static constexpr std::size_t kIdsMax = std::size_t{1} << IdIndex::kPlaceBits;

  /// `seed` is secret, since strangers choose ids.
  GoneIds(std::size_t max, std::uint64_t seed)
      : seed_(seed), plain_(std::min(max, kIdsMax)), promised_(std::min(max, kIdsMax)) {}

  /// Drops the oldest of its kind where there are too many.
  void remember(std::string_view id) {
    const std::uint64_t hash = hash_of(id);
    promised_.forget(hash);
    plain_.remember({hash});
  }
  /// The same for an id whose result made way early: it would have been kept until then.
  void remember_promised(std::string_view id, TimePoint until) {
    const std::uint64_t hash = hash_of(id);
    plain_.forget(hash);
    promised_.remember({{hash}, until});
  }
  bool contains(std::string_view id) const {
    const std::uint64_t hash = hash_of(id);
    return plain_.find(hash) != nullptr || promised_.find(hash) != nullptr;
  }
  /// Whether the id's result made way and was promised to be still here.
  bool made_way(std::string_view id, TimePoint now) const {
    const Promised* const gone = promised_.find(hash_of(id));
    return gone != nullptr && now < gone->until;
  }
  std::size_t size() const { return plain_.size() + promised_.size(); }

 private:
  struct Plain {
    std::uint64_t hash = 0;
  };
  struct Promised : Plain {
    TimePoint until{};
  };

  /// The last `max` of a kind. An id that goes twice takes two places.
  template <class Gone>
  class Ring {
   public:
    explicit Ring(std::size_t max) : max_(max) {}

    void remember(const Gone& gone) {
      if (max_ == 0) return;
      forget(gone.hash);
      if (next_ == chunks_.size() * kChunk && chunks_.size() * kChunk < max_)
        chunks_.push_back(std::make_unique<Gone[]>(kChunk));
      Gone& place = at(next_);
      if (full_) index_.erase(place.hash, static_cast<IdIndex::Place>(next_));
      place = gone;
      index_.insert(gone.hash, static_cast<IdIndex::Place>(next_));
      if (++next_ < max_) return;
      next_ = 0;
      full_ = true;
    }
    void forget(std::uint64_t hash) {
      if (const IdIndex::Place place = place_of(hash); place != IdIndex::kNone) index_.erase(hash, place);
    }
    /// Null: it is not remembered.
    const Gone* find(std::uint64_t hash) const {
      const IdIndex::Place place = place_of(hash);
      return place == IdIndex::kNone ? nullptr : &at(place);
    }
    std::size_t size() const { return index_.size(); }

   private:
    static constexpr std::size_t kChunk = 1024;

    Gone& at(std::size_t place) const { return chunks_[place / kChunk][place % kChunk]; }
    IdIndex::Place place_of(std::uint64_t hash) const {
      return index_.find(hash, [&](IdIndex::Place place) { return at(place).hash == hash; });
    }

    std::size_t max_;
    std::vector<std::unique_ptr<Gone[]>> chunks_;  // in the order of remember()
    std::size_t next_ = 0;
    bool full_ = false;  // every place is used
    IdIndex index_;
  };

  std::uint64_t hash_of(std::string_view id) const {
    return XXH3_64bits_withSeed(id.data(), id.size(), seed_);
  }

  std::uint64_t seed_;
  Ring<Plain> plain_;
  Ring<Promised> promised_;
};

}  // namespace lanemq::core
