// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/shared/place_shares.hpp"

#include <algorithm>

namespace lanemq::core {
namespace {

std::int64_t part_of(std::int64_t places, std::int64_t clients, std::int64_t weights) {
  return static_cast<std::int64_t>(static_cast<Int128>(places) * clients / weights);
}

}  // namespace

void share_places(std::int64_t places, std::vector<PlaceSharer>& sharers) {
  std::vector<PlaceSharer*> left;
  std::int64_t weights = 0;
  for (PlaceSharer& sharer : sharers) {
    left.push_back(&sharer);
    weights += sharer.clients;
  }
  // The sharer that wants least for its weight is served first, and leaves the rest to the others.
  std::stable_sort(left.begin(), left.end(), [](const PlaceSharer* a, const PlaceSharer* b) {
    return static_cast<Int128>(a->wants) * b->clients < static_cast<Int128>(b->wants) * a->clients;
  });
  auto served = left.begin();
  for (; served != left.end() && (*served)->wants <= part_of(places, (*served)->clients, weights); ++served) {
    (*served)->share = (*served)->wants;
    places -= (*served)->wants;
    weights -= (*served)->clients;
  }
  left.erase(left.begin(), served);
  std::int64_t rest = places;
  for (PlaceSharer* const sharer : left)
    rest -= sharer->share = part_of(places, sharer->clients, weights);
  std::stable_sort(left.begin(), left.end(), [](const PlaceSharer* a, const PlaceSharer* b) {
    if ((a->share == 0) != (b->share == 0)) return a->share == 0;
    if (a->share > 0) return a->held - a->share > b->held - b->share;  // who has it keeps it
    if ((a->held == 0) != (b->held == 0)) return a->held == 0;
    return a->held == 0 ? a->since < b->since : a->since > b->since;
  });
  for (std::size_t i = 0; i < left.size() && rest > 0; ++i, --rest)
    ++left[i]->share;
  for (PlaceSharer& sharer : sharers)
    sharer.before = std::count_if(sharers.begin(), sharers.end(), [&](const PlaceSharer& other) {
      return other.share > 0 && other.held == 0 && (sharer.held > 0 || other.since < sharer.since);
    });
}

}  // namespace lanemq::core
