// SPDX-License-Identifier: Apache-2.0
#include "worker/links/capacity_split.hpp"

#include <algorithm>

namespace lanemq::worker {
namespace {

using Share = CapacitySplit::Share;
using Shares = CapacitySplit::Shares;

bool is_live(const Share& share) {
  return share.serves && !share.leaves;
}

std::size_t live(const Shares& shares) {
  return static_cast<std::size_t>(std::count_if(shares.begin(), shares.end(), is_live));
}

std::size_t staying(const Shares& shares) {
  return static_cast<std::size_t>(
      std::count_if(shares.begin(), shares.end(), [](const Share& share) { return !share.leaves; }));
}

std::size_t sum_of(const Shares& shares, std::size_t Share::*amount) {
  std::size_t sum = 0;
  for (const Share& share : shares)
    sum += share.*amount;
  return sum;
}

/// It had all that it was to have, and used it.
bool is_full(const Share& share) {
  return is_live(share) && share.places >= share.target && share.peak >= share.target;
}

bool is_poorer(const Share* a, const Share* b) {
  return a->target < b->target;
}

/// Moves the `spare` places of shares to those in `full`, one after the other to who has least.
void lend(std::vector<std::size_t>& spare, Shares& shares, const std::vector<Share*>& full) {
  for (;;) {
    const auto from = std::max_element(spare.begin(), spare.end());
    if (*from == 0) return;
    --*from;
    --shares[static_cast<std::size_t>(from - spare.begin())].target;
    ++(*std::min_element(full.begin(), full.end(), is_poorer))->target;
  }
}

/// Of shards that are full, those that have less than an equal part get half of what the others have more. At
/// most as much as they have: whoever needs no more than one place is full with it, too.
void even_out(const std::vector<Share*>& full, std::size_t even) {
  std::vector<std::size_t> room;
  for (const Share* share : full)
    room.push_back(share->target < even ? std::min(share->target, even - share->target) : 0);
  std::vector<std::size_t> surplus;
  for (const Share* share : full)
    surplus.push_back(share->target > even ? (share->target - even + 1) / 2 : 0);
  for (;;) {
    const auto to = std::max_element(room.begin(), room.end());
    const auto from = std::max_element(surplus.begin(), surplus.end());
    if (*to == 0 || *from == 0) return;
    --*to;
    --*from;
    ++full[static_cast<std::size_t>(to - room.begin())]->target;
    --full[static_cast<std::size_t>(from - surplus.begin())]->target;
  }
}

}  // namespace

bool CapacitySplit::takes_turns(const Shares& shares) const {
  return live(shares) > capacity_;
}

/// What a share keeps: one place, also while its broker is away, where there are enough for all.
std::size_t CapacitySplit::floor_of(const Shares& shares, const Share& share) const {
  if (share.leaves) return 0;
  return share.serves || staying(shares) <= capacity_ ? 1 : 0;
}

/// One more for `to`: a place that nobody is to have, else one of who has most. False: there is none.
bool CapacitySplit::give_one(Shares& shares, Share& to) const {
  if (sum_of(shares, &Share::target) < capacity_) {
    ++to.target;
    return true;
  }
  Share* richest = nullptr;
  for (Share& share : shares)
    if (&share != &to && share.target > floor_of(shares, share) &&
        (richest == nullptr || share.target > richest->target))
      richest = &share;
  if (richest == nullptr) return false;
  --richest->target;
  ++to.target;
  return true;
}

void CapacitySplit::settle(Shares& shares) {
  for (Share& share : shares)
    if (share.leaves) share.target = 0;
  if (takes_turns(shares)) return take_turns(shares);
  for (Share& share : shares)
    while (share.target < floor_of(shares, share) && give_one(shares, share)) {
    }
  for (Share& share : shares) {
    if (!is_live(share) || share.joined) continue;
    share.joined = true;
    while (share.target < capacity_ / live(shares) && give_one(shares, share)) {
    }
  }
  // What a shard that has left gives back.
  const bool any = live(shares) > 0;
  for (std::size_t left = capacity_ - std::min(capacity_, sum_of(shares, &Share::target)); left > 0; --left) {
    Share* poorest = nullptr;
    for (Share& share : shares)
      if (!share.leaves && (share.serves || !any) && (poorest == nullptr || is_poorer(&share, poorest)))
        poorest = &share;
    if (poorest == nullptr) return;
    ++poorest->target;
  }
}

void CapacitySplit::shift(Shares& shares) {
  if (takes_turns(shares)) {
    const auto on_its_way = [](const Share& share) { return is_live(share) && share.places != share.target; };
    if (std::any_of(shares.begin(), shares.end(), on_its_way)) return;
    turn_ += capacity_;
    return take_turns(shares);
  }
  settle(shares);
  std::vector<Share*> full;
  for (Share& share : shares)
    if (is_full(share)) full.push_back(&share);
  if (full.empty()) return;
  std::vector<std::size_t> spare;
  for (const Share& share : shares) {
    const std::size_t kept = std::max(floor_of(shares, share), share.serves ? share.peak : 0);
    const std::size_t idle = share.target - std::min(kept, share.target);
    spare.push_back(share.serves ? (idle + 1) / 2 : idle);
  }
  if (std::any_of(spare.begin(), spare.end(), [](std::size_t places) { return places > 0; }))
    lend(spare, shares, full);
  else
    even_out(full, capacity_ / live(shares));
}

/// One place each for capacity_ of those that serve, from turn_ on.
void CapacitySplit::take_turns(Shares& shares) const {
  const std::size_t count = live(shares);
  std::size_t at = 0;
  for (Share& share : shares) {
    share.target = 0;
    if (!is_live(share)) continue;
    share.joined = true;
    if ((at++ + count - turn_ % count) % count < capacity_) share.target = 1;
  }
}

void CapacitySplit::offer(Shares& shares) const {
  const std::size_t taken = sum_of(shares, &Share::places);
  std::size_t free = capacity_ - std::min(taken, capacity_);
  for (Share& share : shares) {
    if (share.target <= share.places) {
      share.offer = share.target;
      continue;
    }
    const std::size_t more = std::min(free, share.target - share.places);
    share.offer = share.places + more;
    free -= more;
  }
}

}  // namespace lanemq::worker
