// SPDX-License-Identifier: Apache-2.0
#include "broker/config.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/unit/common/settings/agreement.hpp"
#include "tests/unit/common/settings/surroundings.hpp"

namespace lanemq {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

/// A file that is there as long as the test.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text)
      : path_(testing::TempDir() + std::to_string(::getpid()) + "-lanemq_config_test.toml") {
    std::ofstream(path_) << text;
  }
  ~TemporaryFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Config read(const std::string& text) {
  const TemporaryFile file(text);
  Config config;
  load_config_file(file.path(), config);
  check_config(config);
  return config;
}

std::string error_of(const std::string& text) {
  try {
    read(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

/// The differences as one line each, in the order in which they are told.
std::vector<std::string> told(const Config& before, const Config& after) {
  using How = io::OptionChange::How;
  std::vector<std::string> lines;
  for (const io::OptionChange& change : difference(before, after))
    lines.push_back(change.how == How::added ? "+ " + change.what
                    : change.how == How::removed
                        ? "- " + change.what
                        : change.what + ": " + change.before + " -> " + change.after);
  return lines;
}

std::string set_error(const std::string& assignment) {
  try {
    Config config;
    set_config(assignment, config);
    check_config(config);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Config, nothing_says_that_it_was_set_which_nobody_set) {
  const TemporaryFile file("gone_max = 1000\n[[budget]]\nname = \"api\"\nrequests_per_minute = 5\n");
  Config config;
  load_config_file(file.path(), config);
  config.server.admin = "ipc:///run/chosen";  // as a start does

  std::map<std::string, std::string> from;
  for (const io::ShownOption& option : shown_config(config, config.core))
    if (option.from != "default") from.emplace(option.key, option.from);

  EXPECT_EQ(from, (std::map<std::string, std::string>{
                      {"gone_max", file.path() + ":1"},
                      {"budget.api.limits.requests_per_minute", file.path() + ":2"}}));
}

TEST(Config, no_more_ids_are_remembered_than_there_can_be) {
  EXPECT_EQ(error_of("gone_max = 16777216"), "no error");
  EXPECT_THAT(error_of("gone_max = 16777217"), testing::EndsWith(".toml:1: gone_max is over 16777216"));
}

TEST(Config, defaults_survive_being_printed_and_read_back) {
  const Config config;

  EXPECT_EQ(print_config(read(print_config(config))), print_config(config));
}

TEST(Config, everything_that_can_be_set_survives_being_printed_and_read_back) {
  const std::string text = R"(drain_timeout = "1500ms"
breaker = false
[[lane]]
name = "only"
timeout = "2h"
depth_max = 7
bytes_max = "3MiB"
reserved_slots = 2
default = true
[[budget]]
name = "api"
match = { service = "chat", model = "gpt-*", client = "web", lane = "only" }
limits = { requests_per_minute = 500, requests_per_day = 10000, concurrency = 40 }
capacity = { requests_per_minute = 20 }
window = "bucket")";
  const Config config = read(text);

  EXPECT_EQ(config.core.drain_timeout, milliseconds(1500));
  EXPECT_FALSE(config.core.breaker);
  ASSERT_EQ(config.core.lanes.size(), 1u);
  EXPECT_EQ(config.core.lanes[0].reserved_slots, 2u);
  EXPECT_EQ(config.core.lanes[0].bytes_max, std::size_t{3} << 20);
  ASSERT_EQ(config.core.budgets.size(), 1u);
  EXPECT_EQ(config.core.budgets[0].model, "gpt-*");
  EXPECT_EQ(config.core.budgets[0].concurrency, 40);
  EXPECT_EQ(config.core.budgets[0].window, core::WindowKind::bucket);
  EXPECT_EQ(print_config(read(print_config(config))), print_config(config));
}

TEST(Config, an_unknown_key_is_named_with_its_place_and_what_was_meant) {
  const std::string error = error_of("\ndrain_timout = \"5s\"\n");

  EXPECT_THAT(error, HasSubstr("lanemq_config_test.toml:2:"));
  EXPECT_THAT(error, HasSubstr("did you mean \"drain_timeout\"?"));
}

TEST(Config, a_store_is_a_key_or_a_table) {
  EXPECT_EQ(read("store = \"sqlite:/a/b.db\"").store, "sqlite:/a/b.db");
  const Config file = read("[store]\nkind = \"sqlite\"\npath = \"/a/b.db\"\nreserve = \"1MiB\"");
  EXPECT_EQ(file.store, "sqlite:/a/b.db");
  EXPECT_EQ(file.store_reserve, 1u << 20);
  EXPECT_EQ(read("[store]\npath = \"/a/b.db\"").store, "sqlite:/a/b.db");
  EXPECT_EQ(read("[store]\nkind = \"memory\"").store, "memory");
  EXPECT_EQ(read("[store]\nreserve = \"1MiB\"").store, Config{}.store);
  for (const char* wrong : {"kind = \"sqlite\"", "kind = \"floppy\"", "kind = \"memory\"\npath = \"/a\""})
    EXPECT_THAT(error_of(std::string("[store]\n") + wrong), HasSubstr("a path"));
  EXPECT_THAT(error_of("[store]\npth = \"/a\""), HasSubstr("did you mean \"path\""));
}

TEST(Config, a_duration_without_a_unit_is_refused) {
  EXPECT_THAT(error_of("drain_timeout = 5\n"), HasSubstr("with its unit"));
  EXPECT_THAT(set_error("drain_timeout=5"), HasSubstr("--set drain_timeout=5"));
}

TEST(Config, broken_toml_is_told_with_its_place) {
  EXPECT_THAT(error_of("a = \n"), HasSubstr(".toml:1:"));
}

TEST(Config, lanes_need_distinct_names_and_one_default) {
  EXPECT_THAT(error_of("[[lane]]\nname = \"a\"\n"), HasSubstr("default = true"));
  EXPECT_THAT(error_of("[[lane]]\nname = \"a\"\ndefault = true\n[[lane]]\nname = \"a\"\n"),
              HasSubstr("twice"));
  EXPECT_THAT(error_of("[[lane]]\ndefault = true\n"), HasSubstr("needs a name"));
}

TEST(Config, a_budget_needs_a_limit_and_a_capacity_that_it_can_hold) {
  EXPECT_THAT(error_of("[[budget]]\nname = \"a\"\n"), HasSubstr("has no limits"));
  EXPECT_THAT(set_error("budget.a.requests_per_minute=0"), HasSubstr("at least 1"));
  EXPECT_THAT(error_of("[[budget]]\nname = \"a\"\nlimits = { requests_per_minute = 10 }\n"
                       "capacity = { requests_per_minute = 6 }\n"),
              HasSubstr("at most 5"));
}

TEST(Config, the_default_of_attempts_is_one_that_a_submit_may_say) {
  EXPECT_EQ(read("attempts_max = 1000\n").core.attempts_max, limits::attempts_max);
  EXPECT_THAT(set_error("attempts_max=1001"), HasSubstr("1..1000"));
}

TEST(Config, limits_count_what_their_names_say) {
  const Config config = read(
      "[[budget]]\nname = \"a\"\nlimits = { tokens_per_minute = 10, input_tokens_per_day = 20, "
      "output_tokens_per_second = 30 }\n");

  const auto& rates = config.core.budgets.at(0).rates;
  ASSERT_EQ(rates.size(), 3u);
  for (const core::RateOptions& rate : rates) {
    const auto resource = rate.name == "tokens_per_minute"      ? core::Resource::tokens
                          : rate.name == "input_tokens_per_day" ? core::Resource::input_tokens
                                                                : core::Resource::output_tokens;
    EXPECT_EQ(rate.resource, resource) << rate.name;
  }
}

TEST(Config, a_budget_says_what_its_upstream_counts_of_an_answer) {
  const std::string budget = "[[budget]]\nname = \"a\"\nlimits = { tokens_per_minute = 10 }\n";
  EXPECT_EQ(read(budget).core.budgets[0].output, core::OutputCount::used);
  EXPECT_EQ(read(budget + "output = \"max_tokens\"\n").core.budgets[0].output, core::OutputCount::bound);
  EXPECT_THAT(error_of(budget + "output = \"all\"\n"), HasSubstr("max_tokens"));
}

TEST(Config, limits_that_nobody_knows_are_refused_rather_than_ignored) {
  EXPECT_THAT(error_of("[[budget]]\nname = \"a\"\nlimits = { dollars_per_minute = 10 }\n"),
              HasSubstr("dollars_per_minute"));
}

TEST(Config, clients_have_tenants_and_budgets_match_them) {
  const Config config = read(
      "[clients.\"team-*\"]\ntenant = \"acme\"\n[[budget]]\nname = \"b\"\nmatch = { tenant = \"acme\" }\n"
      "limits = { requests_per_minute = 5 }\n");

  EXPECT_EQ(config.core.clients[0].tenant, "acme");
  EXPECT_EQ(config.core.budgets[0].tenant, "acme");
  EXPECT_THAT(print_config(config), HasSubstr("\nmatch.tenant = \"acme\"\n"));
}

TEST(Config, one_lane_of_those_that_are_there_is_changed) {
  const Config config = read("[lane.high]\nreserved_slots = 4\n[lane.batch]\ntimeout = \"48h\"\n");
  ASSERT_EQ(config.core.lanes.size(), 5u);
  EXPECT_EQ(config.core.lanes[1].name, "high");
  EXPECT_EQ(config.core.lanes[1].reserved_slots, 4u);
  EXPECT_EQ(config.core.lanes[1].timeout, core::default_lanes()[1].timeout);
  EXPECT_EQ(config.core.lanes[4].timeout, std::chrono::hours(48));
  EXPECT_TRUE(doubts(config).empty());
  EXPECT_EQ(read("[lane.normal]\ndefault = false\n[lane.low]\ndefault = true\n").core.lanes.size(), 5u);

  EXPECT_THAT(error_of("\n[lane.hihg]\nreserved_slots = 4\n"),
              AllOf(HasSubstr("toml:2: lane: unknown lane \"hihg\""), HasSubstr("high")));
  EXPECT_THAT(error_of("[lane.high]\nreserved_slot = 4\n"),
              AllOf(HasSubstr("toml:2:"), HasSubstr("reserved_slots")));
  EXPECT_THAT(error_of("[lane.high]\nname = \"x\"\n"), HasSubstr("has its name already"));
  EXPECT_THAT(error_of("[lane]\nhigh = 3\n"), HasSubstr("must be a table, as in [lane.high]"));
  EXPECT_THAT(error_of("[lane.low]\ndefault = true\n"), HasSubstr("the other with default = false"));
}

TEST(Config, lanes_are_changed_or_replaced_never_both) {
  EXPECT_THAT(error_of("[[lane]]\nname = \"a\"\ndefault = true\n[lane.high]\ndepth_max = 1\n"),
              AllOf(HasSubstr("toml:4: lane: [lane.high] changes one"), HasSubstr("write one of both")));
  EXPECT_THAT(error_of("[lane.high]\ndepth_max = 1\n[[lane]]\nname = \"a\"\n"),
              AllOf(HasSubstr("toml:3: [[lane]] is a list"), HasSubstr("write one of both")));
}

TEST(Config, lanes_that_are_gone_are_told) {
  EXPECT_THAT(error_of("\n[[lane]]\nname = \"high\"\nreserved_slots = 4\n"),
              AllOf(HasSubstr("toml:2: there are 0 default lanes"), HasSubstr("[lane.NAME] changes one")));
  EXPECT_THAT(doubts(read("[[lane]]\nname = \"high\"\ndefault = true\n")),
              testing::ElementsAre(HasSubstr("critical, normal, low and batch are gone")));
  EXPECT_TRUE(doubts(read("[[lane]]\nname = \"mine\"\ndefault = true\n")).empty());
}

TEST(Config, lanes_are_durable_unless_they_say_otherwise) {
  const Config config =
      read("[[lane]]\nname = \"a\"\ndefault = true\n[[lane]]\nname = \"b\"\ndurable = false\n");

  EXPECT_TRUE(config.core.lanes[0].durable);
  EXPECT_FALSE(config.core.lanes[1].durable);
}

TEST(Config, guards_of_lanes_are_shares) {
  const Config config = read(
      "[[lane]]\nname = \"a\"\nreserve = 0.2\n[[lane]]\nname = \"b\"\ndefault = true\nshare_min = \"5%\"\n"
      "boost_after = \"60s\"\n");

  EXPECT_EQ(config.core.lanes[0].reserve, 200);
  EXPECT_EQ(config.core.lanes[1].share_min, 50);
  EXPECT_EQ(config.core.lanes[1].boost_after, std::chrono::seconds(60));
}

TEST(Config, guards_that_cannot_hold_are_refused_with_their_lane) {
  EXPECT_THAT(error_of("[[lane]]\nname = \"a\"\ndefault = true\nreserve = 1.2\n"),
              AllOf(HasSubstr("4:"), HasSubstr("a.reserve"), HasSubstr("0 to 1")));
  EXPECT_THAT(error_of("[[lane]]\nname = \"a\"\ndefault = true\nreserve = 0.6\n[[lane]]\nname = "
                       "\"b\"\nreserve = 0.5\n"),
              AllOf(HasSubstr("7:"), HasSubstr("lane.b.reserve"), HasSubstr("more than 1")));
  EXPECT_THAT(error_of("[[lane]]\nname = \"a\"\ndefault = true\nshare_min = 0.7\n[[lane]]\nname = "
                       "\"b\"\nshare_min = 0.5\n"),
              AllOf(HasSubstr("7:"), HasSubstr("lane.b.share_min"), HasSubstr("more than 1")));
}

TEST(Config, a_budget_has_keys) {
  const Config config = read(
      "[[budget]]\nname = \"a\"\nkeys = [ \"k0\", { name = \"k1\", weight = 3 },\n"
      "  { name = \"k2\", quota_group = \"org\", limits = { requests_per_minute = 60, concurrency = 4 } },\n"
      "  { name = \"k3\", quota_group = \"org\", draining = true } ]\n");

  const auto& keys = config.core.budgets.at(0).keys;
  ASSERT_EQ(keys.size(), 4u);
  EXPECT_EQ(keys[0].name, "k0");
  EXPECT_EQ(keys[1].weight, 3u);
  EXPECT_EQ(keys[2].rates.at(0).limit, 60);
  EXPECT_EQ(keys[2].concurrency, 4);
  EXPECT_EQ(keys[3].rates.at(0).limit, 60) << "the group's";
  EXPECT_TRUE(keys[3].draining);
  EXPECT_EQ(print_config(read(print_config(config))), print_config(config));

  const auto named = read(
                         "[[budget]]\nname = \"a\"\nkeys = [ \"k0\", { name = \"k1\", quota_group = \"k0\", "
                         "limits = { concurrency = 4 } } ]\n")
                         .core.budgets.at(0)
                         .keys;
  EXPECT_EQ(named.at(0).concurrency, 4) << "of the group that has its name";
}

TEST(Config, what_is_wrong_with_a_key_is_named) {
  const auto with_keys = [](const std::string& keys) {
    return "[[budget]]\nname = \"a\"\nkeys = [" + keys + "]\n";
  };
  EXPECT_THAT(error_of(with_keys("\"k\", \"k\"")), HasSubstr("\"k\" is there twice"));
  EXPECT_THAT(error_of(with_keys("{ name = \"k\", wieght = 2 }")),
              AllOf(HasSubstr("3:"), HasSubstr("\"weight\"?")));
  EXPECT_THAT(error_of(with_keys("{ name = \"k\", limits = { requests_per_minute = 0 } }")),
              HasSubstr("at least 1"));
  EXPECT_THAT(error_of(with_keys("{ name = \"k\", secret = \"sk-1\" }")),
              HasSubstr("key of an upstream's key"));
  EXPECT_THAT(
      error_of(with_keys("{ name = \"k\", quota_group = \"g\", limits = { requests_per_minute = 1 } },"
                         "{ name = \"l\", quota_group = \"g\", limits = { requests_per_minute = 2 } }")),
      HasSubstr("say different limits"));
  EXPECT_THAT(
      error_of(with_keys("{ name = \"k\", limits = { requests_per_minute = 1 } },"
                         "{ name = \"l\", quota_group = \"k\", limits = { requests_per_minute = 2 } }")),
      HasSubstr("say different limits"))
      << "a key that is named as a group is of it";
  EXPECT_THAT(error_of(with_keys("{ name = \"k\", limits = { requests_per_minute = 1 } },"
                                 "{ name = \"k\", limits = { requests_per_minute = 2 } }")),
              HasSubstr("\"k\" is there twice"));
}

TEST(Config, patterns_and_groups_are_as_long_as_names) {
  const std::string fits(128, 'a'), too_long(129, 'a');
  const auto budget = [](const std::string& match, const std::string& group) {
    return "[[budget]]\nname = \"b\"\nmatch = { " + match + " }\nkeys = [{ name = \"k\", quota_group = \"" +
           group + "\" }]\n";
  };

  EXPECT_EQ(error_of(budget("service = \"" + fits + '"', fits)), "no error");
  for (const std::string key : {"service", "model", "client", "lane"})
    EXPECT_THAT(error_of(budget(key + " = \"" + too_long + '"', fits)),
                HasSubstr(":1: budget \"b\": match." + key + " has 129 bytes; at most 128"));
  EXPECT_THAT(error_of(budget("", too_long)), HasSubstr("key \"k\": quota_group has 129 bytes; at most 128"));
}

TEST(Config, what_only_the_whole_can_tell_names_its_line_too) {
  EXPECT_THAT(
      error_of(
          "\n[[budget]]\nname = \"a\"\nlimits = { concurrency = 1 }\n[[budget]]\nname = \"a\"\nlimits = { "
          "concurrency = 1 }\n"),
      AllOf(HasSubstr("toml:5:"), HasSubstr("budget \"a\" is there twice")));
  EXPECT_THAT(error_of("[[lane]]\nname = \"a\"\ndefault = true\n[[lane]]\nname = \"a\"\n"),
              AllOf(HasSubstr("toml:4:"), HasSubstr("lane \"a\" is there twice")));
  EXPECT_THAT(error_of("\n[[budget]]\nname = \"a\"\n"),
              AllOf(HasSubstr("toml:2:"), HasSubstr("has no limits")));
  EXPECT_THAT(error_of("\n[clients.a]\nlane_max = \"none\"\n"), HasSubstr("toml:2:"));
}

TEST(Config, clients_have_weights_and_bounds) {
  const Config config =
      read("[clients.\"team-a*\"]\nweight = 4\nin_flight_max = 20\ndepth_max = 100\nlane_max = \"normal\"\n");

  ASSERT_EQ(config.core.clients.size(), 1u);
  const core::ClientOptions& client = config.core.clients[0];
  EXPECT_EQ(client.name, "team-a*");
  EXPECT_EQ(client.weight, 4u);
  EXPECT_EQ(client.in_flight_max, 20u);
  EXPECT_EQ(client.depth_max, 100u);
  EXPECT_EQ(client.lane_max, "normal");
  EXPECT_THAT(print_config(config), HasSubstr("[clients.\"team-a*\"]\nweight = 4\n"));
}

TEST(Config, what_is_wrong_with_a_client_is_named) {
  EXPECT_THAT(error_of("[clients.a]\nweight = 0\n"),
              AllOf(HasSubstr("2:"), HasSubstr("clients.a.weight"), HasSubstr("1..100")));
  EXPECT_THAT(error_of("[clients.a]\nweight = 101\n"), HasSubstr("1..100"));
  EXPECT_THAT(error_of("[clients.a]\nwieght = 1\n"), HasSubstr("did you mean \"weight\"?"));
  EXPECT_THAT(error_of("[clients.a]\nlane_max = \"none\"\n"), HasSubstr("there is no lane \"none\""));
  EXPECT_THAT(error_of("clients = 5\n"), HasSubstr("[clients.NAME]"));
}

TEST(Config, a_webhook_service_has_a_name_that_workers_can_have) {
  for (const char* const bad : {"5", "@a", "*", "ho?ks", "a b", "a/b", "@acme/hooks"})
    EXPECT_THAT(error_of("webhook_service = \"" + std::string(bad) + "\"\n"),
                AllOf(HasSubstr("1:"), HasSubstr("is no name of a service")))
        << bad;
  for (const char* const good : {"ends", "hooks-2", "a.b_c", "5x", ""})
    EXPECT_EQ(error_of("webhook_service = \"" + std::string(good) + "\"\n"), "no error") << good;
}

TEST(Config, one_key_is_set_from_the_command_line) {
  Config config;

  set_config("lane.batch.depth_max=2000000", config);
  set_config("budget.api.limits.requests_per_minute=600", config);
  set_config("budget.api.window=bucket", config);
  set_config("heartbeat=250ms", config);
  set_config("clients.a.b.weight=3", config);

  EXPECT_EQ(config.core.lanes.back().depth_max, 2000000u);
  ASSERT_EQ(config.core.budgets.size(), 1u);
  EXPECT_EQ(config.core.budgets[0].rates[0].limit, 600);
  EXPECT_EQ(config.core.heartbeat, milliseconds(250));
  ASSERT_EQ(config.core.clients.size(), 1u);
  EXPECT_EQ(config.core.clients[0].name, "a.b");
  EXPECT_EQ(config.core.clients[0].weight, 3u);
}

TEST(Config, what_is_set_wrongly_on_the_command_line_is_named) {
  EXPECT_THAT(set_error("lane.btch.depth_max=1"), HasSubstr("did you mean \"batch\"?"));
  EXPECT_THAT(set_error("lane.batch.depth=1"), HasSubstr("key of a lane"));
  EXPECT_THAT(set_error("drain_timeout"), HasSubstr("key=value"));
  EXPECT_THAT(set_error("a.b.c=1"), HasSubstr("lane.NAME.KEY"));
}

/// What the command line and the environment say.
settings::Asked told(std::vector<const char*> words, Config& config,
                     const settings::Variables& variables = {}) {
  words.insert(words.begin(), "lanemq-broker");
  return read_config(static_cast<int>(words.size()), words.data(), settings::environment(variables), config);
}

TEST(Config, a_flag_wins_over_a_variable_and_set_over_a_flag) {
  const settings::Variables variables{{"LANEMQ_DRAIN_TIMEOUT", "3s"}};
  Config of_variable, of_flag, of_set;
  told({}, of_variable, variables);
  told({"--drain-timeout", "4s"}, of_flag, variables);
  told({"--set", "drain_timeout=5s", "--drain-timeout", "4s", "--insecure"}, of_set, variables);

  EXPECT_EQ(of_variable.core.drain_timeout, seconds(3));
  EXPECT_EQ(of_flag.core.drain_timeout, seconds(4));
  EXPECT_EQ(of_set.core.drain_timeout, seconds(5));
  EXPECT_TRUE(of_set.insecure);
}

TEST(Config, endpoints_have_short_names) {
  Config config;
  told({"--clients", "tcp://127.0.0.1:1", "--set", "workers=tcp://127.0.0.1:2"}, config);

  EXPECT_EQ(config.server.clients, "tcp://127.0.0.1:1");
  EXPECT_EQ(config.server.workers, "tcp://127.0.0.1:2");
  EXPECT_EQ(read("clients = \"tcp://127.0.0.1:3\"").server.clients, "tcp://127.0.0.1:3");
}

TEST(Config, an_old_level_is_read_and_the_new_one_named) {
  Config config;
  told({"--log-level", "warn"}, config);

  EXPECT_EQ(config.log_level, log::Level::warning);
  ASSERT_EQ(config.heard.old.size(), 1u);
  EXPECT_EQ(config.heard.old[0].write, "--log-level warning");
}

TEST(Config, what_the_whole_refuses_names_who_said_it) {
  Config config;
  try {
    told({"--heartbeat", "1ms"}, config);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "--heartbeat: heartbeat is under 10ms");
  }
}

TEST(Config, help_print_config_page_and_defaults_agree) {
  Config config;
  settings::expect_agreement(option_table(), told({"--help"}, config).text,
                             told({"--print-config"}, config).text,
                             settings::content_of(LANEMQ_OPTIONS_PAGE));
}

TEST(Config, what_is_printed_names_every_key) {
  Config config = read("[[budget]]\nname = \"b\"\nlimits = { concurrency = 1 }\n[clients.x]\nweight = 2\n");

  for (const std::string& printed : {print_config(Config{}), print_config(config)})
    for (const std::string_view key :
         {"timeout", "depth_max", "bytes_max", "reserved_slots", "reserve", "share_min", "boost_after",
          "durable", "default", "weight", "in_flight_max", "lane_max", "tenant", "match(.service)?", "limits",
          "keys", "output", "window"})
      EXPECT_THAT(printed, testing::ContainsRegex("\n(# )?" + std::string(key) + " = ")) << key;
}

TEST(Reload, tells_each_option_that_differs_and_each_thing_that_came_or_went) {
  const Config before = read(R"(
    heartbeat = "2s"
    [[lane]]
    name = "a"
    default = true
    depth_max = 10
    [[lane]]
    name = "b"
    [clients.old]
    weight = 2
    [[budget]]
    name = "x"
    limits = { requests_per_minute = 5, concurrency = 2 }
    keys = [{ name = "k1" }, { name = "k2", weight = 2 }]
    [[budget]]
    name = "gone"
    limits = { concurrency = 1 }
  )");
  const Config after = read(R"(
    heartbeat = "3s"
    [[lane]]
    name = "a"
    default = true
    depth_max = 20
    [[lane]]
    name = "b"
    [clients.new]
    weight = 2
    [[budget]]
    name = "x"
    match = { service = "s" }
    limits = { requests_per_minute = 6, tokens_per_minute = 100 }
    keys = [{ name = "k2", weight = 3 }, { name = "k3" }]
  )");

  EXPECT_THAT(
      told(before, after),
      testing::ElementsAre("heartbeat: 2s -> 3s", "lane.a.depth_max: 10 -> 20", "- budget.gone",
                           "budget.x.match.service:  -> s", "budget.x.limits.requests_per_minute: 5 -> 6",
                           "budget.x.limits.tokens_per_minute:  -> 100", "budget.x.limits.concurrency: 2 -> ",
                           "- budget.x.keys.k1", "budget.x.keys.k2.weight: 2 -> 3", "+ budget.x.keys.k3",
                           "- clients.old", "+ clients.new"));
  EXPECT_THAT(told(before, before), testing::IsEmpty());
}

TEST(Reload, keeps_what_needs_a_restart_and_takes_the_rest) {
  const Config running = read(R"(
    jobs_max = 100
    [[lane]]
    name = "a"
    default = true
    [[lane]]
    name = "b"
    [[budget]]
    name = "x"
    limits = { concurrency = 1 }
  )");
  const Config wanted = read(R"(
    jobs_max = 200
    log_level = "debug"
    [[lane]]
    name = "a"
    reserved_slots = 2
    depth_max = 5
    [[lane]]
    name = "b"
    default = true
    [[budget]]
    name = "x"
    match = { model = "m" }
    limits = { concurrency = 7 }
    [[budget]]
    name = "y"
    limits = { concurrency = 1 }
  )");

  const Config counts = reloaded(running, wanted);

  EXPECT_THAT(told(running, counts), testing::ElementsAre("log_level: info -> debug",
                                                          testing::ContainsRegex("lane.a.depth_max: .* -> 5"),
                                                          "budget.x.limits.concurrency: 1 -> 7"));
  EXPECT_THAT(told(counts, wanted),
              testing::ElementsAre("jobs_max: 100 -> 200", "lane.a.reserved_slots: 0 -> 2",
                                   "lane.a.default: true -> false", "lane.b.default: false -> true",
                                   "budget.x.match.model:  -> m", "+ budget.y"));
}

TEST(Reload, leaves_a_key_with_its_account) {
  const auto with_keys = [](const std::string& keys) {
    return read("[[budget]]\nname = \"x\"\nkeys = [" + keys + "]\n");
  };
  const std::string limit = ", limits = { concurrency = ";
  const Config running = with_keys("{ name = \"k1\"" + limit + "2 } }, { name = \"k2\"" + limit +
                                   "3 } },"
                                   "{ name = \"k3\", quota_group = \"org\"" +
                                   limit + "4 } }, { name = \"k4\", quota_group = \"org\" }");
  const Config wanted = with_keys(
      "{ name = \"k1\", quota_group = \"org\" },"
      "{ name = \"k2\", weight = 5" +
      limit + "7 } }, { name = \"k3\", quota_group = \"org\"" + limit + "9 } }, { name = \"k4\"" + limit +
      "1 } }");

  const Config counts = reloaded(running, wanted);

  EXPECT_THAT(told(running, counts), testing::ElementsAre("budget.x.keys.k2.weight: 1 -> 5",
                                                          "budget.x.keys.k2.limits.concurrency: 3 -> 7",
                                                          "budget.x.keys.k3.limits.concurrency: 4 -> 9",
                                                          "budget.x.keys.k4.limits.concurrency: 4 -> 9"));
  EXPECT_THAT(told(counts, wanted), testing::ElementsAre("budget.x.keys.k1.quota_group:  -> org",
                                                         "budget.x.keys.k1.limits.concurrency: 2 -> 9",
                                                         "budget.x.keys.k4.quota_group: org -> ",
                                                         "budget.x.keys.k4.limits.concurrency: 9 -> 1"));
}

TEST(Reload, tells_lanes_that_change_places) {
  const Config before = read("[[lane]]\nname = \"a\"\ndefault = true\n[[lane]]\nname = \"b\"\n");
  const Config after = read("[[lane]]\nname = \"b\"\n[[lane]]\nname = \"a\"\ndefault = true\n");

  EXPECT_THAT(told(before, after), testing::ElementsAre("lane (the order): a,b -> b,a"));
  EXPECT_THAT(told(before, reloaded(before, after)), testing::IsEmpty());
}

}  // namespace
}  // namespace lanemq
