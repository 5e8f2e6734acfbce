// SPDX-License-Identifier: Apache-2.0
#include "broker/http/feeds/history.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace lanemq::admin {
namespace {

using Json = nlohmann::json;

/// A history that is told a value a second.
class HistoryTest : public testing::Test {
 protected:
  void tell(const std::vector<HistoryValue>& values) { history_.add(now_ms_ += 1000, values); }
  Json part(HistorySpan span, const std::string& prefix = "") const {
    return Json::parse(history_.json(span, prefix));
  }

  History history_;
  std::int64_t now_ms_ = 1'700'000'000'000;
};

TEST_F(HistoryTest, has_a_value_a_second_and_a_gap_where_there_was_none) {
  tell({{"a", 1}, {"b", 2.5}});
  tell({{"a", 3}});

  const Json seen = part(HistorySpan::quarter_hour);

  EXPECT_EQ(seen["step_ms"], 1000);
  EXPECT_EQ(seen["at_ms"], Json({now_ms_ - 1000, now_ms_}));
  EXPECT_EQ(seen["series"]["a"], Json({1, 3}));
  EXPECT_EQ(seen["series"]["b"], Json({2.5, nullptr}));
}

TEST_F(HistoryTest, forgets_what_is_older_than_a_quarter_of_an_hour) {
  for (int second = 0; second < 1'000; ++second)
    tell({{"a", static_cast<double>(second)}});

  const Json seen = part(HistorySpan::quarter_hour);

  ASSERT_EQ(seen["series"]["a"].size(), 900);
  EXPECT_EQ(seen["series"]["a"].front(), 100);
  EXPECT_EQ(seen["series"]["a"].back(), 999);
  EXPECT_EQ(seen["at_ms"].back(), now_ms_);
}

TEST_F(HistoryTest, makes_ten_seconds_the_largest_of_a_level_and_the_mean_of_a_rate) {
  for (int second = 0; second < 10; ++second)
    tell({{"level", second == 4 ? 50.0 : 1.0}, {"rate", second == 4 ? 50.0 : 0.0, HistoryKind::rate}});

  const Json seen = part(HistorySpan::day);

  EXPECT_EQ(seen["step_ms"], 10'000);
  EXPECT_EQ(seen["series"]["level"], Json({50}));
  EXPECT_EQ(seen["series"]["rate"], Json({5}));
}

TEST_F(HistoryTest, answers_a_day_with_few_points_and_no_peak_is_lost) {
  for (int second = 0; second < 90'000; ++second)
    tell({{"a", second == 45'000 ? 7.0 : 0.0}});

  const Json seen = part(HistorySpan::day);

  ASSERT_LE(seen["series"]["a"].size(), 1'440);
  EXPECT_EQ(seen["series"]["a"].size(), seen["at_ms"].size());
  EXPECT_GE(seen["step_ms"].get<int>() * static_cast<int>(seen["at_ms"].size()), 86'400'000 - 60'000);
  double largest = 0;
  for (const Json& value : seen["series"]["a"])
    largest = std::max(largest, value.get<double>());
  EXPECT_EQ(largest, 7);
}

TEST_F(HistoryTest, stays_within_its_bytes_however_many_series_come) {
  for (int second = 0; second < 3; ++second) {
    std::vector<HistoryValue> values;
    for (int series = 0; series < 1'000; ++series)
      values.push_back({"series" + std::to_string(series), 1});
    tell(values);
  }

  EXPECT_EQ(history_.series(), 200);
  EXPECT_EQ(history_.left_out(), 3 * 800);
  EXPECT_LE(history_.bytes(), 8 * 1024 * 1024);
}

TEST_F(HistoryTest, a_series_that_is_gone_makes_way_for_a_new_one) {
  std::vector<HistoryValue> values;
  for (int series = 0; series < 200; ++series)
    values.push_back({"series" + std::to_string(series), 1});
  tell(values);
  values.erase(values.begin());  // series0 is gone
  for (int second = 0; second < 900; ++second)
    tell(values);

  values.push_back({"new", 4});
  tell(values);

  EXPECT_EQ(part(HistorySpan::quarter_hour, "new")["series"]["new"].back(), 4);
  EXPECT_FALSE(part(HistorySpan::quarter_hour)["series"].contains("series0"));
}

TEST_F(HistoryTest, a_clock_that_was_set_back_begins_it_anew) {
  tell({{"a", 1}});
  now_ms_ -= 3'600'000;
  tell({{"b", 2}});

  const Json seen = part(HistorySpan::quarter_hour);

  EXPECT_EQ(seen["at_ms"], Json({now_ms_}));
  EXPECT_EQ(seen["series"], Json({{"b", Json({2})}}));
}

TEST_F(HistoryTest, chooses_by_prefix_and_takes_any_name) {
  const std::string odd = "lane.\"\\\n<b>\xff.queued";
  tell({{"lane.a.queued", 1}, {odd, 2}, {"broker.workers", 3}, {"lane.a.bad", std::nan("")}});

  const Json seen = part(HistorySpan::quarter_hour, "lane.");

  EXPECT_EQ(seen["series"].size(), 2);
  EXPECT_EQ(seen["series"]["lane.a.queued"], Json({1}));
}

}  // namespace
}  // namespace lanemq::admin
