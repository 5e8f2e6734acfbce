// SPDX-License-Identifier: Apache-2.0
#include "broker/io/plugins/broker_plugin.hpp"

#include <map>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include <lanemq/codec.hpp>

#include "broker/io/plugins/speed_watch.hpp"

namespace lanemq::io {
namespace {

using std::chrono::milliseconds;

PluginOptions options_of(const std::string& name) {
  return {.name = name, .file = std::string(LANEMQ_TEST_PLUGINS) + "/" + name + ".so"};
}

class BrokerPluginTest : public testing::Test {
 protected:
  /// The code of the refusal of a submit with that body, or nothing. A busy machine may make a call slow: it
  /// is asked again.
  std::string judged(std::string_view body, const core::Identity* sender = nullptr) {
    std::string code = judged_once(body, sender);
    while (plugin_.why_off().find("takes too long") != std::string::npos) {
      plugin_.switch_on();
      code = judged_once(body, sender);
    }
    return code;
  }
  std::string judged_once(std::string_view body, const core::Identity* sender = nullptr) {
    submit_ = {};
    submit_.service = "echo";
    submit_.client = client_;
    submit_.id = id_;
    submit_.extras = extras_;
    const auto refusal = plugin_.judge(submit_, body, sender, said_);
    message_ = refusal ? refusal->message : "";
    return refusal ? std::string(name_of(refusal->code)) : "";
  }

  BrokerPlugin plugin_{options_of("judge")};
  BrokerPlugin::Said said_;
  wire::Submit submit_;
  wire::Extras extras_;
  std::string client_ = "web", id_ = "one", message_;
};

TEST_F(BrokerPluginTest, what_it_says_nothing_of_goes_on_as_it_is) {
  EXPECT_EQ(judged("anything"), "");
  EXPECT_EQ(submit_.service, "echo");
  EXPECT_EQ(submit_.lane, "");
  EXPECT_FALSE(submit_.cost);
}

TEST_F(BrokerPluginTest, it_refuses_with_a_code_of_its_choice) {
  EXPECT_EQ(judged("refuse"), "forbidden");
  EXPECT_EQ(message_, "refused by the plugin \"judge\"");
  EXPECT_EQ(judged("lane_full"), "lane_full");
  EXPECT_EQ(message_, "not \\x1b today");
  EXPECT_EQ(judged("odd_code"), "forbidden");
  EXPECT_GE(plugin_.counts().refused, 3u);
}

TEST_F(BrokerPluginTest, it_changes_lane_service_model_and_cost) {
  EXPECT_EQ(judged("batch"), "");
  EXPECT_EQ(submit_.lane, "batch");
  EXPECT_EQ(judged("model"), "");
  EXPECT_EQ(submit_.model, "small");
  EXPECT_EQ(judged("service"), "");
  EXPECT_EQ(submit_.service, "other");
  EXPECT_EQ(judged("cost"), "");
  EXPECT_EQ(submit_.cost->input_tokens, 1234);
  EXPECT_TRUE(submit_.cost->knows_input());
  EXPECT_EQ(judged("absurd"), "");
  EXPECT_EQ(submit_.cost->output_tokens, 1'000'000'000);
  EXPECT_TRUE(submit_.cost->knows_output());
}

TEST_F(BrokerPluginTest, it_adds_a_field_that_no_client_may_say) {
  EXPECT_EQ(judged("extra"), "");
  EXPECT_EQ(submit_.extras.count, 1u);
  EXPECT_EQ(submit_.extras.bytes, "\xa7x-judge\xa4seen");
  Buffer own;
  DocumentWriter(own).text("x-own").integer(1);
  extras_ = {.count = 1, .bytes = own.view()};
  EXPECT_EQ(judged("extra"), "");
  EXPECT_EQ(submit_.extras.count, 2u);
  Buffer forged;
  DocumentWriter(forged).text("x-judge").text("forged");
  extras_ = {.count = 1, .bytes = forged.view()};
  EXPECT_EQ(judged("extra"), "bad_request");
  EXPECT_EQ(message_, "field \"x-judge\" is the broker's own here; leave it out");
}

TEST_F(BrokerPluginTest, it_counts_tokens_of_what_states_none) {
  EXPECT_EQ(judged("counted"), "");
  EXPECT_EQ(submit_.cost->input_tokens, 77);
  EXPECT_TRUE(submit_.cost->knows_input());
  EXPECT_EQ(judged("other"), "");
  EXPECT_FALSE(submit_.cost);
}

TEST_F(BrokerPluginTest, it_sees_names_as_their_tenant_does) {
  const core::Identity sender{.name = "alice", .space = "@acme/"};
  client_ = "@acme/alice";
  id_ = "@acme/one";
  EXPECT_EQ(judged("who", &sender), "forbidden");
  EXPECT_EQ(message_, "alice");
  EXPECT_EQ(judged("tenant", &sender), "forbidden");
  EXPECT_EQ(message_, "acme");
  EXPECT_EQ(judged("id", &sender), "forbidden");
  EXPECT_EQ(message_, "one");
}

TEST_F(BrokerPluginTest, what_breaks_a_rule_is_switched_off_and_the_submit_goes_on) {
  const std::map<std::string, std::string> broken{
      {"throw", "admit() threw: no verdict"},
      {"long", "admit() says a lane that is no name of at most 128 bytes"},
      {"no_text", "admit() says a lane that is no name of at most 128 bytes"},
      {"bare", "admit() says a field that does not begin with x-, is no text, or is too long"}};
  for (const auto& [body, why] : broken) {
    EXPECT_EQ(judged(body), "") << body;
    EXPECT_EQ(submit_.lane, "") << body;
    EXPECT_EQ(plugin_.why_off(), why);
    EXPECT_EQ(judged("refuse"), "") << "it is not asked";
    plugin_.switch_on();
    EXPECT_EQ(judged("refuse"), "forbidden");
  }
}

TEST_F(BrokerPluginTest, one_that_is_slow_is_off_after_a_few_calls) {
  std::uint64_t calls = 0;
  for (; plugin_.is_on(); ++calls)
    judged_once("slow");
  EXPECT_LE(calls, SpeedWatch::kSlowMin);
  EXPECT_TRUE(plugin_.why_off().starts_with("admit() takes too long: ")) << plugin_.why_off();
  plugin_.switch_on();
  judged_once("slower");
  EXPECT_FALSE(plugin_.is_on());
}

TEST(BrokerPluginOptions, while_it_is_off_submits_may_be_refused) {
  PluginOptions options = options_of("judge");
  options.refuse_when_off = true;
  BrokerPlugin plugin(options);
  plugin.switch_off("tried");
  wire::Submit submit;
  BrokerPlugin::Said said;
  const auto refusal = plugin.judge(submit, "", nullptr, said);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code, ErrorCode::paused);
}

TEST(BrokerPluginOptions, what_cannot_be_used_is_found_in_a_process_of_its_own) {
  EXPECT_EQ(why_no_plugin(options_of("judge")), std::nullopt);
  EXPECT_EQ(why_no_plugin(options_of("reverse")).value_or(""),
            "it exports no lanemq_get_broker_plugin(), which lanemq/broker_plugin.h declares");
  PluginOptions crashes = options_of("judge");
  crashes.settings = {{"how", "crash"}};
  EXPECT_EQ(why_no_plugin(crashes).value_or(""), "it crashes: signal 6 (Aborted)");
  PluginOptions misspelt = options_of("guard");
  misspelt.settings = {{"clients", "x"}};
  EXPECT_EQ(why_no_plugin(misspelt).value_or(""),
            "there is no setting \"clients\"; there are client, lane and bytes_max");
}

TEST(SpeedWatch, one_slow_call_in_a_hundred_is_allowed) {
  SpeedWatch watch;
  SpeedWatch::Time now{std::chrono::hours(1)};
  for (int call = 0; call < 100'000; ++call) {
    now += milliseconds(1);
    ASSERT_FALSE(watch.note(call % 100 == 99 ? milliseconds(5) : std::chrono::microseconds(10), now)) << call;
  }
}

TEST(SpeedWatch, more_than_that_are_too_many) {
  SpeedWatch watch;
  SpeedWatch::Time now{std::chrono::hours(1)};
  int call = 0;
  while (
      !watch.note(call % 50 == 49 ? milliseconds(5) : std::chrono::microseconds(10), now += milliseconds(1)))
    ASSERT_LT(++call, 1000);
  EXPECT_LT(call, 300);
}

TEST(SpeedWatch, a_few_slow_calls_far_apart_say_nothing) {
  SpeedWatch watch;
  SpeedWatch::Time now{std::chrono::hours(1)};
  for (int call = 0; call < 100; ++call)
    ASSERT_FALSE(watch.note(milliseconds(5), now += std::chrono::seconds(1)));
}

}  // namespace
}  // namespace lanemq::io
