// SPDX-License-Identifier: Apache-2.0
#include "broker/core/base/histogram.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace lanemq::core {
namespace {

TEST(Histogram, an_empty_one_says_nothing) {
  const auto histogram = std::make_unique<Histogram>();
  EXPECT_EQ(histogram->count(), 0u);
  EXPECT_EQ(histogram->quantile(0.99), Duration::zero());
  EXPECT_EQ(histogram->max(), Duration::zero());
}

TEST(Histogram, small_values_are_exact) {
  const auto histogram = std::make_unique<Histogram>();
  for (int us = 0; us < 128; ++us)
    histogram->record(Duration(us));
  EXPECT_EQ(histogram->quantile(0), Duration(0));
  EXPECT_EQ(histogram->quantile(0.5), Duration(63));
  EXPECT_EQ(histogram->quantile(1), Duration(127));
}

TEST(Histogram, a_quantile_is_at_most_1_6_percent_too_high_and_never_too_low) {
  const bool holds = rc::check([](const std::vector<std::uint32_t>& raw) {
    RC_PRE(!raw.empty());
    const auto histogram = std::make_unique<Histogram>();
    std::vector<std::int64_t> values;
    for (const std::uint32_t value : raw) {
      // All sizes up to 25 days.
      const auto us = static_cast<std::int64_t>(static_cast<std::uint64_t>(value) << (value % 9));
      values.push_back(us);
      histogram->record(Duration(us));
    }
    std::sort(values.begin(), values.end());
    for (const double q : {0.0, 0.01, 0.5, 0.9, 0.99, 1.0}) {
      const auto exact = values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
      const auto said = histogram->quantile(q).count();
      RC_ASSERT(said >= exact);
      RC_ASSERT(static_cast<double>(said) <= static_cast<double>(exact) * 1.016);
    }
    RC_ASSERT(histogram->max().count() == values.back());
  });
  EXPECT_TRUE(holds);
}

TEST(Histogram, takes_what_is_out_of_its_range) {
  const auto histogram = std::make_unique<Histogram>();
  histogram->record(Duration(-5));
  histogram->record(std::chrono::hours(24 * 3650));
  EXPECT_EQ(histogram->count(), 2u);
  EXPECT_EQ(histogram->quantile(0), Duration(0));
  EXPECT_EQ(histogram->max(), Duration(std::chrono::hours(24 * 3650)));
}

}  // namespace
}  // namespace lanemq::core
