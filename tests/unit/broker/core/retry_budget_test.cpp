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
  while (budget.take({.client = 1})) {
  }
  EXPECT_EQ(budget.left(), 0);
  EXPECT_TRUE(budget.take({.client = 2})) << "the first one has taken ten";
  EXPECT_FALSE(budget.take({.client = 1}));
  EXPECT_TRUE(budget.take({.client = 3}));
  EXPECT_TRUE(budget.take({.client = 3}));
  EXPECT_FALSE(budget.take({.client = 3})) << "beyond ten there are three in all";
  for (int i = 0; i < 130; ++i)
    budget.succeeded();
  EXPECT_TRUE(budget.full());
}

TEST(RetryBudget, a_tenants_clients_are_one_where_others_have_less) {
  RetryBudget budget;
  std::uint64_t name = 100;
  while (budget.take({.client = name, .tenant = 1}))
    ++name;
  EXPECT_TRUE(budget.take({.client = 2})) << "its clients have taken no more than ten";
}

TEST(RetryBudget, a_client_has_what_it_has_earned_whoever_fails_beside_it) {
  RetryBudget budget;
  const Caller fails{.client = 1}, sound{.client = 2}, of_its_tenant{.client = 3, .tenant = 9};
  while (budget.take(fails)) {
  }
  while (budget.take({.client = 4})) {
  }
  // A call in twenty fails; whoever fails beside it takes what it can get.
  for (int i = 0; i < 2'000; ++i) {
    if (i % 20 == 19) {
      EXPECT_TRUE(budget.take(i % 40 == 19 ? sound : of_its_tenant)) << i;
    }
    budget.succeeded(sound);
    budget.succeeded(of_its_tenant);
    while (budget.take(fails)) {
    }
  }
}

TEST(RetryBudget, what_is_saved_up_was_earned_and_is_bounded) {
  RetryBudget budget;
  const Caller one{.client = 1};
  for (int i = 0; i < 1'000; ++i)
    budget.succeeded(one);
  int taken = 0;
  while (budget.take(one))
    ++taken;
  EXPECT_EQ(taken, 10) << "nobody saves while nothing is missing";
  for (int i = 0; i < 40; ++i)
    budget.succeeded(one);
  for (taken = 0; budget.take(one);)
    ++taken;
  EXPECT_EQ(taken, 4);
  // A tenant that names many clients keeps nobody else from it.
  for (std::uint64_t name = 100; name < 1'000; ++name)
    budget.succeeded({.client = name, .tenant = 9});
  for (int i = 0; i < 10; ++i)
    budget.succeeded({.client = 2});
  while (budget.take({.client = 3})) {
  }
  EXPECT_TRUE(budget.take({.client = 2}));
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
