// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "broker/core/base/time.hpp"

namespace lanemq::core {

/// Durations as counts in log-linear buckets, 64 to an octave: a quantile is at most 1.6 % too high, whatever
/// the range (the layout of HdrHistogram). Recording is a few instructions and never allocates.
class Histogram {
 public:
  void record(Duration value) {
    const auto us = static_cast<std::uint64_t>(std::max<Duration::rep>(value.count(), 0));
    ++counts_[bucket(us)];
    ++total_;
    max_ = std::max(max_, us);
  }

  std::uint64_t count() const { return total_; }
  Duration max() const { return Duration(static_cast<std::int64_t>(max_)); }

  /// The smallest recorded value, to within a bucket, that a share of `q` (0..1) does not exceed.
  Duration quantile(double q) const {
    if (total_ == 0) return Duration::zero();
    const auto rank = static_cast<std::uint64_t>(q * static_cast<double>(total_ - 1)) + 1;
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (seen >= rank) return Duration(static_cast<std::int64_t>(std::min(upper_edge(i), max_)));
    }
    return max();
  }

 private:
  static constexpr std::uint64_t kSubBuckets = 64;
  static constexpr std::size_t kOctaves = 36;  // to 2^41 us: 25 days

  static std::size_t bucket(std::uint64_t us) {
    if (us < kSubBuckets) return us;
    const auto octave = static_cast<std::size_t>(std::bit_width(us)) - 6;  // 1 for 64..127
    if (octave >= kOctaves) return kOctaves * kSubBuckets - 1;
    return octave * kSubBuckets + (us >> (octave - 1)) - kSubBuckets;
  }
  static std::uint64_t upper_edge(std::size_t index) {
    if (index < kSubBuckets) return index;
    const std::uint64_t octave = index / kSubBuckets, offset = index % kSubBuckets;
    return ((offset + kSubBuckets + 1) << (octave - 1)) - 1;
  }

  std::array<std::uint64_t, kOctaves * kSubBuckets> counts_{};
  std::uint64_t total_ = 0, max_ = 0;
};

}  // namespace lanemq::core
