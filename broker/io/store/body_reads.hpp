// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <absl/container/flat_hash_set.h>

#include "broker/core/broker.hpp"
#include "broker/io/store/body_cache.hpp"
#include "broker/io/store/store.hpp"

namespace lanemq::io {

/// Reads bodies and results back that only the store has, bodies ahead of their jobs' hand-over. Not
/// thread-safe; belongs to the loop.
class BodyReads {
 public:
  /// Both outlive it.
  BodyReads(core::Broker& broker, Store& store);

  /// Tells the core what the store has read since the last time.
  void take(core::TimePoint now);
  /// Finds the bodies that the turn wants, or notes them for ask_store().
  void find(core::TimePoint now);
  /// Asks the store for what was noted. To be called after the turn's writes were submitted, so that the
  /// store reads what they left.
  void ask_store();

 private:
  core::Broker& broker_;
  Store& store_;
  BodyCache bodies_;
  std::vector<std::uint64_t> wanted_;  ///< bodies to ask for
  std::vector<std::uint64_t> wanted_results_;
  std::size_t reading_ = 0;  ///< asked for and not here yet
  std::vector<StoredBody> read_;
  absl::flat_hash_set<std::uint64_t> awaited_;  ///< bodies that a worker or reader waits for
};

}  // namespace lanemq::io
