// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/others_use.hpp"

#include <gtest/gtest.h>

namespace lanemq::core {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr TimePoint kHeardAt{seconds(1000)};

OthersUse heard(std::int64_t remaining, std::optional<Duration> reset, std::int64_t foreign) {
  OthersUse others;
  others.heard({.remaining = remaining, .limit = 600, .reset = reset}, foreign, 30, 600, minutes(1),
               kHeardAt);
  return others;
}

TEST(OthersUse, comes_back_evenly_from_a_bucket_and_at_once_from_a_window) {
  const OthersUse bucket = heard(0, seconds(60), 600), window = heard(300, seconds(55), 300);
  EXPECT_EQ(bucket.amount(kHeardAt), 600);
  EXPECT_EQ(bucket.amount(kHeardAt + seconds(30)), 300);
  EXPECT_EQ(bucket.amount(kHeardAt + milliseconds(100)), 599);
  EXPECT_EQ(window.amount(kHeardAt + seconds(54)), 300);
  EXPECT_EQ(window.amount(kHeardAt + seconds(55)), 0);
}

TEST(OthersUse, nothing_waits_for_a_whole_reset_unasked) {
  OthersUse bucket = heard(0, seconds(60), 600);
  EXPECT_EQ(bucket.ask_at(), kHeardAt + seconds(1));
  bucket.asked(kHeardAt + seconds(1));
  EXPECT_EQ(bucket.ask_at(), kHeardAt + seconds(3));
  for (int i = 0; i < 10; ++i)
    bucket.asked(kHeardAt);
  EXPECT_EQ(bucket.ask_at(), kHeardAt + seconds(8)) << "how often is bounded";

  OthersUse window = heard(300, seconds(40), 300);
  EXPECT_EQ(window.ask_at(), kHeardAt + seconds(20));
  window.asked(kHeardAt + seconds(20));
  EXPECT_EQ(window.ask_at(), kHeardAt + seconds(30));
  window.asked(kHeardAt + seconds(31));
  EXPECT_EQ(window.ask_at(), kHeardAt + seconds(40)) << "what is short is waited for";
}

TEST(OthersUse, what_others_leave_again_is_believed_by_and_by) {
  OthersUse others = heard(0, std::nullopt, 600);
  others.heard({.remaining = 400}, 200, 30, 600, minutes(1), kHeardAt);
  EXPECT_EQ(others.amount(kHeardAt), 400);
  others.heard({.remaining = 400}, 200, 30, 600, minutes(1), kHeardAt);
  EXPECT_EQ(others.amount(kHeardAt), 300);
  for (int i = 0; i < 10; ++i)
    others.heard({.remaining = 590}, 10, 30, 600, minutes(1), kHeardAt);
  EXPECT_FALSE(others.any());
}

}  // namespace
}  // namespace lanemq::core
