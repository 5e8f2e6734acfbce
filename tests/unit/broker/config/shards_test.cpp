// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "broker/config/settings.hpp"

namespace lanemq {
namespace {

using core::BudgetOptions;
using core::ShardOptions;
using testing::ElementsAre;
using testing::HasSubstr;

/// acme by tenants, audio by service, and the rest.
Config three() {
  Config config;
  for (const std::string name : {"acme", "audio", "rest"})
    config.core.shards.push_back({.name = name,
                                  .clients = {"tcp://" + name + "-1:5570", "tcp://" + name + "-2:5570"},
                                  .workers = {"tcp://" + name + "-1:5571", "tcp://" + name + "-2:5571"}});
  config.core.shards[0].tenants = {"acme*", "umbrella"};
  config.core.shards[1].services = {"speech"};
  config.core.shard = "audio";
  config.store = "postgres:dbname=lanemq";
  return config;
}

/// The same, told what its shard's rule says.
Config bound(Config config) {
  config.server.clients = "tcp://0.0.0.0:5570";
  config.server.workers = "tcp://0.0.0.0:5571";
  for (const char* option : {"clients", "workers"})
    config.heard.places[std::string(option) + "_endpoint"] = std::string("--") + option;
  return config;
}

std::string error_of(const Config& config) {
  try {
    check_config(config);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

/// What check_config() says once `change` has been made to good shards.
template <class Change>
std::string error_after(Change change) {
  Config config = three();
  change(config.core);
  return error_of(config);
}

std::vector<std::string> spanned(const BudgetOptions& budget) {
  return config::shards_of(budget, three().core.shards);
}

TEST(Shards, good_ones_are_taken) {
  EXPECT_EQ(error_of(three()), "no error");
  EXPECT_EQ(error_of(Config{}), "no error");
}

TEST(Shards, what_is_wrong_with_one_is_named) {
  using core::Options;
  EXPECT_THAT(error_after([](Options& core) { core.shard.clear(); }),
              AllOf(HasSubstr("--shard"), HasSubstr("acme, audio and rest")));
  EXPECT_THAT(error_after([](Options& core) { core.shard = "other"; }), HasSubstr("no such shard"));
  EXPECT_THAT(error_after([](Options& core) { core.shards.clear(); }), HasSubstr("has no [[shard]]"));
  EXPECT_THAT(error_after([](Options& core) { core.shards[0].tenants.clear(); }),
              HasSubstr("takes every job"));
  EXPECT_THAT(error_after([](Options& core) { core.shards[2].services = {"x"}; }),
              HasSubstr("the last shard"));
  EXPECT_THAT(error_after([](Options& core) { core.shards[0].name = "Acme!"; }), HasSubstr("a to z"));
  EXPECT_THAT(error_after([](Options& core) { core.shards[0].clients.clear(); }),
              HasSubstr("where its brokers are"));
  EXPECT_THAT(error_after([](Options& core) { core.shards[0].workers = {"tcp://a:*"}; }),
              HasSubstr("workers"));
  EXPECT_THAT(error_after([](Options& core) { core.shards[0].tenants = {""}; }), HasSubstr("0 bytes"));
  EXPECT_THAT(error_after([](Options& core) { core.client_endpoints = {"tcp://a:1"}; }),
              HasSubstr("leave cluster_clients"));
  EXPECT_THAT(error_after([](Options& core) { core.shards[0].tenants.assign(100, std::string(100, 'x')); }),
              HasSubstr("8192"));
}

TEST(Shards, one_that_never_takes_a_job_is_refused_with_those_that_take_them) {
  using core::Options;
  EXPECT_THAT(error_after([](Options& core) {
                core.shards[0].tenants = {"x", "*"};
              }),
              AllOf(HasSubstr("shard \"acme\": it takes every job"), HasSubstr("or put it last")));
  EXPECT_THAT(error_after([](Options& core) { core.shards[1].services = {"*"}; }),
              HasSubstr("shard \"audio\": it takes every job"));
  EXPECT_THAT(error_after([](Options& core) {
                core.shards[1].services.clear();
                core.shards[1].tenants = {"acme-?", "acme"};
              }),
              HasSubstr("shard \"audio\": it never takes a job, since acme takes all of its before"));
  EXPECT_THAT(error_after([](Options& core) {
                core.shards[0].services = {"speech", "chat*"};
                core.shards[1].services = {"chat-1", "speech"};
                core.shards[1].tenants = {"acme-eu"};
              }),
              HasSubstr("shard \"audio\": it never takes a job"))
      << "each pair of a service and a tenant is taken";
  EXPECT_EQ(error_after([](Options& core) {
              core.shards[0].services = {"speech"};
              core.shards[1].services = {"speech", "chat"};
              core.shards[1].tenants = {"acme-eu"};
            }),
            "no error");
}

TEST(Shards, one_is_named_whose_jobs_two_before_it_share) {
  Config config = three();
  auto& shards = config.core.shards;
  shards.insert(shards.begin() + 2, {.name = "both",
                                     .services = {"speech", "chat"},
                                     .tenants = {"acme-eu", "umbrella"},
                                     .clients = {"tcp://b:1"},
                                     .workers = {"tcp://b:2"}});
  shards[0].tenants = {"acme*"};
  EXPECT_EQ(error_of(config), "no error");
  shards[1] = {.name = "audio", .tenants = {"umb*"}, .clients = {"tcp://c:1"}, .workers = {"tcp://c:2"}};
  EXPECT_THAT(error_of(config),
              HasSubstr("shard \"both\": it never takes a job, since acme and audio take all of its before"));
}

TEST(Shards, a_pattern_that_takes_no_job_is_told) {
  Config config = bound(three());
  EXPECT_THAT(doubts(config), ElementsAre());
  config.core.shards[1] = config.core.shards[0];
  config.core.shards[1].tenants = {"acme-eu", "new"};
  EXPECT_THAT(doubts(config), ElementsAre(AllOf(HasSubstr("the pattern \"acme-eu\""),
                                                HasSubstr("since acme stands before"))));
}

TEST(Shards, two_are_not_at_one_endpoint) {
  using core::Options;
  EXPECT_THAT(error_after([](Options& core) { core.shards[2].clients[1] = core.shards[0].clients[0]; }),
              AllOf(HasSubstr("endpoint tcp://acme-1:5570"), HasSubstr("clients of shard \"acme\""),
                    HasSubstr("clients of shard \"rest\"")));
  EXPECT_THAT(error_after([](Options& core) { core.shards[1].workers = core.shards[0].workers; }),
              HasSubstr("workers of shard \"audio\""));
  EXPECT_THAT(error_after([](Options& core) { core.shards[1].workers = core.shards[1].clients; }),
              AllOf(HasSubstr("clients of shard \"audio\""), HasSubstr("workers of shard \"audio\"")));
}

TEST(Shards, brokers_of_one_with_files_of_their_own_are_told) {
  Config config = bound(three());
  EXPECT_THAT(doubts(config), testing::IsEmpty());
  config.store = "sqlite:a.db";
  EXPECT_THAT(doubts(config),
              testing::ElementsAre(HasSubstr("2 endpoints for clients, and this broker's store is its own")));
  config.core.shards[1].clients.pop_back();
  EXPECT_THAT(doubts(config), testing::IsEmpty());
}

TEST(Shards, takeovers_that_gateways_do_not_wait_for_are_told) {
  Config config;
  config.store_lease = std::chrono::seconds(20);
  EXPECT_THAT(doubts(config), testing::IsEmpty()) << "a file is taken over by nobody";
  config.store = "postgres:host=a";
  EXPECT_THAT(doubts(config), ElementsAre(AllOf(HasSubstr("store_lease is 20s"), HasSubstr("broker_wait"))));
  config.store_lease = std::chrono::seconds(15);
  EXPECT_THAT(doubts(config), testing::IsEmpty());
}

TEST(Shards, a_bank_that_nothing_uses_is_told) {
  Config config;
  config.bank = "postgres:host=a";
  EXPECT_THAT(error_of(config), HasSubstr("no [[shard]]"));
  config = bound(three());
  config.bank = "postgres:host=a";
  config.core.budgets = {{.name = "all", .concurrency = 4, .per_shard = true},
                         {.name = "one", .service = "chat", .tenant = "umbrella", .concurrency = 4}};
  const auto doubts_now = [&] {
    EXPECT_EQ(error_of(config), "no error");
    config::share_budgets(config);
    return doubts(config);
  };
  EXPECT_THAT(doubts_now(), ElementsAre(HasSubstr("the bank is used by no budget")));
  config.core.budgets[0].per_shard = false;
  EXPECT_THAT(doubts_now(), ElementsAre());
}

std::string bind_error(const Config& config) {
  try {
    check_binds(config);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Shards, default_endpoints_that_no_peer_is_told_of_are_refused) {
  EXPECT_EQ(bind_error(Config{}), "no error");
  EXPECT_THAT(bind_error(three()),
              AllOf(HasSubstr("shard \"audio\""), HasSubstr("tcp://audio-1:5570 and tcp://audio-2:5570"),
                    HasSubstr("binds tcp://127.0.0.1:5570"), HasSubstr("say --clients tcp://0.0.0.0:5570")))
      << "the port is right, but nobody reaches it from elsewhere";
  Config config = three();
  config.core.shards[1].clients = {"tcp://localhost:5570"};
  EXPECT_THAT(bind_error(config), HasSubstr("say --workers tcp://0.0.0.0:5571"));
  config.core.shards[1].workers = {"tcp://127.0.0.1:5581"};
  EXPECT_THAT(bind_error(config), HasSubstr("say --workers tcp://127.0.0.1:5581"));
  config.core.shards[1].workers = {"tcp://127.0.0.1:5571"};
  EXPECT_EQ(bind_error(config), "no error");
  EXPECT_EQ(bind_error(bound(three())), "no error");
}

TEST(Shards, endpoints_that_somebody_has_chosen_are_doubted_alone) {
  Config config = bound(three());
  config.server.clients = "tcp://0.0.0.0:6570";
  EXPECT_EQ(bind_error(config), "no error") << "a container's port may be mapped";
  EXPECT_THAT(doubts(config), ElementsAre(AllOf(HasSubstr("--clients: "), HasSubstr("tcp://0.0.0.0:6570"))));
}

/// Reads a file with `line` before a shard `acme` and the rest, and the words behind it.
Config read_shards(const std::string& line, std::vector<const char*> words, std::string* printed = nullptr) {
  const std::string path = testing::TempDir() + std::to_string(::getpid()) + "-shards_test.toml";
  std::ofstream(path) << line << R"(
    [[shard]]
    name = "acme"
    match = { tenant = "acme*" }
    clients = ["tcp://a:1"]
    workers = ["tcp://a:2"]
    [[shard]]
    name = "rest"
    clients = ["tcp://b:1"]
    workers = ["tcp://b:2"]
  )";
  words.insert(words.begin(), {"lanemq-broker", "--config", path.c_str()});
  Config config;
  const auto asked = read_config(
      static_cast<int>(words.size()), words.data(), [](const std::string&) { return nullptr; }, config);
  std::remove(path.c_str());
  if (printed != nullptr) *printed = asked.text;
  return config;
}

TEST(Shards, the_schema_is_named_after_it_unless_somebody_has_said_one) {
  std::string printed;
  const Config named = read_shards("", {"--shard", "acme", "--print-config"}, &printed);

  EXPECT_EQ(named.store_schema, "lanemq_acme");
  EXPECT_THAT(printed, HasSubstr("\nstore_schema = \"lanemq_acme\"\n"));
  EXPECT_EQ(named.heard.places.at("store_schema"), "--shard-name");
  EXPECT_EQ(read_shards("store_schema = \"lanemq\"", {"--shard", "acme"}).store_schema, "lanemq");
  EXPECT_EQ(read_shards("", {"--shard", "acme", "--store-schema", "lanemq"}).store_schema, "lanemq");
  EXPECT_EQ(read_shards("", {"--shard", "acme", "--set", "store_schema=lanemq"}).store_schema, "lanemq");
  EXPECT_EQ(Config{}.store_schema, "lanemq");
}

TEST(Shards, a_budget_counts_jobs_of_those_that_its_match_reaches) {
  EXPECT_THAT(spanned({.name = "all"}), ElementsAre("acme", "audio", "rest"));
  EXPECT_THAT(spanned({.name = "b", .service = "chat"}), ElementsAre("acme", "rest"));
  EXPECT_THAT(spanned({.name = "b", .service = "speech"}), ElementsAre("acme", "audio"));
  EXPECT_THAT(spanned({.name = "b", .service = "s*"}), ElementsAre("acme", "audio", "rest"));
  EXPECT_THAT(spanned({.name = "b", .tenant = "acme-eu"}), ElementsAre("acme"));
  EXPECT_THAT(spanned({.name = "b", .tenant = "acme-?"}), ElementsAre("acme"));
  EXPECT_THAT(spanned({.name = "b", .tenant = "*me"}), ElementsAre("acme", "audio", "rest"));
  EXPECT_THAT(spanned({.name = "b", .service = "chat", .tenant = "other"}), ElementsAre("rest"));
  EXPECT_THAT(spanned({.name = "b", .client = "@umbrella/*"}), ElementsAre("acme"));
  EXPECT_THAT(spanned({.name = "b", .client = "alice"}), ElementsAre("acme", "audio", "rest"))
      << "a client may be of any tenant";
}

TEST(Shards, a_budget_of_several_is_refused_unless_each_has_its_part) {
  const BudgetOptions all{.name = "all", .concurrency = 4};
  EXPECT_THAT(error_after([&](core::Options& core) { core.budgets = {all}; }),
              AllOf(HasSubstr("budget \"all\""), HasSubstr("acme, audio and rest"), HasSubstr("per_shard")));
  EXPECT_EQ(error_after([&](core::Options& core) {
              core.budgets = {all};
              core.budgets[0].per_shard = true;
            }),
            "no error");
  EXPECT_EQ(error_after([&](core::Options& core) {
              core.budgets = {all};
              core.budgets[0].tenant = "umbrella";
            }),
            "no error");
}

TEST(Shards, a_part_is_set_aside_only_of_a_budget_that_they_share) {
  BudgetOptions all{.name = "all"};
  const core::RateKind& kind = *core::rate_kind("requests_per_minute");
  all.rates = {
      {.name = std::string(kind.name), .limit = 60, .period = kind.period, .resource = kind.resource}};
  all.offline_share = 100;
  const auto why = [&](const BudgetOptions& budget, const std::string& bank) {
    Config config = three();
    config.bank = bank;
    config.core.budgets = {budget};
    config::share_budgets(config);
    try {
      check_config(config);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(why(all, "postgres:"), "");
  EXPECT_THAT(why(all, ""), HasSubstr("offline_share: it is for a budget that several shards share"));
  all.offline_share = 40;
  EXPECT_THAT(why(all, "postgres:"),
              HasSubstr("requests_per_minute is 60, and nothing would be left for each"));
  all.offline_share = 501;
  EXPECT_THAT(why(all, "postgres:"), HasSubstr("at most 50%"));
  all.offline_share = 100;
  all.concurrency = 20;
  EXPECT_THAT(why(all, "postgres:"), HasSubstr("concurrency is 20"));
  all.concurrency = 0;
  all.keys = {{.name = "k"}};
  EXPECT_THAT(why(all, "postgres:"), HasSubstr("a budget with keys has none"));
}

TEST(Shards, an_operator_changes_lanes_and_limits_while_they_run) {
  core::Options running = three().core;
  running.client_endpoints = running.shards[1].clients;  // as a start fills them in
  running.worker_endpoints = running.shards[1].workers;
  const core::RateKind& kind = *core::rate_kind("requests_per_minute");
  BudgetOptions all{.name = "all"};
  all.rates = {
      {.name = std::string(kind.name), .limit = 60, .period = kind.period, .resource = kind.resource}};
  for (const bool by_bank : {true, false}) {
    all.shared = by_bank;
    all.per_shard = !by_bank;
    running.budgets = {all};
    const auto changed = edited(running, {.of = core::OptionEdit::Of::budget,
                                          .name = "all",
                                          .key = "",
                                          .setting = "requests_per_minute",
                                          .value = "90"});
    ASSERT_TRUE(changed) << changed.error().message;
    EXPECT_EQ(changed->budgets[0].rates[0].limit, 90);
    EXPECT_EQ(changed->client_endpoints, running.client_endpoints);
    EXPECT_TRUE(edited(running, {.of = core::OptionEdit::Of::lane,
                                 .name = running.lanes[0].name,
                                 .key = "",
                                 .setting = "depth_max",
                                 .value = "100"}));
  }
}

}  // namespace
}  // namespace lanemq
