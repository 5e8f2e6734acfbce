// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <absl/container/flat_hash_map.h>
#include <xxhash.h>

namespace lanemq::core {

/// The ids of jobs that were known and are no longer kept, so that who asks for one too late hears so: the
/// last `max` of them, as 64-bit hashes; one that went twice counts twice. One id in 2^64 / `max` that was
/// never known is taken for one.
class GoneIds {
 public:
  /// `seed`: what strangers who choose ids do not know.
  GoneIds(std::size_t max, std::uint64_t seed) : max_(max), seed_(seed) {}

  /// Forgets the oldest where there are too many. O(1).
  void remember(std::string_view id) {
    if (max_ == 0) return;
    const std::uint64_t hash = hash_of(id);
    ++times_[hash];
    if (ring_.size() < max_) return ring_.push_back(hash);
    if (const auto oldest = times_.find(ring_[oldest_]); --oldest->second == 0) times_.erase(oldest);
    ring_[oldest_] = hash;
    oldest_ = (oldest_ + 1) % max_;
  }
  bool contains(std::string_view id) const { return times_.contains(hash_of(id)); }
  std::size_t size() const { return times_.size(); }

 private:
  std::uint64_t hash_of(std::string_view id) const {
    return XXH3_64bits_withSeed(id.data(), id.size(), seed_);
  }

  std::size_t max_;
  std::uint64_t seed_;
  std::vector<std::uint64_t> ring_;  // in the order in which they went
  std::size_t oldest_ = 0;
  absl::flat_hash_map<std::uint64_t, std::uint32_t> times_;  // that each is in the ring
};

}  // namespace lanemq::core
