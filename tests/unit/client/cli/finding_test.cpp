// SPDX-License-Identifier: Apache-2.0
#include "client/cli/check/finding.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lanemq::cli {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using testing::AllOf;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

Finding judged(Check check, const std::string& stats, const CheckBounds& bounds = {}) {
  const std::vector<Finding> findings = judge_stats(check, stats, bounds);
  EXPECT_EQ(findings.size(), 1u);
  return findings.empty() ? Finding{} : findings.front();
}

auto is(Severity severity, const std::string& says, const std::string& next_step = "") {
  return AllOf(Field(&Finding::severity, severity), Field(&Finding::says, HasSubstr(says)),
               Field(&Finding::next_step, HasSubstr(next_step)));
}

TEST(Finding, of_a_bank_that_does_not_answer_is_a_warning) {
  EXPECT_THAT(judged(Check::bank, R"({"bank":{"state":"good"}})"), is(Severity::fine, "the bank is good"));
  EXPECT_THAT(judged(Check::bank, R"({"bank":{"state":"away"}})"),
              is(Severity::warning, "the bank is away, and jobs of budgets", "bank.away in its log"));
  EXPECT_THAT(judge_stats(Check::bank, R"({"store":{"state":"good"}})", {}), IsEmpty());
}

TEST(Finding, of_a_store_says_its_room_and_what_to_do_where_it_has_none) {
  const auto store = [](const std::string& state, const std::string& free) {
    return judged(Check::store, R"({"store":{"kind":"sqlite","state":")" + state +
                                    R"(","file_bytes":1048576,"reserve_bytes":67108864,"disk_free_bytes":)" +
                                    free + "}}");
  };

  EXPECT_THAT(store("good", "1073741824"), is(Severity::fine, "the store is good, 1.0 MiB, 1024.0 MiB free"));
  EXPECT_THAT(store("good", "1073741824").next_step, IsEmpty());
  EXPECT_THAT(store("good", "200000000"),
              is(Severity::warning, "190.7 MiB free", "make room on its disk: at 64.0 MiB"));
  EXPECT_THAT(store("behind", "1073741824"), is(Severity::warning, "behind", "slower"));
  EXPECT_THAT(store("stalled", "1073741824"), is(Severity::critical, "stalled", "look at its disk"));
  EXPECT_THAT(store("full", "0"), is(Severity::critical, "full", "make room"));
  EXPECT_THAT(judged(Check::store, R"({"store":{"kind":"memory","state":"good"}})"),
              is(Severity::fine, "in memory alone"));
}

TEST(Finding, of_a_bound_warns_before_it_is_reached) {
  const auto files = [](int used) {
    return judged(Check::descriptors,
                  R"({"descriptors":{"used":)" + std::to_string(used) + R"(,"limit":1000}})");
  };
  const auto memory = [](int used) {
    return judged(Check::memory, R"({"memory_max":1000,"memory_bytes":)" + std::to_string(used) + "}");
  };

  EXPECT_THAT(files(799), is(Severity::fine, "79 % in use of 1,000"));
  EXPECT_THAT(files(800), is(Severity::warning, "80 %", "LimitNOFILE"));
  EXPECT_THAT(files(950), is(Severity::critical, "95 %", "LimitNOFILE"));
  EXPECT_THAT(memory(10), is(Severity::fine, "1 % in use"));
  EXPECT_THAT(memory(801), is(Severity::warning, "80 %", "memory_max"));
}

TEST(Finding, of_services_names_those_that_nobody_serves) {
  EXPECT_THAT(judged(Check::services, R"({"workers":{"connected":2},"unserved":{}})"),
              is(Severity::fine, "every service with jobs has a worker; 2 connected"));
  EXPECT_THAT(judged(Check::services, R"({"workers":{"connected":0},"unserved":{}})"),
              is(Severity::warning, "no worker is connected", "lanemq-worker"));
  EXPECT_THAT(judged(Check::services,
                     R"({"workers":{"connected":1},"unserved":{"a\n":{"queued":3},"b":{"queued":1}}})"),
              is(Severity::critical, "no worker serves a\\x0a (3), b (1)", "--service"));
  EXPECT_THAT(
      judged(Check::services,
             R"({"unserved":{"a":{"queued":3,"lane":"low"},"b":{"queued":1,"lane":"low","draining":true}}})"),
      is(Severity::critical, "no worker serves a in lane low (3), b in lane low (all that do drain) (1)",
         "takes the lane"));
}

TEST(Finding, of_keys_is_critical_where_a_budget_has_none_left) {
  EXPECT_THAT(judged(Check::webhooks, R"({"counters":{"webhooks_refused":0}})"),
              is(Severity::fine, "no job that tells of an end was refused"));
  EXPECT_THAT(judged(Check::webhooks, R"({"counters":{"webhooks_refused":1200}})"),
              is(Severity::warning, "1,200 ends were told to nobody"));
  EXPECT_THAT(judged(Check::keys, R"({"keys":{}})"), is(Severity::fine, "no budget has keys"));
  EXPECT_THAT(judged(Check::keys, R"({"keys":{"b":{"k1":{"state":"active"},"k2":{"state":"draining"}}}})"),
              is(Severity::fine, "no key of a budget rests"));
  EXPECT_THAT(judged(Check::keys, R"({"keys":{"b":{"k1":{"state":"active"},"k2":{"state":"spent"}}}})"),
              is(Severity::warning, "rest: b/k2", "lanemq limits --state spent"));
  EXPECT_THAT(judged(Check::keys, R"({"keys":{"b":{"k1":{"state":"spent"},"k2":{"state":"draining"}}}})"),
              is(Severity::critical, "rest: b/k1; no other is left for b", "lanemq reload"));
}

TEST(Finding, of_lanes_and_upstreams_names_what_is_wrong_with_which) {
  const std::string stats =
      R"({"lanes":{"low":{"oldest_ms":700000},"high":{"oldest_ms":10}},"paused":["lane low"],)"
      R"("upstreams":{"chat":{"breaker":"open"},"other":{"breaker":"closed","retries_left":3}}})";

  EXPECT_THAT(judged(Check::lanes, stats),
              is(Severity::warning, "longer than 10m00s in low (11m40s)", "explain"));
  EXPECT_THAT(judged(Check::lanes, stats, {.oldest = minutes(20)}),
              is(Severity::fine, "no job waits for longer than 20m00s; paused: lane low"));
  EXPECT_THAT(judged(Check::upstreams, stats), is(Severity::warning, "chat (open)", "upstream"));
  EXPECT_THAT(judged(Check::upstreams, "{}"), is(Severity::fine, "no upstream is left alone"));
}

TEST(Finding, of_an_older_broker_says_that_it_does_not_tell) {
  for (const Check check : {Check::store, Check::descriptors, Check::memory})
    EXPECT_THAT(judged(check, R"({"version":"0.1.0","memory_bytes":5})"),
                is(Severity::fine, "this broker does not tell"));
  for (const Check check : {Check::services, Check::upstreams, Check::keys, Check::lanes})
    EXPECT_EQ(judged(check, "{}").severity, Severity::fine);
  EXPECT_THAT(judged(Check::store, "nonsense"), is(Severity::critical, "cannot be read", "--json"));
  // Fields of another type are as good as none.
  EXPECT_THAT(judged(Check::lanes, R"({"lanes":[1],"paused":{}})"), is(Severity::fine, "no job waits"));
  EXPECT_THAT(judged(Check::keys, R"({"keys":{"b":7}})"), is(Severity::fine, "no budget has keys"));
}

TEST(Finding, of_clocks_allows_for_the_way) {
  EXPECT_EQ(judge_clock({.ahead = milliseconds(999), .round_trip = milliseconds(1)}).severity,
            Severity::fine);
  EXPECT_EQ(judge_clock({.ahead = milliseconds(-2'400), .round_trip = milliseconds(3'000)}).severity,
            Severity::fine);
  EXPECT_THAT(judge_clock({.ahead = milliseconds(90'000), .round_trip = milliseconds(1)}),
              is(Severity::warning, "1m30s ahead of this machine's", "NTP"));
  EXPECT_THAT(judge_clock({.ahead = milliseconds(-3'000), .round_trip = milliseconds(1)}),
              is(Severity::warning, "3.0s behind this machine's", "NTP"));
}

TEST(Finding, of_versions_and_dead_jobs) {
  EXPECT_EQ(judge_version("1.0", "1.0").severity, Severity::fine);
  EXPECT_THAT(judge_version("1.0\n", "1.1"),
              is(Severity::warning, "version 1.0\\x0a, this program 1.1", "same version"));
  EXPECT_THAT(judge_dead({.recent = 0, .all = 1'000}, {}), is(Severity::fine, "last 1h00m; 1,000 are kept"));
  EXPECT_THAT(judge_dead({.recent = 3, .all = 1'000, .at_least = true}, {}),
              is(Severity::warning, "at least 3 died", "lanemq dead"));
}

TEST(Finding, of_a_gateway_knows_it_from_others_and_its_certificate) {
  GatewayFacts facts{.url = "https://g:1", .status = 200, .body = "ready\n", .encrypted = true};
  EXPECT_THAT(judge_gateway(facts), is(Severity::fine, "is ready"));
  EXPECT_THAT(judge_certificate(facts), is(Severity::critical, "has shown no certificate"));
  facts.certificate_left = hours(24 * 31);
  EXPECT_THAT(judge_certificate(facts), is(Severity::fine, "good for 31 days"));
  facts.distrust = "self-signed";
  EXPECT_THAT(judge_certificate(facts),
              is(Severity::warning, "does not trust it: self-signed", "SSL_CERT_FILE"));
  facts.certificate_left = hours(24 * 29);
  EXPECT_THAT(judge_certificate(facts), is(Severity::warning, "good for 29 days", "renew"));
  facts.certificate_left = -hours(25);
  EXPECT_THAT(judge_certificate(facts), is(Severity::critical, "ended 1 day ago", "renew"));

  facts = {.url = "http://g:1", .status = 200, .body = "<html>"};
  EXPECT_THAT(judge_gateway(facts), is(Severity::critical, "is not ready: 200 <html>", "--gateway"));
  EXPECT_THAT(judge_certificate(facts), is(Severity::fine, "without TLS"));
  facts = {.url = "http://g:1", .status = 503, .body = "no answer from the broker\n"};
  EXPECT_THAT(judge_gateway(facts), is(Severity::critical, "503 no answer from the broker", "broker"));
  facts = {.url = "http://g:1", .why_not = "nothing listens there"};
  EXPECT_THAT(judge_gateway(facts), is(Severity::critical, "nothing listens there", "lanemq-gateway"));
}

TEST(Findings, are_a_line_each_and_as_bad_as_the_worst) {
  const std::vector<Finding> findings{
      {.check = "store", .severity = Severity::fine, .says = "good", .next_step = ""},
      {.check = "descriptors",
       .severity = Severity::critical,
       .says = "all in use",
       .next_step = "raise them"}};

  EXPECT_EQ(findings_text(findings),
            "fine      store        good\n"
            "critical  descriptors  all in use; raise them\n");
  EXPECT_EQ(findings_json(findings),
            R"({"state":"critical","checks":[{"check":"store","state":"fine","says":"good"},)"
            R"({"check":"descriptors","state":"critical","says":"all in use","do":"raise them"}]})"
            "\n");
  EXPECT_EQ(worst_of(findings), Severity::critical);
  EXPECT_EQ(worst_of({}), Severity::fine);
}

}  // namespace
}  // namespace lanemq::cli
