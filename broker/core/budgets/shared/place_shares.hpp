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
/// places. What is left of whole ones goes to those first that would have none: who has had none for longest,
/// then who has held one for the shortest time. So where there are fewer places than sharers each has one now
/// and then. Pure.
void share_places(std::int64_t places, std::vector<PlaceSharer>& sharers);

}  // namespace lanemq::core
