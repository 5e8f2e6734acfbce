// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "broker/core/base/time.hpp"

namespace lanemq::core {

/// One of those that share the places of a concurrency.
struct PlaceSharer {
  std::int64_t wants = 0;     ///< with what it holds
  std::uint32_t clients = 1;  ///< its weight
  std::int64_t held = 0;
  TimePoint since{};  ///< it holds some, or none
  // Results of share_places().
  std::int64_t share = 0;
  std::int64_t before = 0;  ///< free places that are for others first
};

/// Shares `places` among all, max-min by weight (Bertsekas and Gallager, "Data Networks", 6.5.2), in whole
/// places. The remainder goes first to sharers that would have none: the one without a place for longest,
/// then the one that has held a place for the shortest time. So where there are fewer places than sharers
/// each has one now and then. Pure.
void share_places(std::int64_t places, std::vector<PlaceSharer>& sharers);

}  // namespace lanemq::core
