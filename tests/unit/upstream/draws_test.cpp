// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/draws.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include <gtest/gtest.h>

namespace lanemq::upstream {
namespace {

using namespace std::chrono_literals;

TEST(Draws, are_equal_for_equal_seeds_and_call_numbers_only) {
  EXPECT_EQ(Draws(1, 7)(), Draws(1, 7)());
  EXPECT_NE(Draws(1, 7)(), Draws(1, 8)());
  EXPECT_NE(Draws(1, 7)(), Draws(2, 7)());
}

TEST(Draws, latency_stays_in_its_range_around_the_geometric_mean) {
  std::vector<Duration> latencies;
  for (std::uint64_t call = 0; call < 10'001; ++call) {
    latencies.push_back(Draws(3, call).latency({.shortest = 100ms, .longest = 1600ms}));
  }
  std::sort(latencies.begin(), latencies.end());

  EXPECT_GE(latencies.front(), 100ms);
  EXPECT_LE(latencies.back(), 1600ms);
  EXPECT_GT(latencies[5000], 380ms);
  EXPECT_LT(latencies[5000], 420ms);
  EXPECT_GT(latencies[9900], 1200ms);
}

TEST(Draws, latency_of_an_empty_range_is_constant) {
  EXPECT_EQ(Draws(3, 1).latency({.shortest = 80ms, .longest = 80ms}), 80ms);
  EXPECT_EQ(Draws(3, 1).latency({.shortest = 0ms, .longest = 0ms}), 0ms);
}

TEST(Draws, answers_are_never_longer_than_allowed) {
  std::uint64_t longest = 0;
  for (std::uint64_t call = 0; call < 1000; ++call) {
    const std::uint64_t tokens = Draws(5, call).answer_tokens(150);
    ASSERT_GE(tokens, 1u);
    longest = std::max(longest, tokens);
  }

  EXPECT_EQ(longest, 150u);
  EXPECT_EQ(Draws(5, 1).answer_tokens(1), 1u);
}

TEST(Draws, faults_come_at_their_rates) {
  std::map<Fault, int> seen;
  for (std::uint64_t call = 0; call < 100'000; ++call) {
    ++seen[Draws(9, call).fault({.http_5xx = 0.1, .reset = 0.05, .stall = 0.02, .half = 0.2})];
  }

  EXPECT_NEAR(seen[Fault::http_5xx], 10'000, 500);
  EXPECT_NEAR(seen[Fault::reset], 5'000, 400);
  EXPECT_NEAR(seen[Fault::stall], 2'000, 300);
  EXPECT_NEAR(seen[Fault::half], 20'000, 700);
  EXPECT_EQ(Draws(9, 1).fault({.half = 1}), Fault::half);
  EXPECT_EQ(Draws(9, 1).fault({}), Fault::none);
}

}  // namespace
}  // namespace lanemq::upstream
