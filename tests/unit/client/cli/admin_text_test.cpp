// SPDX-License-Identifier: Apache-2.0
#include "client/cli/text/admin_text.hpp"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lanemq::cli {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

TEST(AdminPages, are_put_together_until_the_broker_has_no_more) {
  std::string document;

  EXPECT_EQ(add_admin_page(document, R"({"jobs":[{"id":"a"}],"next":7})", "jobs", 0, 0), 7);
  EXPECT_EQ(add_admin_page(document, R"({"jobs":[],"next":9,"ref":1})", "jobs", 0, 7), 9);
  EXPECT_EQ(add_admin_page(document, R"({"jobs":[{"id":"b"}]})", "jobs", 0, 9), std::nullopt);
  EXPECT_EQ(document, R"({"jobs":[{"id":"a"},{"id":"b"}]})");
}

TEST(AdminPages, end_with_as_many_rows_as_are_wanted_and_say_that_there_may_be_more) {
  std::string document;

  EXPECT_EQ(add_admin_page(document, R"({"jobs":[{"id":"a"},{"id":"b"}],"next":7})", "jobs", 1, 0),
            std::nullopt);
  EXPECT_EQ(document, R"({"jobs":[{"id":"a"}],"next":7})");
}

TEST(AdminPages, of_a_broker_that_does_not_get_on_end) {
  std::string document;

  EXPECT_EQ(add_admin_page(document, R"({"jobs":[],"next":7})", "jobs", 0, 7), std::nullopt);
}

TEST(AdminText, of_a_list_leaves_out_columns_that_nobody_has) {
  const auto text = admin_text(
      "jobs", R"({"jobs":[{"id":"a","state":"queued","age_ms":61000},{"id":"b\n","state":"running"}]})",
      false);

  EXPECT_EQ(text, "JOB      state    age\na       queued  1m01s\nb\\x0a  running      -\n");
  EXPECT_EQ(admin_text("jobs", R"({"jobs":[]})", false), "no jobs\n");
  EXPECT_EQ(admin_text("jobs", "{}", false), std::nullopt);
  EXPECT_EQ(admin_text("jobs", "nonsense", false), std::nullopt);
}

TEST(AdminText, counts_jobs_and_measures_waits) {
  const auto text = admin_text(
      "clients",
      R"({"clients":[{"name":"a","tokens":4200,"wait_ms":{"count":1200,"minute":{"count":3,"p50":1500,"p99":2500}},)"
      R"("run_ms":{"count":1200,"minute":{"count":0,"p50":0,"p99":0}}}]})",
      false);

  EXPECT_EQ(text,
            "CLIENT   jobs  tokens  wait p50 1m  wait p99 1m\n"
            "a       1,200   4,200         1.5s         2.5s\n");
}

TEST(AdminText, of_a_change_is_a_sentence) {
  EXPECT_EQ(admin_text("pause", R"({"what":"lane","name":"batch","reason":"disk","changed":true})", false),
            "lane batch is paused: disk\n");
  EXPECT_EQ(admin_text("resume", R"({"what":"client","name":"a","changed":false})", false),
            "client a goes on (as it was before)\n");
  EXPECT_EQ(
      admin_text("drain",
                 R"({"what":"worker","name":"w","draining":true,"workers":2,"running":3,"changed":true})",
                 false),
      "worker w is draining (2 of that name, 3 jobs running)\n");
  EXPECT_EQ(admin_text("move", R"({"id":"a","lane":"low","changed":true,"dry_run":true})", false),
            "would be: job a waits in lane low\n");
  EXPECT_EQ(admin_text("backup", R"({"path":"/backups/a.db"})", false),
            "the store is copied to /backups/a.db\n");
}

TEST(AdminText, of_a_reload_is_a_table_of_what_counts_now_and_what_after_a_restart) {
  const std::string changes =
      R"("reload":[{"what":"lane.low.depth_max","how":"changed","from":"10","to":"20","counts":"now"},)"
      R"({"what":"budget.b","how":"added","counts":"after a restart"}])";

  EXPECT_EQ(admin_text("reload", "{" + changes + R"(,"changed":true,"more":7})", false),
            "the configuration is read again\n"
            "OPTION                  how  from  to           counts\n"
            "lane.low.depth_max  changed    10  20              now\n"
            "budget.b              added     -   -  after a restart\n"
            "and 7 more\n");
  EXPECT_EQ(admin_text("reload", "{" + changes + R"(,"dry_run":true})", false)->substr(0, 31),
            "this would change; nothing has\n");
  EXPECT_EQ(admin_text("reload", R"({"reload":[],"changed":false})", false),
            "the configuration is read again; nothing has changed\n");
  EXPECT_EQ(admin_text("reload", R"({"reload":[],"dry_run":true})", false), "nothing would change\n");
}

TEST(Top, shows_what_lanes_finish_in_a_second_and_the_busiest_first) {
  const auto stats = [](int succeeded) {
    return R"({"version":"1","uptime_ms":1000,"lanes":{"normal":{"queued":2,"succeeded":)" +
           std::to_string(succeeded) +
           R"(,"failed":0}},"workers":{"connected":1,"capacity":4,"running":1},"paused":["lane low"]})";
  };
  const TopFacts before{.stats = stats(10), .workers = {}, .clients = {}};
  const TopFacts now{
      .stats = stats(30),
      .workers = R"({"workers":[{"name":"idle","running":0},{"name":"busy","running":3}]})",
      .clients =
          R"({"clients":[{"name":"a","waiting":1,"running":0},{"name":"b","waiting":5,"running":2}]})"};

  const std::vector<std::string> first = top_lines(now, {}, seconds(0));
  const std::vector<std::string> lines = top_lines(now, before, seconds(2));

  EXPECT_THAT(lines[0], HasSubstr("places 1/4"));
  EXPECT_THAT(first[3], testing::ContainsRegex("^normal +2 +- +- +- "));
  EXPECT_THAT(lines[3], testing::ContainsRegex("^normal +2 +- +- +10.0 "));
  EXPECT_THAT(lines, testing::Contains("PAUSED  lane low"));
  const auto line_of = [&](const char* start) {
    return std::find_if(lines.begin(), lines.end(),
                        [&](const std::string& line) { return line.starts_with(start); });
  };
  EXPECT_LT(line_of("busy"), line_of("idle"));
  EXPECT_LT(line_of("b "), line_of("a "));
}

TEST(AdminText, changes_are_a_table) {
  const auto text = admin_text(
      "changes",
      R"({"changes":[{"number":2,"verb":"pause","what":"lane","name":"batch","how":"why","by":"ann","ago_ms":9}]})",
      false);
  EXPECT_THAT(*text, testing::ContainsRegex("VERB +of +name +how +by +ago"));
  EXPECT_THAT(*text, testing::ContainsRegex("pause +lane +batch +why +ann +9 ?ms"));
  EXPECT_EQ(admin_text("changes", R"({"changes":[]})", false), "no changes\n");
}

TEST(TopLines, a_lanes_times_are_those_of_the_last_minute) {
  const TopFacts facts{
      .stats = R"({"lanes":{"normal":{"queued":0,"wait_ms":{"p50":9000,"p99":9000},"run_ms":{"p50":9000}}}})",
      .lanes =
          R"({"lanes":[{"name":"normal","wait_ms":{"p50":9000,"p99":9000,"minute":{"p50":20,"p99":340}},)"
          R"("run_ms":{"p50":9000,"minute":{"p50":7}}}]})"};
  const std::string all = testing::PrintToString(top_lines(facts, {}, seconds(0)));
  EXPECT_THAT(all, testing::ContainsRegex("normal .* 20 ?ms .*340 ?ms .*7 ?ms"));
  EXPECT_THAT(all, testing::Not(HasSubstr("9 s")));
}

}  // namespace
}  // namespace lanemq::cli
