// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/model_faults.hpp"

#include <gtest/gtest.h>

namespace lanemq::upstream {
namespace {

using namespace std::chrono_literals;

TEST(ParseModelFaults, reads_every_piece) {
  const auto faults = parse_model_faults(
      "gpt-x+status=429+retry=2+code=insufficient_quota+delay=30+gap=5+tokens=9+no-answer+reset=1+half=2+eof="
      "3+"
      "error-event=4+stall=5+hold+pause=8+drip=6+pings+comments+crlf+stamps+first=7");

  ASSERT_TRUE(faults.has_value());
  EXPECT_EQ(faults->status, 429u);
  EXPECT_EQ(faults->retry_after_s, 2u);
  EXPECT_EQ(faults->code, "insufficient_quota");
  EXPECT_EQ(faults->delay, 30ms);
  EXPECT_EQ(faults->gap, 5ms);
  EXPECT_EQ(faults->tokens, 9u);
  EXPECT_TRUE(faults->no_answer);
  EXPECT_EQ(faults->reset_bytes, 1u);
  EXPECT_EQ(faults->half_bytes, 2u);
  EXPECT_EQ(faults->eof_deltas, 3u);
  EXPECT_EQ(faults->error_deltas, 4u);
  EXPECT_EQ(faults->stall_deltas, 5u);
  EXPECT_TRUE(faults->hold);
  EXPECT_EQ(faults->pause_deltas, 8u);
  EXPECT_EQ(faults->drip, 6u);
  EXPECT_TRUE(faults->pings && faults->comments && faults->stamps);
  EXPECT_EQ(faults->line_end, "\r\n");
  EXPECT_EQ(faults->first, 7u);
  EXPECT_EQ(parse_model_faults("gpt-x+cr")->line_end, "\r");
}

TEST(ParseModelFaults, finds_none_in_a_plain_name) {
  const auto faults = parse_model_faults("gpt-4o=x");

  ASSERT_TRUE(faults.has_value());
  EXPECT_EQ(faults->status, 0u);
  EXPECT_EQ(faults->first, 0u);
}

TEST(ParseModelFaults, names_the_piece_that_it_does_not_know) {
  for (const std::string piece :
       {"statsu=500", "status", "status=", "status=399", "status=600", "status=x", "reset=-1", "pings=1",
        "delay=3600001", "gap=99999999999999999999", "tokens=1000000001", "code=", ""}) {
    const auto faults = parse_model_faults("gpt-x+tokens=5+" + piece);
    ASSERT_FALSE(faults.has_value()) << piece;
    EXPECT_NE(faults.error().message.find("\"" + piece + "\""), std::string::npos);
  }
}

TEST(ModelFaultsHelp, has_a_line_for_every_piece) {
  const std::string help = model_faults_help();

  for (const char* piece : {"+status=CODE", "+code=NAME", "+first=N", "+crlf ", "+error-event=K"})
    EXPECT_NE(help.find(piece), std::string::npos) << piece;
}

}  // namespace
}  // namespace lanemq::upstream
