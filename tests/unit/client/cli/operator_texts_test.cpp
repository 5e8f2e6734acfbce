// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/cli/base/explanation.hpp"
#include "client/cli/simulate/report_text.hpp"
#include "client/cli/text/stats_table.hpp"

namespace lanemq::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::AllOf;
using testing::ContainsRegex;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

JobStatus queued(const std::string& blocked_by, std::optional<milliseconds> eta = std::nullopt) {
  return {.id = "j1", .state = "queued", .eta = eta, .blocked_by = blocked_by};
}

TEST(Explanation, says_the_one_thing_that_a_queued_job_waits_for_and_what_would_help) {
  struct Case {
    JobStatus status;
    const char *what, *help;
  };
  const Case cases[] = {
      {queued("worker chat bot"), "Job j1 waits for a free place at a worker that serves \"chat bot\".",
       "--capacity"},
      {queued("worker chat alone"),
       "Job j1 waits for a worker that serves \"chat\" and holds nothing else: a worker was lost that had "
       "this job "
       "and others, and any of them may be why.",
       "one more worker"},
      {queued("budget my api tokens_per_minute", seconds(12)),
       "Job j1 waits for budget \"my api\": not enough is left of its tokens_per_minute; there may be in "
       "12.0s.",
       "lanemq limits"},
      {queued("budget api requests_per_day"),
       "Job j1 waits for budget \"api\": not enough is left of its requests_per_day, and what comes free "
       "goes to jobs "
       "before it.",
       "higher lane"},
      {queued("budget api concurrency"),
       "Job j1 waits because as many jobs run as budget \"api\" allows at once (concurrency).",
       "concurrency"},
      {queued("budget api paused by its upstream", milliseconds(900)),
       "Job j1 waits because the upstream of budget \"api\" asked for a pause, which is over in 900ms.",
       "lower its limits"},
      {queued("lane batch"),
       "Job j1 waits for its turn: there are jobs before it in lane \"batch\" or in higher ones.",
       "higher lane"},
      {queued("no worker chat"), "Job j1 waits because no worker serves \"chat\".",
       "lanemq-worker --service chat="},
      {queued("no worker chat lane=low"), "Job j1 waits because no worker serves \"chat\" in lane \"low\".",
       "lanemq-worker --service chat=HANDLER, without --lanes"},
      {queued("no worker chat lane=low draining"),
       "Job j1 waits because no worker serves \"chat\" in lane \"low\" (all that do drain).",
       "lanemq resume worker"},
      {queued("no worker chat lane=b lane=low"),
       "Job j1 waits because no worker serves \"chat lane=b\" in lane \"low\".", "without --lanes"},
      {queued("upstream chat", seconds(4)),
       "Job j1 waits because the upstream of \"chat\" failed and is left alone; it is tried again in 4.0s.",
       "logs of its workers"},
      {queued("upstream chat model=m client=team a", seconds(4)),
       "Job j1 waits because the upstream of \"chat\" failed for model \"m\" and is left alone, as far as "
       "client \"team a\" is concerned; it is tried again in 4.0s.",
       "logs of its workers"},
      {queued("client team a in_flight_max"),
       "Job j1 waits because its client, \"team a\", has as many jobs at workers as it may (in_flight_max).",
       "one of them ends"},
      {queued("reserve api tokens_per_minute", seconds(2)),
       "Job j1 waits because what is left of budget \"api\" (tokens_per_minute) is reserved for higher "
       "lanes; there "
       "may be more in 2.0s.",
       "higher lane"},
      {queued("budget api keys"),
       "Job j1 waits because every key of budget \"api\" was refused by its upstream and "
       "rests, or is drained.",
       "SIGHUP"},
      {queued("paused lane batch: disk is full"),
       "Job j1 waits because an operator paused lane \"batch\": disk is full.", "lanemq resume lane batch"},
      {queued("paused client team a"), "Job j1 waits because an operator paused client \"team a\".",
       "lanemq resume client team a"},
      {queued("moon", seconds(3)), "Job j1 waits for \"moon\"; that may be over in 3.0s.", ""},
      {queued(""), "Job j1 waits, and the broker does not say for what.", ""},
      {{.id = "j1", .state = "delayed", .attempts = 2, .eta = milliseconds(80), .blocked_by = "retry"},
       "Job j1 failed at attempt 2 and waits to be tried again in 80ms.",
       "log of its worker"},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(explain_status(one.status).what, one.what);
    EXPECT_THAT(explain_status(one.status).help, HasSubstr(one.help));
  }
}

TEST(Explanation, says_how_a_job_ended) {
  const auto what = [](JobStatus status) {
    status.id = "j1";
    return explain_status(status).what;
  };
  EXPECT_EQ(what({.state = "running", .lane = "high", .attempts = 1, .worker = "w"}),
            "Job j1 of lane \"high\" runs at worker \"w\", attempt 1.");
  EXPECT_EQ(what({.state = "succeeded"}), "Job j1 has succeeded.");
  EXPECT_EQ(what({.state = "cancelled"}), "Job j1 was cancelled.");
  EXPECT_EQ(what({.state = "failed", .error_json = R"({"code":"upstream_failed","message":"500"})"}),
            "Job j1 has failed: upstream_failed, 500.");
  EXPECT_EQ(what({.state = "failed", .error_json = "7"}), "Job j1 has failed.");
  const JobStatus refused{.id = "j1",
                          .state = "failed",
                          .error_json = R"({"code":"upstream_quota","message":"upstream_auth: 401"})"};
  EXPECT_THAT(explain_status(refused).help, HasSubstr("The key is the worker's"));
  EXPECT_THAT(explain_status(refused).help, HasSubstr("lanemq redrive j1"));
  EXPECT_THAT(what({.state = "expired"}), HasSubstr("time was over"));
  EXPECT_THAT(what({.state = "unknown"}), HasSubstr("is not known"));
  EXPECT_EQ(what({.state = "stolen\x1b"}), "Job j1 is stolen\\x1b.");
}

TEST(Explanation, is_json_too) {
  EXPECT_EQ(
      explanation_json(queued("budget api concurrency", milliseconds(5))),
      R"({"id":"j1","state":"queued","attempts":0,"blocked_by":"budget api concurrency","eta_ms":5,)"
      R"("what":"Job j1 waits because as many jobs run as budget \"api\" allows at once (concurrency).",)"
      R"("help":"It goes when one of them ends; a higher concurrency helps if the upstream allows it, a higher )"
      R"(lane puts a job in front."})"
      "\n");
  EXPECT_THAT(explanation_json({.id = "\xff", .state = "failed", .error_json = R"({"code":"x"})"}),
              HasSubstr(R"("error":{"code":"x"})"));
}

TEST(ChangeJson, says_how_far_a_job_is) {
  EXPECT_EQ(
      change_json({.what = "progress", .seq = 4, .id = "j1", .state = "running", .pct = 100, .note = "n"}),
      R"({"what":"progress","seq":4,"id":"j1","state":"running","pct":100,"note":"n"})"
      "\n");
}

TEST(StatusJson, says_what_the_status_says_by_the_names_of_the_protocol) {
  EXPECT_EQ(status_json({.id = "j1",
                         .state = "queued",
                         .lane = "normal",
                         .attempts = 1,
                         .queued = milliseconds(7),
                         .position = 3,
                         .eta = milliseconds(5),
                         .blocked_by = "lane normal"}),
            R"({"id":"j1","state":"queued","lane":"normal","attempts":1,"queued_ms":7,"position":3,)"
            R"("blocked_by":"lane normal","eta_ms":5})"
            "\n");
  EXPECT_EQ(status_json({.id = "j1",
                         .state = "running",
                         .worker = "w",
                         .pct = 0,
                         .note = "reads",
                         .silent = milliseconds(9)}),
            R"({"id":"j1","state":"running","attempts":0,"worker":"w","pct":0,"note":"reads","silent_ms":9})"
            "\n");
  EXPECT_EQ(status_json({.id = "j1", .state = "unknown"}), R"({"id":"j1","state":"unknown","attempts":0})"
                                                           "\n");
  EXPECT_EQ(status_json({.id = "\xff", .state = "failed", .attempts = 2, .error_json = R"({"code":"x"})"}),
            "{\"id\":\"\uFFFD\",\"state\":\"failed\",\"attempts\":2,\"error\":{\"code\":\"x\"}}\n");
}

TEST(AnswerJson, has_the_answer_byte_for_byte_where_it_is_json) {
  JobDone done{.id = "j1",
               .lane = "low",
               .attempts = 2,
               .queued = milliseconds(7),
               .ran = milliseconds(9),
               .body = Blob::copy("{\"a\": 1.0}")};
  EXPECT_EQ(
      answer_json(done),
      R"({"id":"j1","state":"succeeded","lane":"low","attempts":2,"queued_ms":7,"ran_ms":9,"result":{"a": 1.0}})"
      "\n");
  done.usage = wire::Usage{.input_tokens = 3};
  done.body = Blob::copy("no \"JSON\"\x1b[2J");
  EXPECT_THAT(answer_json(done),
              testing::HasSubstr(R"("usage":{"input_tokens":3,"output_tokens":0},"result":"no \"JSON\")"));
  EXPECT_THAT(answer_json(done), testing::Not(testing::HasSubstr("\x1b")));
}

TEST(ErrorJson, says_why_there_is_no_answer) {
  EXPECT_EQ(error_json({.code = "lane_full", .message = "full"}),
            R"({"error":{"code":"lane_full","message":"full"}})"
            "\n");
  EXPECT_EQ(
      error_json({.code = "upstream_rejected",
                  .message = "m",
                  .id = "j1",
                  .retry_after = milliseconds(5),
                  .attempts = 1,
                  .limiter = "api",
                  .upstream_status = 400,
                  .body = Blob::copy("{}")}),
      R"({"error":{"id":"j1","code":"upstream_rejected","message":"m","attempts":1,"retry_after_ms":5,"limiter":"api",)"
      R"("upstream_status":400,"body":{}}})"
      "\n");
}

constexpr const char* kDocument =
    R"({"lanes":{},"budgets":{
        "api":{"requests_per_minute":{"level":7,"capacity":50,"limit":1600},
               "concurrency":{"level":-2,"capacity":40,"limit":40},"paused_ms":900},
        "free":{"tokens_per_day":{"level":-12345,"capacity":10,"limit":100}}}})";

TEST(LimitsTable, has_a_line_for_each_key) {
  const auto table = limits_table(
      R"({"budgets":{"api":{"concurrency":{"level":3,"capacity":4,"limit":4}}},"keys":{"api":{)"
      R"("k1":{"state":"active","running":1,"jobs":9,"requests_per_minute":{"level":5,"capacity":50,"limit":500}},)"
      R"("k2":{"state":"spent","running":0,"jobs":2}}}})",
      false);
  ASSERT_TRUE(table);
  EXPECT_THAT(*table, ContainsRegex("\napi/k1 +requests_per_minute +500 +5 +50 +- +- +active, 1 running"));
  EXPECT_THAT(*table, ContainsRegex("\napi/k2 .*spent, 0 running"));
}

TEST(LimitsTable, says_from_what_a_limit_is_known_and_writes_it_for_a_file) {
  const std::string document =
      R"({"budgets":{"a\"b":{"requests_per_minute":{"level":5,"capacity":60,"limit":600,"effective":60,)"
      R"("learnt_from":"words","learnt_ms":3000,"others":12},"tokens_per_day":{"level":5,"capacity":9,"limit":9},)"
      R"("concurrency":{"level":2,"capacity":3,"limit":9,"effective":3,"learnt_from":"refusals",)"
      R"("learnt_ms":61000}},"same":{"requests_per_minute":{"level":1,"capacity":1,"limit":1}}},"keys":{"same":{)"
      R"("k":{"state":"active","running":0,"requests_per_minute":{"level":1,"capacity":1,"limit":9,)"
      R"("effective":4,"learnt_from":"refusals","learnt_ms":900}},"l":{"state":"active","running":0}}}})";
  const std::string table = limits_table(document, false).value_or("");
  EXPECT_THAT(table, HasSubstr("a\"b requests_per_minute: 60 as the upstream said 3.0s ago\n"));
  EXPECT_THAT(table, HasSubstr("a\"b requests_per_minute: others use 12 of it\n"));
  EXPECT_THAT(table, HasSubstr("a\"b concurrency: 3 as refusals showed 1m01s ago\n"));
  EXPECT_THAT(table, HasSubstr("same/k requests_per_minute: 4 as refusals showed 900ms ago\n"));
  EXPECT_THAT(table, ContainsRegex("concurrency +3 of 9 +2 +- +1 "));

  EXPECT_THAT(limits_config(document).value_or(""),
              EndsWith("\n# requests_per_minute: 60 as the upstream said 3.0s ago\n"
                       "# concurrency: 3 as refusals showed 1m01s ago\n"
                       "[[budget]]\nname = \"a\\\"b\"\nlimits = { requests_per_minute = 60 }\n"
                       "concurrency = 3\n\n[[budget]]\nname = \"same\"\n"
                       "keys = [\n  # requests_per_minute: 4 as refusals showed 900ms ago\n"
                       "  { name = \"k\", limits = { requests_per_minute = 4 } },\n]\n"));
  EXPECT_THAT(limits_config(R"({"budgets":{}})").value_or(""), HasSubstr("no upstream has stated"));
  EXPECT_EQ(limits_config("[]"), std::nullopt);
}

TEST(LimitsTable, writes_what_is_learnt_so_that_it_counts_no_other_models) {
  const std::string limit =
      R"({"requests_per_minute":{"limit":3,"effective":3,"learnt_from":"words","learnt_ms":900}})";
  const std::string text = limits_config(R"({"budgets":{"learnt:o":)" + limit + R"(,"learnt:o/m*z?":)" +
                                         limit + R"(,"learnt:other":)" + limit + "}}")
                               .value_or("");
  EXPECT_THAT(text,
              HasSubstr("# Its jobs name no model. A budget would count the service's other models, too:\n"
                        "# [[budget]]\n# name = \"o\"\n# match = { service = \"o\" }\n"
                        "# limits = { requests_per_minute = 3 }\n\n"));
  EXPECT_THAT(text,
              HasSubstr("\n[[budget]]\nname = \"o/m*z?\"\nmatch = { service = \"o\", model = \"m?z?\" }\n"));
  EXPECT_THAT(text, HasSubstr("\n[[budget]]\nname = \"other\"\nmatch = { service = \"other\" }\n"));
}

TEST(LimitsTable, says_that_the_bank_is_away) {
  const std::string budgets = R"("budgets":{"api":{"requests_per_minute":{"level":3,"here":4,"limit":4}}})";
  EXPECT_THAT(*limits_table("{" + budgets + R"(,"bank":{"state":"away"}})", false), HasSubstr("said last"));
  EXPECT_THAT(*limits_table("{" + budgets + R"(,"bank":{"state":"good"}})", false),
              Not(HasSubstr("said last")));
}

TEST(LimitsTable, is_the_same_of_what_operators_are_told) {
  const auto document = limits_of_rows(
      R"({"budgets":[{"name":"api","service":"s","window":"bucket","limits":{)"
      R"("concurrency":{"level":3,"capacity":4,"limit":4}},"paused_ms":900,"paused_models_ms":{"o9":9000},"paused":true},)"
      R"({"name":"api","key":"k1","state":"active","running":1,"jobs":9,"weight":2,"limits":{}},)"
      R"({"name":"other","key":"k2","state":"spent","running":0,"jobs":2,"limits":{}}]})");

  ASSERT_TRUE(document);
  EXPECT_EQ(*document,
            R"({"budgets":{"api":{"concurrency":{"level":3,"capacity":4,"limit":4},"paused_ms":900,)"
            R"("paused_models_ms":{"o9":9000}}},"keys":{)"
            R"("api":{"k1":{"state":"active","running":1,"jobs":9}},)"
            R"("other":{"k2":{"state":"spent","running":0,"jobs":2}}},"paused":["budget api"]})");
  const auto table = limits_table(*document, false);
  ASSERT_TRUE(table);
  EXPECT_THAT(*table, ContainsRegex("\napi +concurrency +4 +3 +- +1 +900ms"));
  EXPECT_THAT(*table, ContainsRegex("\napi +model=o9 +- +- +- +- +9.0s"));
  EXPECT_THAT(*table, ContainsRegex("\napi/k1 .*active, 1 running"));
  EXPECT_THAT(*table, ContainsRegex("\nother/k2 .*spent, 0 running"));
  EXPECT_THAT(*table,
              HasSubstr("\nbudget api is paused by an operator; `lanemq resume budget api` ends that\n"));
  EXPECT_EQ(limits_table(*limits_of_rows(R"({"budgets":[]})"), false, "none\n"), "none\n");
  for (const char* text : {"", "[]", R"({"budgets":{}})", R"({"budgets":[{"name":7}]})"})
    EXPECT_EQ(limits_of_rows(text), std::nullopt) << text;
}

TEST(LimitsTable, has_a_line_for_each_limit) {
  const auto table = limits_table(kDocument, false);

  ASSERT_TRUE(table.has_value());
  EXPECT_THAT(*table, ContainsRegex("\napi +requests_per_minute +1,600 +7 +50 +- +900ms\n"));
  EXPECT_THAT(*table, ContainsRegex("\napi +concurrency +40 +-2 +- +42 +900ms\n"));
  EXPECT_THAT(*table, ContainsRegex("\nfree +tokens_per_day +100 +-12,345 +10 +- +-\n"));
  EXPECT_THAT(*table, Not(HasSubstr("paused_ms")));
  EXPECT_THAT(*stats_table(kDocument, false), HasSubstr(*table));
}

TEST(LimitsTable, says_when_there_is_no_budget_and_takes_only_the_document) {
  EXPECT_THAT(*limits_table(R"({"budgets":{}})", false), HasSubstr("no budget is configured"));
  EXPECT_EQ(limits_table("{}", false), std::nullopt);
  EXPECT_EQ(limits_table("", false), std::nullopt);
  EXPECT_EQ(limits_json("[]"), std::nullopt);
  EXPECT_EQ(limits_json(R"({"lanes":{}, "budgets": {"b": {"concurrency": {"level": 1}}}})"),
            "{\"budgets\":{\"b\":{\"concurrency\":{\"level\":1}}}}\n");
  EXPECT_TRUE(limits_table(R"({"budgets":{"b":{"concurrency":{"level":"x"}},"c":7}})", false));
}

whatif::Report example() {
  return {.requests = 1'234,
          .arrivals = minutes(2),
          .ran = minutes(3),
          .lanes = {{.name = "high",
                     .jobs = 1'234,
                     .succeeded = 1'231,
                     .refused = 1,
                     .expired = 2,
                     .wait_p50 = milliseconds(5),
                     .wait_p99 = seconds(12),
                     .wait_max = seconds(61)}},
          .limits = {{.budget = "api",
                      .name = "requests_per_minute",
                      .limit = 600,
                      .used = 1'233,
                      .allowed = 1'800,
                      .peak = 595,
                      .waited_periods = 2,
                      .waited_used = 1'188},
                     {.budget = "api",
                      .name = "concurrency",
                      .limit = 40,
                      .concurrency = true,
                      .used = 10,
                      .allowed = 40,
                      .peak = 40}},
          .refused = {{.code = "lane_full", .count = 1, .example = "lane \"high\" is full"}},
          .clients = 1,
          .fairness = 1};
}

TEST(ReportText, has_a_line_for_each_lane_and_each_limit) {
  const std::string text = report_text(example(), {}, false);

  EXPECT_THAT(
      text, testing::StartsWith("1,234 requests of 1 client within 2m00s; the last job ended after 3m00s\n"));
  EXPECT_THAT(text, ContainsRegex("\nhigh +1,234 +1,231 +5ms +12.0s +1m01s +1 +2\n"));
  EXPECT_THAT(text, ContainsRegex("\napi +requests_per_minute +600 +1,233 +1,800 +68.5% +595 +99.0%\n"));
  EXPECT_THAT(text, ContainsRegex("\napi +concurrency +40 +10.0 +40.0 +25.0% +40 +-\n"));
  EXPECT_THAT(text, HasSubstr("\nrefused with lane_full: 1, the first because lane \"high\" is full\n"));
  EXPECT_THAT(text, HasSubstr("\nfairness 1.000 (Jain's index"));
}

TEST(ReportText, says_when_there_is_no_budget) {
  whatif::Report report = example();
  report.limits.clear();
  EXPECT_THAT(report_text(report, {}, false), HasSubstr("no budget is configured"));
}

TEST(ReportText, is_json_too) {
  EXPECT_EQ(
      report_json(example(), {}),
      R"({"requests":1234,"clients":1,"arrivals_ms":120000.0,"ran_ms":180000.0,)"
      R"("model":{"places":256,"first_token_ms":500.0,"tokens_per_second":50.0},)"
      R"("lanes":{"high":{"jobs":1234,"succeeded":1231,"refused":1,"expired":2,)"
      R"("wait_ms":{"p50":5.0,"p99":12000.0,"max":61000.0}}},)"
      R"("budgets":{"api":{"requests_per_minute":{"limit":600,"used":1233,"allowed":1800,"percent":68.5,)"
      R"("peak":595,"waited_periods":2,"waited_used":1188,"waited_percent":99.0},)"
      R"("concurrency":{"limit":40,"used":10.0,"allowed":40.0,"percent":25.0,"peak":40}}},)"
      R"("refused":{"lane_full":{"count":1,"example":"lane \"high\" is full"}},"fairness":1.0})"
      "\n");
}

}  // namespace
}  // namespace lanemq::cli
