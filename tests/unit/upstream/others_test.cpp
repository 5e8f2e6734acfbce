// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/others.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/upstream/arrivals.hpp"

namespace lanemq::upstream {
namespace {

using namespace std::chrono_literals;

constexpr double kLimitPace = 10;

// When they ask within the first `span`, in milliseconds since the start.
std::vector<std::int64_t> asks(const char* who, Duration span) {
  Others others(*parse_others(who), kStart);
  std::vector<std::int64_t> all;
  for (auto next = others.next(); next && *next < kStart + span; next = others.next()) {
    all.push_back((*next - kStart) / 1ms);
    others.pass(kLimitPace);
  }
  return all;
}

TEST(Others, ask_evenly) {
  EXPECT_EQ(asks("4/s", 1s), (std::vector<std::int64_t>{0, 250, 500, 750}));
  EXPECT_EQ(asks("12/s", 100s).size(), 1200u);
  EXPECT_EQ(asks("0.5/s", 5s), (std::vector<std::int64_t>{0, 2000, 4000}));
}

TEST(Others, ask_at_half_the_pace_of_the_limit) {
  EXPECT_EQ(asks("half", 1s), (std::vector<std::int64_t>{0, 200, 400, 600, 800}));
}

TEST(Others, ask_in_bursts) {
  EXPECT_EQ(asks("burst:3/20s", 41s),
            (std::vector<std::int64_t>{0, 0, 0, 20'000, 20'000, 20'000, 40'000, 40'000, 40'000}));
}

TEST(Others, ask_by_a_days_curve) {
  const auto all = asks("day:5..15/s/120s", 120s);
  const auto in = [&](std::int64_t from, std::int64_t to) {
    return static_cast<double>(
        std::count_if(all.begin(), all.end(), [&](auto at) { return at >= from * 1000 && at < to * 1000; }));
  };

  EXPECT_NEAR(in(0, 120), 1200, 5) << "the mean is the middle";
  EXPECT_NEAR(in(0, 6), 30, 2);
  EXPECT_NEAR(in(57, 63), 90, 2);
  EXPECT_NEAR(in(27, 33), 60, 2);
}

TEST(Others, begin_and_stop) {
  EXPECT_EQ(asks("2/s@1..2.5", 1min), (std::vector<std::int64_t>{1000, 1500, 2000}));
  EXPECT_EQ(asks("burst:2/1s@3..", 5s), (std::vector<std::int64_t>{3000, 3000, 4000, 4000}));
  EXPECT_EQ(asks("half@59.9..", 1min), (std::vector<std::int64_t>{59'900}));
}

TEST(Others, of_several_kinds_ask_in_the_order_of_time) {
  EXPECT_EQ(asks("2/s,burst:2/1s@0.7..1", 2s), (std::vector<std::int64_t>{0, 500, 700, 700, 1000, 1500}));
}

TEST(Others, that_skip_go_on_where_they_would_be) {
  Others others(*parse_others("4/s,burst:2/10s,half@0..5"), kStart);

  others.skip_to(kStart + 61s + 100ms);

  EXPECT_EQ(others.next(), kStart + 61s + 250ms);
  for (int ask = 0; ask < 35; ++ask)
    others.pass(kLimitPace);
  EXPECT_EQ(others.next(), kStart + 70s);
}

TEST(ParseOthers, says_what_fits) {
  for (const char* text : {"",
                           "12",
                           "0/s",
                           "-1/s",
                           "1e9/s",
                           "x/s",
                           "half/s",
                           "burst:3",
                           "burst:0/1s",
                           "burst:3/0.01s",
                           "burst:3/1",
                           "day:5/s/1s",
                           "day:9..5/s/10s",
                           "day:5..9/10s",
                           "day:5..9/s/10",
                           "12/s@",
                           "12/s@5",
                           "12/s@5..5",
                           "12/s@x..9",
                           "12/s,",
                           "12/s half"}) {
    const auto crowds = parse_others(text);
    ASSERT_FALSE(crowds) << text;
    EXPECT_NE(crowds.error().find("burst:300/20s"), std::string::npos);
  }
  std::string many = "1/s";
  for (std::size_t kind = 1; kind < kOthersMax; ++kind)
    many += ",1/s";
  EXPECT_TRUE(parse_others(many));
  EXPECT_FALSE(parse_others(many + ",1/s"));
}

}  // namespace
}  // namespace lanemq::upstream
