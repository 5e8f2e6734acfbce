// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>

#include "broker/core/base/amounts.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/budgets/budgets.hpp"
#include "broker/core/budgets/shared/slice.hpp"

namespace lanemq::core {

/// How many jobs may begin until the next draw in the places that a shard has, of the budget and of accounts
/// of its keys: in those that are free, and in each as many as went of late and as many again, so that short
/// jobs are not held up. One at least, where it has a place: that may get free.
///
/// A lane gets its jobs by turns. First each account with a free place has a part of them, in proportion to
/// its places among accounts that have had none yet; then any account with places gets what is left.
class PlacesLeft {
 public:
  /// `draw`: a number that no other one of the same Budgets has, by which its claims are told apart.
  explicit PlacesLeft(std::uint64_t draw) : last_claim_(draw * kClaimsMax) {}

  /// Adds an account whose places `allowed` bounds. An account that is not added has no bound.
  void add(const PlacesWanted& wants, std::int64_t allowed);
  /// Requires: all are added.
  void begin_lane();
  bool any() const { return of_budget() > 0; }
  /// The claim so that it gets no key of an account in which the shard has no place, and one of an account
  /// whose turn it is if it can. Requires: the set is of one budget, the first one.
  Claim apart(Claim claim, Budgets& budgets, BudgetSet set, TimePoint now);
  /// How many of `wanted` jobs of a lane may get a key of the account now; kOfBudget: no key.
  std::int64_t most(std::uint16_t account, std::int64_t wanted) const;
  void take(std::uint16_t account, std::int64_t jobs);

 private:
  /// Claims of a draw: a few for each slice of a shard and each lane.
  static constexpr std::uint64_t kClaimsMax = 1 << 16;
  static constexpr std::int64_t kWentMax = std::int64_t{1} << 40;  ///< whatever a shard says
  struct Left {
    std::int64_t free = 0, jobs = 0;
    bool served = false;  ///< the lane has its first part
  };

  std::int64_t of_budget() const;

  std::map<std::uint16_t, Left> left_;
  std::uint64_t last_claim_;
};

}  // namespace lanemq::core
