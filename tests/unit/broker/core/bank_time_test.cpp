// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/shared/bank_time.hpp"

#include <map>
#include <optional>
#include <string>

#include <gtest/gtest.h>

namespace lanemq::core {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint kBankBegin{std::chrono::hours(500'000)};

/// What two shards say to a bank of the time: `at` is the database's clock, since kBankBegin.
class BankTimeTest : public testing::Test {
 protected:
  Duration draw(const std::string& shard, std::optional<Duration> saw, Duration at,
                std::uint64_t server = 1) {
    Draw draw{.shard = shard, .clock_changes = changes_[shard]};
    if (saw) draw.saw = kBankBegin + *saw;
    time_.tell({.now = kBankBegin + at, .server = server}, draw);
    changes_[shard] = time_.clock_changes;
    return time_.at - kBankBegin;
  }

  BankTime time_;
  std::map<std::string, std::uint64_t> changes_;
};

TEST_F(BankTimeTest, advances_as_the_databases_clock_does) {
  EXPECT_EQ(draw("a", {}, seconds(0)), seconds(0));
  EXPECT_EQ(draw("a", milliseconds(2990), seconds(3)), seconds(3));
  EXPECT_EQ(draw("b", {}, seconds(5)), seconds(5)) << "also for who saw nothing of it";
  EXPECT_EQ(draw("a", milliseconds(5100), seconds(6)), seconds(6)) << "also where the link is slow";
}

TEST_F(BankTimeTest, is_never_set_back_nor_ahead_of_what_the_drawing_shard_saw_pass) {
  draw("a", {}, seconds(0));
  EXPECT_EQ(draw("a", seconds(3), seconds(3600)), seconds(3)) << "the clock was set ahead";
  EXPECT_EQ(draw("a", seconds(4), seconds(0)), seconds(3)) << "it was set back";
  EXPECT_EQ(draw("a", milliseconds(3999), seconds(1)), seconds(4));
}

TEST_F(BankTimeTest, is_what_the_drawing_shard_saw_pass_where_another_server_answers) {
  draw("a", {}, seconds(0));
  EXPECT_EQ(draw("a", milliseconds(3990), milliseconds(4900), 2), milliseconds(3990));
  EXPECT_EQ(draw("b", {}, milliseconds(6900), 3), milliseconds(4990)) << "who saw nothing takes a second off";
  EXPECT_EQ(draw("b", milliseconds(5900), milliseconds(6900), 4), milliseconds(4990))
      << "its clock is behind";
}

TEST_F(BankTimeTest, lags_behind_by_no_less_for_a_shard_that_knew_it_before) {
  draw("a", {}, seconds(0));
  draw("b", {}, seconds(0));
  // Servers take over whose clocks are behind, and then ahead. In between b draws nothing.
  EXPECT_EQ(draw("a", milliseconds(990), milliseconds(100), 2), milliseconds(100));
  EXPECT_EQ(draw("b", seconds(10), milliseconds(10'100), 3), milliseconds(9100)) << "0.9 s behind still";
  EXPECT_EQ(draw("a", milliseconds(10'100), milliseconds(12'100), 4), milliseconds(10'100)) << "as before";
}

TEST_F(BankTimeTest, knows_a_clock_that_was_set_back_by_less_than_passed) {
  draw("a", {}, seconds(0));
  draw("b", {}, seconds(0));
  EXPECT_EQ(draw("a", milliseconds(990), milliseconds(500)), milliseconds(500));
  EXPECT_EQ(draw("b", seconds(2), milliseconds(2400), 2), milliseconds(1400))
      << "less a second: it saw nothing";
}

}  // namespace
}  // namespace lanemq::core
