// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/cli/run/failures.hpp"
#include "client/cli/run/progress.hpp"
#include "client/cli/run/retry.hpp"
#include "client/cli/text/stats_table.hpp"
#include "client/cli/text/terminal.hpp"
#include "common/explanation/explanation.hpp"

namespace lanemq::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

ClientError error(const std::string& code, std::optional<milliseconds> retry_after = std::nullopt) {
  return {.code = code, .retry_after = retry_after};
}

TEST(Retry, refusals_are_sent_again_however_often) {
  for (const char* code : {"lane_full", "client_full", "bytes_full", "store_full", "draining", "paused"})
    EXPECT_EQ(after_error(error(code), {.refusals = 1'000}), AfterError::send_again) << code;
}

TEST(Retry, jobs_that_ended_badly_are_run_again_only_where_that_was_asked_for) {
  EXPECT_EQ(after_error(error("worker_lost"), {.retries_left = 0}), AfterError::give_up);
  EXPECT_EQ(after_error(error("worker_lost"), {.retries_left = 1}), AfterError::run_again);
  EXPECT_EQ(after_error(error("upstream_failed"), {.retries_left = 1}), AfterError::run_again);
  EXPECT_EQ(after_error(error("of_a_later_broker", seconds(1)), {.retries_left = 1}), AfterError::run_again);
  for (const char* code :
       {"upstream_rejected", "forbidden", "deadline", "conflict", "too_large", "of_a_later_broker"})
    EXPECT_EQ(after_error(error(code), {.retries_left = 9}), AfterError::give_up) << code;
}

TEST(Retry, a_run_stops_where_the_broker_refuses_what_all_lines_have_in_common) {
  for (const char* const code : {"bad_request", "unauthorized"}) {
    EXPECT_EQ(after_error(error(code), {.retries_left = 9}), AfterError::stop) << code;
    ClientError of_the_library = error(code);
    of_the_library.local = true;
    EXPECT_EQ(after_error(of_the_library, {}), AfterError::give_up) << code;
  }
}

ClientError rejected(const std::string& message) {
  return {.code = "upstream_rejected", .message = message, .attempts = 1};
}

ClientError refused_for_all(const std::string& message) {
  return {.code = "upstream_rejected", .message = message, .upstream_status = 401};
}

TEST(Failures, are_said_by_code_with_the_first_of_each) {
  Failures failures;
  failures.note(3, rejected("no such model"), true);
  failures.note(5, error("deadline"), true);
  for (std::uint64_t line = 6; line < 1'206; ++line)
    failures.note(line, rejected("too long"), true);

  EXPECT_THAT(
      failures.sentences(),
      testing::ElementsAre("1,201 failed with upstream_rejected, the first of them line 3: no such model",
                           "1 failed with deadline, line 5: "));
  EXPECT_EQ(failures.json(), R"({"deadline":1,"upstream_rejected":1201})");
  EXPECT_TRUE(failures.may_succeed_later());
  EXPECT_FALSE(Failures().may_succeed_later());
}

TEST(Failures, codes_beyond_the_bound_are_counted_together) {
  Failures failures;
  for (int i = 0; i < 100; ++i)
    failures.note(1, error("code-" + std::to_string(i)), true);
  EXPECT_EQ(failures.sentences().size(), Failures::kCodesMax + 1);
  EXPECT_THAT(failures.sentences().front(), HasSubstr("84 failed with other"));
}

TEST(Failures, look_hopeless_when_all_that_were_sent_ended_with_the_same_words) {
  const auto after = [](std::size_t count, auto&& before, bool sent = true) {
    Failures failures;
    before(failures);
    for (std::size_t i = 0; i < count; ++i)
      failures.note(i, refused_for_all("bad key"), sent);
    return failures.looks_hopeless();
  };
  const auto nothing = [](Failures&) {};

  EXPECT_TRUE(after(Failures::kAlikeMax, nothing));
  EXPECT_FALSE(after(Failures::kAlikeMax - 1, nothing));
  EXPECT_FALSE(after(1'000, nothing, false)) << "lines that cannot be sent say nothing of the others";
  EXPECT_FALSE(after(1'000, [](Failures& failures) { failures.note_success(); }));
  EXPECT_FALSE(after(1'000, [](Failures& failures) { failures.note(1, refused_for_all("too"), true); }));
  EXPECT_FALSE(after(1'000, [](Failures& failures) { failures.note(1, rejected("too long"), true); }));
  EXPECT_FALSE(after(1'000, [](Failures& failures) { failures.note(1, error("deadline"), true); }));
  EXPECT_TRUE(after(10, [](Failures& failures) { failures.note(1, error("bad_request"), false); }));
}

TEST(Retry, waits_as_told_and_longer_each_time_where_nothing_is_told) {
  const auto wait = [](const ClientError& why, int refusals, double chance = 0) {
    return wait_before_retry(why, {.refusals = refusals}, chance).count();
  };
  EXPECT_EQ(wait(error("lane_full", milliseconds(700)), 0), 700);
  EXPECT_EQ(wait(error("lane_full", milliseconds(700)), 0, 0.999), 874);
  EXPECT_EQ(wait(error("lane_full", milliseconds(0)), 0), 100);
  EXPECT_EQ(wait(error("lane_full", std::chrono::hours(5)), 0), 60'000);
  EXPECT_EQ(wait(error("lane_full"), 0), 100);
  EXPECT_EQ(wait(error("lane_full"), 3), 800);
  EXPECT_EQ(wait(error("lane_full"), 1'000), 5'000);
}

TEST(Progress, rate_is_that_of_the_last_seconds) {
  const Progress::TimePoint start{seconds(100)};
  Progress progress(start);
  RunCounts counts{.total = 1'000, .before = 100};
  EXPECT_EQ(progress.rate(), 0);
  EXPECT_EQ(progress.remaining(counts), std::nullopt);

  for (int second = 1; second <= 30; ++second) {
    counts.done += second <= 15 ? 1 : 10;
    progress.sample(counts, start + seconds(second));
  }

  EXPECT_DOUBLE_EQ(progress.rate(), 10);
  EXPECT_EQ(counts.settled(), 265u);
  EXPECT_EQ(progress.remaining(counts), milliseconds(73'500));
}

TEST(Progress, bar_fits_its_columns) {
  const Progress::TimePoint start{seconds(100)};
  Progress progress(start);
  const RunCounts counts{.total = 1'319, .done = 659, .failed = 1};
  progress.sample(counts, start + seconds(10));

  for (const std::size_t columns : {1u, 10u, 40u, 60u, 80u, 200u})
    EXPECT_LE(progress.bar(counts, columns).size(), columns);
  EXPECT_THAT(progress.bar(counts, 100),
              AllOf(HasSubstr("[####"), HasSubstr("...]"), HasSubstr(" 50 %"), HasSubstr("660/1,319"),
                    HasSubstr("66/s"), HasSubstr("ETA 9.9s"), HasSubstr("failed 1")));
  EXPECT_THAT(progress.bar({.total = 0}, 80), HasSubstr("100 %"));
}

TEST(Progress, summary_says_what_came_of_it) {
  const Progress::TimePoint start{seconds(100)};
  const Progress progress(start);

  EXPECT_EQ(progress.summary({.total = 10, .before = 2, .done = 7, .failed = 1}, start + seconds(4)),
            "10 lines: 7 done, 2 done before, 1 failed; 4.0s, 2.0/s");
  EXPECT_EQ(progress.summary({.total = 10, .done = 4}, start + seconds(2)),
            "10 lines: 4 done, 0 failed, 6 not answered; 2.0s, 2.0/s");
}

TEST(Terminal, durations_and_numbers_read_well) {
  EXPECT_EQ(short_duration(milliseconds(0)), "0ms");
  EXPECT_EQ(short_duration(milliseconds(999)), "999ms");
  EXPECT_EQ(short_duration(milliseconds(12'345)), "12.3s");
  EXPECT_EQ(short_duration(milliseconds(245'000)), "4m05s");
  EXPECT_EQ(short_duration(milliseconds(7'620'000)), "2h07m");
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1'000), "1,000");
  EXPECT_EQ(grouped(1'234'567), "1,234,567");
}

TEST(StatsTable, has_a_line_for_each_lane_in_the_brokers_order) {
  const auto table = stats_table(
      R"({"version":"0.1.0","uptime_ms":61000,"memory_bytes":1048576,"lanes":{
          "critical":{"queued":0,"delayed":0,"running":1,"succeeded":12345,"failed":2,"refused":3,"oldest_ms":0,
                      "wait_ms":{"p50":1,"p99":2,"max":3},"run_ms":{"p50":900,"p99":1800,"max":2000}},
          "batch":{"queued":10000,"running":64}},
          "workers":{"connected":2,"capacity":128,"running":65},
          "budgets":{"openai":{"requests_per_minute":{"level":9.5,"capacity":50,"limit":600}}},
          "upstreams":{"chat":{"breaker":"open","retry_ms":4000,"retries_left":7}}})",
      false);

  ASSERT_TRUE(table.has_value());
  EXPECT_THAT(*table,
              AllOf(HasSubstr("0.1.0"), HasSubstr("up 1m01s"), HasSubstr("1.0 MiB"), HasSubstr("12,345"),
                    HasSubstr("10,000"), HasSubstr("2 connected, 65 of 128"),
                    HasSubstr("requests_per_minute"), HasSubstr("chat         open"), HasSubstr("4.0s")));
  EXPECT_LT(table->find("\ncritical "), table->find("\nbatch "));
  EXPECT_THAT(*table, Not(HasSubstr("\x1b")));
}

TEST(StatsTable, tells_how_far_groups_are) {
  const auto table = stats_table(
      R"({"lanes":{"normal":{}},"groups":{"night\u001b":{"size":10000,"open":64,"succeeded":3000,"failed":3,
          "cancelled":2,"expired":1,"age_ms":120000,"left_ms":280000},"new":{"size":7,"open":7,"succeeded":0,"age_ms":0}}})",
      false);

  ASSERT_TRUE(table.has_value());
  EXPECT_THAT(*table, AllOf(HasSubstr("GROUP"), HasSubstr("over in"), Not(HasSubstr("\x1b"))));
  EXPECT_THAT(*table, testing::ContainsRegex(
                          "\nnight[^ ]+ +3,000 +10,000 +6 +64 +2m00s +4m40s\nnew +0 +7 +0 +7 +0ms +-\n"));
  EXPECT_EQ(groups_table(R"({"lanes":{},"groups":{}})", false), "");
}

TEST(StatsTable, tells_what_was_cancelled_from_what_failed) {
  const auto table = stats_table(
      R"({"resident_bytes":19084083,"memory_bytes":1229,"lanes":{"normal":{"queued":0,"failed":7,"cancelled":5}}})",
      false);

  ASSERT_TRUE(table.has_value());
  EXPECT_THAT(*table, AllOf(HasSubstr("failed  cancelled"), testing::ContainsRegex("normal .* 2 +5 ")));
  EXPECT_THAT(*table, HasSubstr("memory 18.2 MiB, 1.2 KiB of it jobs\n"));
  EXPECT_THAT(*stats_table(R"({"resident_bytes":19084083,"memory_bytes":0,"lanes":{"normal":{}}})", false),
              HasSubstr("memory 18.2 MiB\n"));
}

TEST(StatsTable, says_how_many_others_there_are_of_a_list_that_is_cut) {
  const auto table = stats_table(
      R"({"lanes":{"normal":{}},"unserved":{"chat":{"queued":1}},"unserved_left_out":1012,"paused":["lane batch"],
          "paused_left_out":2,"upstreams":{"chat":{"breaker":"open"}},"upstreams_left_out":3})",
      false);

  ASSERT_TRUE(table.has_value());
  EXPECT_THAT(*table, AllOf(HasSubstr("\nand 1,012 others that no worker serves"),
                            HasSubstr("paused: lane batch, and 2 others;"), HasSubstr("\nand 3 others;")));
}

TEST(StatsTable, leaves_out_lanes_without_any_job_and_says_which) {
  constexpr std::string_view kStats =
      R"({"lanes":{"critical":{"queued":0,"refused":0},"normal":{"succeeded":1},"batch":{}},
          "unserved":{"chat\u001b[0m":{"queued":1200}}})";
  const auto table = stats_table(kStats, false);
  ASSERT_TRUE(table.has_value());
  EXPECT_THAT(*table, AllOf(HasSubstr("\nnormal "), Not(HasSubstr("\ncritical ")), Not(HasSubstr("\nbatch ")),
                            HasSubstr("not used so far: critical, batch (--all shows them)\n"),
                            HasSubstr("no worker serves chat"), HasSubstr("(queued: 1,200)")));
  EXPECT_THAT(*table, Not(HasSubstr("\x1b")));
  EXPECT_THAT(*stats_table(kStats, false, true),
              AllOf(HasSubstr("\ncritical "), HasSubstr("\nbatch "), Not(HasSubstr("--all"))));
  EXPECT_THAT(*stats_table(R"({"lanes":{"critical":{}}})", false), HasSubstr("\ncritical "));
}

TEST(StatsTable, says_whose_breaker_it_is_and_until_when) {
  const auto table = stats_table(
      R"({"lanes":{"normal":{}},"upstreams":{"chat":{"breaker":"closed","retries_left":9,"apart":[
          {"model":"gpt-x","client":"alice","breaker":"open","retry_ms":4000},
          {"client":"alice","breaker":"others_first","retry_ms":2000}]}}})",
      false);

  ASSERT_TRUE(table.has_value());
  EXPECT_THAT(*table, AllOf(HasSubstr("model"), HasSubstr("client"), HasSubstr("gpt-x"), HasSubstr("alice"),
                            HasSubstr("others_first"), HasSubstr("2.0s")));
}

TEST(StatsTable, colours_only_where_they_are_wanted_and_escapes_what_the_broker_says) {
  const auto table = stats_table(R"({"version":"\u001b[31m","lanes":{"a\u001b[0m":{}}})", false);
  ASSERT_TRUE(table.has_value());
  EXPECT_THAT(*table, Not(HasSubstr("\x1b")));
  EXPECT_THAT(*stats_table(R"({"lanes":{}})", true), HasSubstr("\x1b[1m"));
}

TEST(StatsTable, takes_only_the_document) {
  EXPECT_EQ(stats_table("", false), std::nullopt);
  EXPECT_EQ(stats_table("[]", false), std::nullopt);
  EXPECT_EQ(stats_table("{}", false), std::nullopt);
  EXPECT_EQ(stats_table(R"({"lanes":7})", false), std::nullopt);
  EXPECT_TRUE(stats_table(R"({"lanes":{"a":{"wait_ms":7,"queued":"x"}},"workers":[],"budgets":{"b":1},
                      "upstreams":{"u":1}})",
                          false));
}

}  // namespace
}  // namespace lanemq::cli
