// SPDX-License-Identifier: Apache-2.0
#include "client/library/shard_routes.hpp"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lanemq::client {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ClusterWord word(std::string shard, std::vector<Shard> shards, std::string tenant = {}) {
  return {.shard = std::move(shard),
          .tenant = std::move(tenant),
          .shards = encode_shards(ShardMap(std::move(shards)))};
}

const std::vector<Shard> kThree{{.name = "acme", .tenants = {"acme*"}, .endpoints = {"tcp://a:1"}},
                                {.name = "images", .services = {"image-*"}, .endpoints = {"tcp://b:1"}},
                                {.name = "rest", .endpoints = {"tcp://c:1"}}};

JobStatus in_state(std::string state) {
  JobStatus status;
  status.state = std::move(state);
  return status;
}

TEST(ShardRoutes, sends_all_home_until_the_broker_has_spoken) {
  const ShardRoutes routes;

  EXPECT_EQ(routes.of_new("image-make", ""), "");
  EXPECT_EQ(routes.of_spend(), "");
  EXPECT_EQ(routes.of_job("a"), "");
}

TEST(ShardRoutes, goes_by_the_first_rule_that_fits_the_service_and_the_keys_tenant) {
  ShardRoutes routes;

  ASSERT_TRUE(routes.learn(word("rest", kThree)));
  EXPECT_EQ(routes.home(), "rest");
  EXPECT_EQ(routes.of_new("image-make", ""), "images");
  EXPECT_EQ(routes.of_new("echo", ""), "rest");

  ASSERT_TRUE(routes.learn(word("rest", kThree, "acme-berlin")));
  EXPECT_EQ(routes.of_new("image-make", ""), "acme");
}

TEST(ShardRoutes, tells_which_other_shards_may_take_a_job_of_a_client_whose_tenant_it_cannot_know) {
  ShardRoutes routes;
  routes.learn(word("rest", kThree));

  EXPECT_THAT(routes.others_of_new("echo", "alice"), ElementsAre("acme"));
  EXPECT_THAT(routes.others_of_new("image-make", "alice"), ElementsAre("acme"));
  EXPECT_THAT(routes.others_of_new("echo", ""), IsEmpty());
  routes.sent_on("echo", "alice", "rest");
  EXPECT_THAT(routes.others_of_new("echo", "alice"), IsEmpty()) << "a broker has said so";
  routes.learn(word("rest", {kThree.begin() + 1, kThree.end()}));
  EXPECT_THAT(routes.others_of_new("echo", "alice"), IsEmpty()) << "no rule names a tenant";
  routes.learn(word("rest", kThree, "acme-berlin"));
  EXPECT_THAT(routes.others_of_new("image-make", "alice"), ElementsAre("images"));
}

TEST(ShardRoutes, goes_where_a_broker_has_sent_jobs_of_the_same_client_as_long_as_the_rules_stay) {
  ShardRoutes routes;
  routes.learn(word("rest", kThree));

  routes.sent_on("echo", "alice", "acme");  // whose tenant only brokers know

  EXPECT_EQ(routes.of_new("echo", "alice"), "acme");
  EXPECT_EQ(routes.of_new("echo", "bob"), "rest");
  EXPECT_EQ(routes.of_new("image-make", "alice"), "images");
  routes.sent_on("echo", "alice", "images");
  EXPECT_EQ(routes.of_new("echo", "alice"), "images");
  routes.learn(word("rest", kThree));
  EXPECT_EQ(routes.of_new("echo", "alice"), "rest");

  for (std::size_t i = 0; i < ShardRoutes::kSentOnMax; ++i)
    routes.sent_on("echo", "client-" + std::to_string(i), "acme");
  EXPECT_EQ(routes.of_new("echo", "client-0"), "acme");
  routes.sent_on("echo", "one-more", "acme");
  EXPECT_EQ(routes.of_new("echo", "client-0"), "rest");
}

TEST(ShardRoutes, has_all_gateways_share_out_limits_at_the_last_shard) {
  ShardRoutes here, there;
  here.learn(word("acme", kThree, "acme"));
  there.learn(word("images", kThree));

  EXPECT_EQ(here.of_spend(), "rest");
  EXPECT_EQ(there.of_spend(), "rest");
}

TEST(ShardRoutes, keeps_its_rules_where_new_ones_cannot_be_read) {
  ShardRoutes routes;
  routes.learn(word("rest", kThree));

  EXPECT_FALSE(routes.learn({.shard = "rest", .shards = "nonsense"}));
  EXPECT_EQ(routes.of_new("image-make", ""), "images");

  EXPECT_TRUE(routes.learn({}));  // a broker that has no shards any more
  EXPECT_EQ(routes.of_new("image-make", ""), "");
  EXPECT_EQ(routes.home(), "");
}

TEST(ShardRoutes, remembers_where_jobs_went_and_forgets_the_oldest) {
  ShardRoutes routes;
  routes.remember("first", "acme");
  routes.remember("first", "rest");
  EXPECT_EQ(routes.of_job("first"), "rest");

  for (std::size_t i = 0; i < ShardRoutes::kRememberedMax; ++i)
    routes.remember("job-" + std::to_string(i), "images");

  EXPECT_EQ(routes.of_job("first"), "");
  EXPECT_EQ(routes.of_job("job-" + std::to_string(ShardRoutes::kRememberedMax - 1)), "images");
}

TEST(JobSearch, ends_with_the_first_shard_that_knows_the_job) {
  JobSearch search(3, milliseconds(300));

  EXPECT_EQ(search.hear("a", in_state("unknown")), JobSearch::State::open);
  EXPECT_EQ(search.hear("b", in_state("running")), JobSearch::State::found) << "c is not waited for";
}

TEST(JobSearch, finds_nothing_once_all_have_said_so) {
  JobSearch search(2, milliseconds(300));

  EXPECT_EQ(search.hear("a", in_state("unknown")), JobSearch::State::open);
  EXPECT_EQ(search.hear("b", in_state("unknown")), JobSearch::State::unknown);
}

TEST(JobSearch, names_the_shard_that_did_not_answer) {
  JobSearch search(3, milliseconds(300));
  search.hear("a", in_state("unknown"));
  search.hear("b", ClientError{.code = "deadline", .local = true});

  ASSERT_EQ(search.hear("c", in_state("unknown")), JobSearch::State::unsure);
  const ClientError why = search.why_unsure("job");
  EXPECT_EQ(why.code, "deadline");
  EXPECT_EQ(why.id, "job");
  EXPECT_TRUE(why.local);
  EXPECT_THAT(why.message, HasSubstr("no answer from shard \"b\" within 300 ms"));
}

TEST(JobSearch, passes_a_refusal_on) {
  JobSearch search(2, milliseconds(300));
  search.hear("a", ClientError{.code = "unauthorized", .message = "no such key"});

  ASSERT_EQ(search.hear("b", in_state("unknown")), JobSearch::State::unsure);
  EXPECT_EQ(search.why_unsure("job").code, "unauthorized");
}

}  // namespace
}  // namespace lanemq::client
