// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <lanemq/messages.hpp>

namespace lanemq::worker {

/// Which of its shards a lease is of, as the worker numbers them. Two shards give equal job numbers, so that
/// inside the worker (handlers, completions, spans, figures) a lease has its shard's place in the upper bits
/// of its number. On the wire and for people the number is the broker's. At place 0, the first shard's, both
/// are equal.
using ShardPlace = std::size_t;

/// Bits of a broker's job numbers, which are below 2^53 on the wire; their table ends at 2^56.
inline constexpr int kJobNumberBits = 56;
/// Places; twice as many as shards, since a shard that is left may still have calls in its handlers when
/// another one comes.
inline constexpr ShardPlace kShardPlacesMax = 128;
static_assert(kShardPlacesMax << kJobNumberBits >> kJobNumberBits == kShardPlacesMax);

/// Whether inside() can tell the number from those of other shards.
constexpr bool fits_inside(std::uint64_t job) {
  return job >> kJobNumberBits == 0;
}
/// The broker's lease as the worker's. Requires: fits_inside(lease.job), place < kShardPlacesMax.
constexpr wire::Lease inside(ShardPlace place, wire::Lease lease) {
  return {std::uint64_t{place} << kJobNumberBits | lease.job, lease.attempt};
}
constexpr ShardPlace place_of(wire::Lease lease) {
  return static_cast<ShardPlace>(lease.job >> kJobNumberBits);
}
/// The broker's number of a job of the worker's.
constexpr std::uint64_t number_of(wire::Lease lease) {
  return lease.job & ((std::uint64_t{1} << kJobNumberBits) - 1);
}
/// The worker's lease as the broker's.
constexpr wire::Lease outside(wire::Lease lease) {
  return {number_of(lease), lease.attempt};
}

}  // namespace lanemq::worker
