// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include <lanemq/limits.hpp>

namespace lanemq::core {

/// How many messages one peer accepts in a batch, and where the outbox holds its batch that may still grow.
/// Belongs to the record of the peer; the outbox keeps no pointer to it.
struct Grouping {
  std::size_t max = 0;  ///< as the peer said, within limits::batch_items_max; 0 and 1: each goes alone

  void agree(std::int64_t batch) {
    max = static_cast<std::size_t>(
        std::clamp<std::int64_t>(batch, 0, static_cast<std::int64_t>(limits::batch_items_max)));
  }

 private:
  friend class Outbox;
  std::uint64_t turn_ = 0;  // in which the outbox holds something for the peer that may grow
  std::uint32_t send_ = 0;  // its place in the outbox
};

}  // namespace lanemq::core
