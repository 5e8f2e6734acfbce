// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/retry_budget.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace lanemq::core {
namespace {

TEST(RetryBudget, retries_are_at_most_ten_and_a_tenth_of_the_successes) {
  const bool holds = rc::check([](const std::vector<bool>& draws) {
    RetryBudget budget;
    // The promise is for any stretch of time: it is counted from each draw on.
    for (std::size_t from = 0; from < draws.size(); ++from) {
      int successes = 0, retries = 0;
      RetryBudget from_here = budget;
      for (std::size_t i = from; i < draws.size(); ++i) {
        if (draws[i]) {
          from_here.succeeded();
          ++successes;
        } else if (from_here.take()) {
          ++retries;
        }
        RC_ASSERT(10 * retries <= successes + 100);
      }
      if (draws[from])
        budget.succeeded();
      else
        budget.take();
    }
  });
  EXPECT_TRUE(holds);
}

TEST(RetryBudget, one_client_cannot_use_up_everybodys) {
  RetryBudget budget;
  while (budget.take(1)) {
  }
  EXPECT_EQ(budget.left(), 0);
  EXPECT_TRUE(budget.take(2)) << "the first one has taken ten";
  EXPECT_FALSE(budget.take(1));
  EXPECT_TRUE(budget.take(3));
  EXPECT_TRUE(budget.take(3));
  EXPECT_FALSE(budget.take(3)) << "beyond ten there are three in all";
  for (int i = 0; i < 130; ++i)
    budget.succeeded();
  EXPECT_TRUE(budget.full());
}

TEST(RetryBudget, is_used_up_by_ten_and_refilled_by_ten_successes_each) {
  RetryBudget budget;
  for (int i = 0; i < 10; ++i)
    EXPECT_TRUE(budget.take());
  EXPECT_FALSE(budget.take());
  for (int i = 0; i < 9; ++i)
    budget.succeeded();
  EXPECT_FALSE(budget.take());
  budget.succeeded();
  EXPECT_EQ(budget.left(), 1);
  EXPECT_TRUE(budget.take());
  EXPECT_FALSE(budget.take());
}

}  // namespace
}  // namespace lanemq::core
