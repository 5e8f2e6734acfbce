// SPDX-License-Identifier: Apache-2.0
#include "broker/core/base/times.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace lanemq::core {
namespace {

using Windows = RecentTimes::Windows;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr TimePoint kBegin{hours(48)};

/// What a window should say, from all values: those of so long before `now`.
double exact_quantile(const std::vector<std::pair<TimePoint, std::int64_t>>& all, TimePoint since, double q) {
  std::vector<std::int64_t> values;
  for (const auto& [at, value] : all)
    if (at >= since) values.push_back(value);
  std::sort(values.begin(), values.end());
  return static_cast<double>(values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))]);
}

TEST(RecentTimes, an_empty_one_says_nothing) {
  const auto times = std::make_unique<RecentTimes>();
  EXPECT_EQ(times->over(kBegin).ten_minutes.count, 0u);
  EXPECT_EQ(times->over(kBegin).minute.p99, Duration::zero());
}

TEST(RecentTimes, forgets_what_is_older_than_its_window) {
  const auto times = std::make_unique<RecentTimes>();
  times->record(milliseconds(5), kBegin);

  EXPECT_EQ(times->over(kBegin + seconds(59)).minute.count, 1u);
  EXPECT_EQ(times->over(kBegin + seconds(70)).minute.count, 0u);
  EXPECT_EQ(times->over(kBegin + seconds(70)).ten_minutes.count, 1u);
  EXPECT_EQ(times->over(kBegin + minutes(10)).ten_minutes.count, 1u);
  EXPECT_EQ(times->over(kBegin + minutes(11) + seconds(10)).ten_minutes.count, 0u);
}

TEST(RecentTimes, forgets_all_after_a_long_silence) {
  const auto times = std::make_unique<RecentTimes>();
  times->record(milliseconds(5), kBegin);
  times->record(milliseconds(7), kBegin + hours(5));

  EXPECT_EQ(times->over(kBegin + hours(5)).ten_minutes.count, 1u);
}

TEST(RecentTimes, takes_what_is_out_of_its_range) {
  const auto times = std::make_unique<RecentTimes>();
  times->record(Duration(-5), kBegin);
  times->record(hours(24 * 3650), kBegin);
  EXPECT_EQ(times->over(kBegin).minute.count, 2u);
  EXPECT_EQ(times->over(kBegin).minute.p50, Duration::zero());
}

/// Waits as queues have them: over five orders of magnitude, and drifting.
TEST(RecentTimes, percentiles_are_within_5_percent_of_exact_ones) {
  const auto times = std::make_unique<RecentTimes>();
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> draw(10, 2.5);
  std::vector<std::pair<TimePoint, std::int64_t>> all;
  TimePoint now = kBegin;
  for (int i = 0; i < 200'000; ++i) {
    now += Duration(static_cast<std::int64_t>(random() % 14'000));
    const double drift = 1 + std::sin(static_cast<double>(i) / 20'000);
    all.emplace_back(now, static_cast<std::int64_t>(draw(random) * drift) + 200);
    times->record(Duration(all.back().second), now);
  }

  for (const auto& [window, length] : {std::pair(&Windows::minute, Duration(seconds(60))),
                                       std::pair(&Windows::ten_minutes, Duration(minutes(10)))}) {
    const RecentTimes::Summary summary = times->over(now).*window;
    // A window begins with a slot: at its length before now, or a slot earlier,
    // so one of these is what it holds.
    double best50 = 1, best99 = 1;
    for (TimePoint since = now - length - minutes(1); since <= now - length + seconds(10);
         since += milliseconds(100)) {
      const auto held =
          std::count_if(all.begin(), all.end(), [&](const auto& one) { return one.first >= since; });
      if (static_cast<std::uint64_t>(held) > summary.count + 20 ||
          static_cast<std::uint64_t>(held) + 20 < summary.count)
        continue;
      best50 = std::min(
          best50, std::abs(static_cast<double>(summary.p50.count()) / exact_quantile(all, since, 0.50) - 1));
      best99 = std::min(
          best99, std::abs(static_cast<double>(summary.p99.count()) / exact_quantile(all, since, 0.99) - 1));
    }
    EXPECT_LE(best50, 0.05);
    EXPECT_LE(best99, 0.05);
    // And against the window as it is named, which it exceeds by a slot at
    // most.
    EXPECT_NEAR(static_cast<double>(summary.p50.count()), exact_quantile(all, now - length, 0.50),
                0.05 * exact_quantile(all, now - length, 0.50));
    EXPECT_NEAR(static_cast<double>(summary.p99.count()), exact_quantile(all, now - length, 0.99),
                0.10 * exact_quantile(all, now - length, 0.99));
  }
}

TEST(NamedTimes, has_room_for_so_many_names_and_gives_that_of_an_idle_one_to_another) {
  NamedTimes times(2);
  NamedTimes::Place one, other, third;
  TimePoint now = kBegin;
  times.at(one, "one", now)->tokens = 1;
  times.at(other, "other", now)->tokens = 2;
  EXPECT_EQ(times.at(third, "third", now), nullptr);
  for (int minute = 0; minute < 20; ++minute) {
    now += minutes(1);
    EXPECT_EQ(times.at(one, "one", now)->tokens, 1U) << "in use";
    EXPECT_EQ(times.at(third, "third", now) != nullptr, minute >= 11) << minute;
  }
  EXPECT_EQ(other.figures(), nullptr);
  EXPECT_EQ(third.figures()->tokens, 0U) << "nothing is left of whose place it was";
  EXPECT_EQ(times.at(other, "other", now), nullptr) << "it begins anew when there is room";
}

TEST(NamedTimes, gives_the_room_of_who_is_gone_to_the_next) {
  NamedTimes times(1);
  {
    NamedTimes::Place gone;
    times.at(gone, "gone", kBegin)->run.record(seconds(1), kBegin);
    EXPECT_EQ(times.ranked(), std::vector<std::string_view>{"gone"});
  }
  EXPECT_TRUE(times.ranked().empty());
  NamedTimes::Place next;
  NamedTimes::Figures* const figures = times.at(next, "next", kBegin);
  ASSERT_NE(figures, nullptr);
  EXPECT_EQ(figures->run.all().count(), 0U);
}

TEST(NamedTimes, are_ranked_by_their_tokens_then_by_their_jobs) {
  NamedTimes times(4);
  NamedTimes::Place places[4];
  times.at(places[0], "few", kBegin)->tokens = 5;
  times.at(places[1], "no tokens", kBegin);
  times.at(places[2], "no tokens, two jobs", kBegin)->wait.record(seconds(1), kBegin);
  times.at(places[2], "no tokens, two jobs", kBegin)->wait.record(seconds(1), kBegin);
  times.at(places[3], "many", kBegin)->tokens = 700;
  EXPECT_EQ(times.ranked(),
            (std::vector<std::string_view>{"many", "few", "no tokens, two jobs", "no tokens"}));
}

}  // namespace
}  // namespace lanemq::core
