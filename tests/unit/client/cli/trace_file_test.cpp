// SPDX-License-Identifier: Apache-2.0
#include "client/cli/simulate/trace_file.hpp"

#include <chrono>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lanemq::cli {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::StartsWith;

const std::string kHeader = "TIMESTAMP,ContextTokens,GeneratedTokens\n";

Trace read(const std::string& text, double speed = 1) {
  std::istringstream in(text);
  return read_trace(in, "t.csv", {.lanes = {"high", "normal"}, .speed = speed});
}

std::string error_of(const std::string& text, double speed = 1) {
  try {
    read(text, speed);
  } catch (const TraceError& error) {
    return error.what();
  }
  return "";
}

TEST(TraceFile, times_count_from_the_first_request) {
  const Trace trace = read(kHeader +
                           "2023-11-16 23:59:59.5000000,374,44\r\n"
                           "2023-11-17T00:00:00.1234567Z,396,109\n"
                           "\n"
                           "2023-11-17 00:00:01,1,0");

  ASSERT_EQ(trace.requests.size(), 3u);
  EXPECT_EQ(trace.requests[0].at, microseconds(0));
  EXPECT_EQ(trace.requests[1].at, microseconds(623'456));
  EXPECT_EQ(trace.requests[2].at, milliseconds(1'500));
  EXPECT_EQ(trace.requests[0].input_tokens, 374);
  EXPECT_EQ(trace.requests[0].output_tokens, 44);
  EXPECT_EQ(trace.requests[0].service, "trace");
  EXPECT_EQ(trace.requests[0].client, "trace");
  EXPECT_EQ(trace.requests[0].lane, "");
  EXPECT_TRUE(trace.was_sorted);
}

TEST(TraceFile, columns_come_in_any_order_and_unknown_ones_are_ignored) {
  const Trace trace = read(
      "\xEF\xBB\xBFMODEL,note,CLIENT,GeneratedTokens,LANE,TIMESTAMP,SERVICE,ContextTokens\r\n"
      "gpt,\"a, \"\"b\"\"\",ann,2,high,0.5,chat,1\r\n"
      ",,,4,,\"0.75\",,3\r\n");

  ASSERT_EQ(trace.requests.size(), 2u);
  const whatif::Request& first = trace.requests[0];
  EXPECT_EQ(first.model, "gpt");
  EXPECT_EQ(first.client, "ann");
  EXPECT_EQ(first.lane, "high");
  EXPECT_EQ(first.service, "chat");
  EXPECT_EQ(first.input_tokens, 1);
  EXPECT_EQ(first.output_tokens, 2);
  const whatif::Request& second = trace.requests[1];
  EXPECT_EQ(second.at, milliseconds(250));
  EXPECT_EQ(second.model, "");
  EXPECT_EQ(second.client, "trace");
  EXPECT_EQ(second.lane, "");
  EXPECT_EQ(second.service, "trace");
}

TEST(TraceFile, rows_are_put_in_order_and_those_of_one_time_keep_theirs) {
  const Trace trace = read(kHeader + "5,1,0\n3,2,0\n5,3,0\n3,4,0\n");

  std::vector<std::int64_t> order;
  for (const auto& request : trace.requests)
    order.push_back(request.input_tokens);
  EXPECT_THAT(order, testing::ElementsAre(2, 4, 1, 3));
  EXPECT_EQ(trace.requests[3].at, seconds(2));
  EXPECT_FALSE(trace.was_sorted);
}

TEST(TraceFile, speed_brings_requests_closer) {
  EXPECT_EQ(read(kHeader + "0,1,1\n3,1,1\n", 2).requests[1].at, milliseconds(1'500));
  EXPECT_EQ(read(kHeader + "0,1,1\n3,1,1\n", 0.5).requests[1].at, seconds(6));
}

TEST(TraceFile, errors_name_the_line_the_field_and_what_to_write) {
  EXPECT_THAT(error_of(""), HasSubstr("t.csv is empty"));
  EXPECT_THAT(error_of("\n\n"), HasSubstr("t.csv is empty"));
  EXPECT_THAT(error_of(kHeader), HasSubstr("no requests"));
  EXPECT_THAT(error_of("TIMESTAMP,ContextTokens\n"),
              AllOf(StartsWith("t.csv:1: "), HasSubstr("GeneratedTokens is missing")));
  EXPECT_THAT(error_of("timestamp,ContextTokens,GeneratedTokens\n"), HasSubstr("TIMESTAMP is missing"));
  EXPECT_THAT(error_of("TIMESTAMP,LANE,ContextTokens,GeneratedTokens,LANE\n"),
              HasSubstr("LANE is there twice"));
  for (const char* time :
       {"", "yesterday", "2023-02-29 00:00:00", "2023-11-16 24:00:00", "2023-11-16 18:15:46.", "2023-11-16",
        "2023-11-16 18:15:46+01", "-1", "nan", "inf", "1e11", "1 "})
    EXPECT_THAT(error_of(kHeader + "1,1,1\n" + time + ",1,1\n"),
                AllOf(StartsWith("t.csv:3: TIMESTAMP \""), HasSubstr("write it as 2023-11-16 18:15:46.68")))
        << time;
  for (const char* tokens : {"", "x", "-1", "1.5", " 1", "1000000001", "99999999999999999999"})
    EXPECT_THAT(
        error_of(kHeader + "\n1," + tokens + ",1\n"),
        AllOf(StartsWith("t.csv:3: ContextTokens \""), HasSubstr("whole number from 0 to 1000000000")))
        << tokens;
  EXPECT_THAT(error_of("TIMESTAMP,ContextTokens,GeneratedTokens,LANE\n1,1,1,express\n"),
              AllOf(StartsWith("t.csv:2: LANE \"express\""), HasSubstr("one of high, normal")));
  const std::string long_name(129, 'n');
  EXPECT_THAT(error_of("TIMESTAMP,ContextTokens,GeneratedTokens,CLIENT\n1,1,1," + long_name + "\n"),
              AllOf(StartsWith("t.csv:2: CLIENT "), HasSubstr("at most 128 bytes")));
  EXPECT_THAT(error_of("TIMESTAMP,ContextTokens,GeneratedTokens,MODEL\n1,1,1,\xff\n"),
              AllOf(HasSubstr("MODEL \"\\xff\""), HasSubstr("UTF-8")));
  EXPECT_THAT(error_of(kHeader + "1,1\n"), HasSubstr("2 fields and the header 3"));
  EXPECT_THAT(error_of(kHeader + "1,1,1,1\n"), HasSubstr("4 fields and the header 3"));
  EXPECT_THAT(error_of(kHeader + "1,1,\"1\n"), HasSubstr("quoted field does not end"));
  EXPECT_THAT(error_of(kHeader + "1,1,\"1\"2\n"), HasSubstr("quoted field does not end"));
  EXPECT_THAT(error_of(kHeader + std::string("1,1,1\0\n", 7)), HasSubstr("NUL"));
  EXPECT_THAT(error_of(kHeader + std::string(kTraceLineBytesMax + 2, '1') + "\n"),
              HasSubstr("more than 65536 bytes"));
}

TEST(TraceFile, a_trace_of_years_is_refused_unless_it_comes_faster) {
  const std::string years = kHeader + "2021-01-01 00:00:00,1,1\n2023-01-01 00:00:00,1,1\n";

  EXPECT_THAT(error_of(years), AllOf(HasSubstr("366 days"), HasSubstr("--speed")));
  EXPECT_EQ(error_of(years, 2), "");
}

}  // namespace
}  // namespace lanemq::cli
