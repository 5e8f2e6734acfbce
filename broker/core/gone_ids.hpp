// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <absl/container/flat_hash_set.h>
#include <xxhash.h>

namespace lanemq::core {

/// The ids of jobs that were known and are no longer kept, so that who asks for one too late hears so: the
/// last `max` of them, as 64-bit hashes. One id in 2^64 / `max` that was never known is taken for one.
class GoneIds {
 public:
  /// `seed`: what strangers who choose ids do not know.
  GoneIds(std::size_t max, std::uint64_t seed) : max_(max), seed_(seed) {}

  /// Forgets the oldest where there are too many. O(1).
  void remember(std::string_view id) {
    const std::uint64_t hash = hash_of(id);
    if (max_ == 0 || !hashes_.insert(hash).second) return;
    if (ring_.size() < max_) return ring_.push_back(hash);
    hashes_.erase(ring_[oldest_]);
    ring_[oldest_] = hash;
    oldest_ = (oldest_ + 1) % max_;
  }
  bool contains(std::string_view id) const { return hashes_.contains(hash_of(id)); }
  std::size_t size() const { return hashes_.size(); }

 private:
  std::uint64_t hash_of(std::string_view id) const {
    return XXH3_64bits_withSeed(id.data(), id.size(), seed_);
  }

  std::size_t max_;
  std::uint64_t seed_;
  std::vector<std::uint64_t> ring_;  // in the order in which they went
  std::size_t oldest_ = 0;
  absl::flat_hash_set<std::uint64_t> hashes_;
};

}  // namespace lanemq::core
