// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/shared/places_left.hpp"

#include <algorithm>
#include <limits>

namespace lanemq::core {

void PlacesLeft::add(const PlacesWanted& wants, std::int64_t allowed) {
  Left& left = left_[wants.account];
  if (allowed == 0) return;
  const std::int64_t running = std::clamp<std::int64_t>(wants.running, 0, wants.held);
  left.free = std::max<std::int64_t>(allowed - running, 0);
  left.jobs =
      std::max<std::int64_t>(allowed - running + 2 * std::clamp<std::int64_t>(wants.went, 0, kWentMax), 1);
}

void PlacesLeft::begin_lane() {
  for (auto& [account, left] : left_)
    left.served = false;
}

std::int64_t PlacesLeft::of_budget() const {
  const auto left = left_.find(kOfBudget);
  return left == left_.end() ? std::numeric_limits<std::int64_t>::max() : left->second.jobs;
}

Claim PlacesLeft::apart(Claim claim, Budgets& budgets, BudgetSet set, TimePoint now) {
  for (const bool first : {true, false}) {
    claim.number = ++last_claim_;
    for (const auto& [account, left] : left_)
      if (account != kOfBudget && (left.jobs <= 0 || (first && (left.served || left.free <= 0))))
        budgets.earmark(0, account, claim);
    if (first && !budgets.obstacle(set, claim, now)) break;
  }
  return claim;
}

std::int64_t PlacesLeft::most(std::uint16_t account, std::int64_t wanted) const {
  const auto own = left_.find(account);
  if (account == kOfBudget || own == left_.end()) return of_budget();
  const std::int64_t most = std::min(of_budget(), own->second.jobs);
  if (own->second.served) return most;
  std::int64_t unserved = 0;
  for (const auto& [other, left] : left_)
    if (other != kOfBudget && !left.served) unserved += std::max<std::int64_t>(left.jobs, 0);
  const Int128 part = (static_cast<Int128>(wanted) * own->second.jobs + unserved - 1) / unserved;
  return static_cast<std::int64_t>(std::min<Int128>(most, part));
}

void PlacesLeft::take(std::uint16_t account, std::int64_t jobs) {
  for (auto& [one, left] : left_) {
    if (one != account && one != kOfBudget) continue;
    left.free -= jobs;
    left.jobs -= jobs;
    left.served = true;
  }
}

}  // namespace lanemq::core
