// SPDX-License-Identifier: Apache-2.0
#include "client/cli/cluster_view.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lanemq::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string stats_of(const std::string& store) {
  return R"({"state":"ready","store":)" + store + "}";
}

Member owner_at(const std::string& endpoint, const std::string& instance, std::int64_t epoch) {
  return member_of_stats(
      endpoint, stats_of(R"({"kind":"postgres","state":"good","role":"owner","instance":")" + instance +
                         R"(","epoch":)" + std::to_string(epoch) + R"(,"since_commit_ms":140})"));
}

GatewayFacts looked(int status, const std::string& body) {
  return {.url = "http://b:5573", .why_not = {}, .status = status, .body = body, .distrust = {}};
}

TEST(Cluster, reads_an_owner_from_its_statistics) {
  const Member member = owner_at("tcp://a:5570", "a", 3);

  EXPECT_EQ(member.role, "owner");
  EXPECT_EQ(member.instance, "a");
  EXPECT_EQ(member.epoch, 3);
  EXPECT_EQ(member.since_commit_ms, 140);
  EXPECT_EQ(member.says, "ready");
}

TEST(Cluster, tells_a_broker_whose_store_is_its_own) {
  const Member member = member_of_stats("tcp://a:5570", stats_of(R"({"kind":"sqlite","state":"good"})"));

  EXPECT_EQ(member.role, "");
  EXPECT_THAT(member.says, HasSubstr("sqlite"));
  EXPECT_FALSE(judge_cluster({member}).good);
}

TEST(Cluster, survives_an_answer_that_is_no_document) {
  for (const char* text : {"", "[]", "{}", R"({"store":5})", R"({"store":{"role":5,"epoch":"x"}})", "\xff"}) {
    const Member member = member_of_stats("tcp://a:5570", text);
    EXPECT_EQ(member.role, "") << text;
    EXPECT_FALSE(judge_cluster({member}).good) << text;
  }
}

TEST(Cluster, reads_a_candidate_from_its_probe) {
  const Member member =
      member_of_http(looked(503,
                            "waits: \"a\" owns the store (epoch 3)\nrole: candidate\ninstance: b\n"
                            "owner: a\nepoch: 3\nsince_commit_ms: 412\n"));

  EXPECT_EQ(member.role, "candidate");
  EXPECT_EQ(member.instance, "b");
  EXPECT_EQ(member.owner, "a");
  EXPECT_EQ(member.epoch, 3);
  EXPECT_EQ(member.since_commit_ms, 412);
  EXPECT_EQ(member.says, "waits: \"a\" owns the store (epoch 3)");
}

TEST(Cluster, tells_what_is_no_broker_and_what_does_not_answer) {
  EXPECT_THAT(member_of_http(looked(404, "not found")).says, HasSubstr("404"));
  EXPECT_THAT(member_of_http(looked(200, "ready\n")).says, HasSubstr("nothing of a store"));
  GatewayFacts silent = looked(0, "");
  silent.why_not = "nothing listens there";
  EXPECT_FALSE(member_of_http(silent).answers);
}

TEST(Cluster, shows_no_control_character_of_a_stranger) {
  const Member member = member_of_http(looked(503, "waits: \x1b[2J\nrole: can\x1b[2Jdidate\n"));

  EXPECT_EQ(cluster_text({member}, false, 200).find('\x1b'), std::string::npos);
}

TEST(Cluster, is_good_with_one_owner_however_often_it_is_seen) {
  const std::vector<Member> members{
      owner_at("tcp://a:5570", "a", 3),
      member_of_http(looked(200, "ready\nrole: owner\ninstance: a\nepoch: 3\n")),
      silent_member("tcp://b:5570", "nobody serves there")};

  const ClusterVerdict verdict = judge_cluster(members);

  EXPECT_TRUE(verdict.good);
  EXPECT_EQ(verdict.says, "\"a\" (epoch 3) owns the store");
}

TEST(Cluster, is_good_with_an_owner_that_begins_to_serve) {
  const Member starts{.at = "http://a", .role = "owner", .instance = "a", .says = "starts"};
  const Member serves{.at = "tcp://a", .role = "owner", .instance = "a", .epoch = 3, .says = "serves"};

  const ClusterVerdict verdict = judge_cluster({starts, serves});

  EXPECT_TRUE(verdict.good);
  EXPECT_EQ(verdict.says, "\"a\" (epoch 3) owns the store");
  EXPECT_FALSE(
      judge_cluster({starts, {.at = "tcp://b", .role = "owner", .instance = "b", .epoch = 3, .says = ""}})
          .good);
}

TEST(Cluster, is_not_good_with_two_owners) {
  const ClusterVerdict verdict =
      judge_cluster({owner_at("tcp://a:5570", "a", 3), owner_at("tcp://b:5570", "b", 4)});

  EXPECT_FALSE(verdict.good);
  EXPECT_TRUE(verdict.answered);
  EXPECT_THAT(verdict.says,
              AllOf(HasSubstr("\"a\" (epoch 3)"), HasSubstr("\"b\" (epoch 4)"), HasSubstr("highest")));
}

TEST(Cluster, names_an_owner_that_only_a_candidate_knows_of) {
  const Member candidate =
      member_of_http(looked(503, "waits: x\nrole: candidate\ninstance: b\nowner: a\nepoch: 3\n"));

  EXPECT_THAT(judge_cluster({candidate}).says, HasSubstr("\"a\" (epoch 3) owned the store last"));
  EXPECT_FALSE(judge_cluster({silent_member("tcp://a:5570", "x")}).answered);
}

TEST(Cluster, is_the_same_for_people_and_for_programs) {
  const std::vector<Member> members{owner_at("tcp://a:5570", "a", 3),
                                    silent_member("tcp://b:5570", "nobody")};

  const std::string text = cluster_text(members, false, 200);

  EXPECT_THAT(text, AllOf(HasSubstr("tcp://a:5570  owner         a      3  140ms ago   ready\n"),
                          HasSubstr("owns the store\n")));
  EXPECT_EQ(
      cluster_json(members),
      R"({"good":true,"says":"\"a\" (epoch 3) owns the store","members":[{"at":"tcp://a:5570","answers":true,)"
      R"("role":"owner","instance":"a","epoch":3,"since_commit_ms":140,"says":"ready"},)"
      R"({"at":"tcp://b:5570","answers":false,"says":"nobody"}]})"
      "\n");
}

Member of_shard(Member member, const std::string& shard) {
  member.shard = shard;
  return member;
}

TEST(Cluster, reads_whose_broker_it_is) {
  EXPECT_EQ(member_of_stats("tcp://a:1", R"({"shard":"acme","store":{"role":"owner"}})").shard, "acme");
  EXPECT_EQ(member_of_http(looked(503, "waits: x\nrole: candidate\nshard: acme\n")).shard, "acme");
  EXPECT_EQ(owner_at("tcp://a:1", "a", 3).shard, "");
}

TEST(Cluster, is_good_with_an_owner_for_each_shard) {
  const std::vector<Member> members{of_shard(owner_at("tcp://a:1", "a", 3), "acme"),
                                    silent_member("tcp://b:1", "nobody serves there", "acme"),
                                    of_shard(owner_at("tcp://c:1", "c", 7), "rest")};

  const ClusterVerdict verdict = judge_cluster(members);

  EXPECT_TRUE(verdict.good);
  EXPECT_EQ(verdict.says,
            "shard \"acme\": \"a\" (epoch 3) owns the store\nshard \"rest\": \"c\" (epoch 7) owns the store");
  const std::string text = cluster_text(members, false, 200);
  EXPECT_THAT(text, AllOf(HasSubstr("ENDPOINT   shard"), HasSubstr("tcp://c:1   rest")));
  EXPECT_THAT(cluster_json(members), HasSubstr(R"("answers":false,"shard":"acme")"));
}

TEST(Cluster, is_not_good_where_one_shard_has_no_owner_or_two) {
  const Member rest = of_shard(owner_at("tcp://c:1", "c", 7), "rest");

  EXPECT_FALSE(judge_cluster({rest, silent_member("tcp://a:1", "nobody", "acme")}).good);
  EXPECT_FALSE(judge_cluster({rest, of_shard(owner_at("tcp://a:1", "a", 3), "acme"),
                              of_shard(owner_at("tcp://b:1", "b", 4), "acme")})
                   .good);
}

TEST(Cluster, is_good_with_shards_whose_stores_are_their_own) {
  const auto alone = [](const std::string& shard) {
    return of_shard(member_of_stats("tcp://a:1", stats_of(R"({"kind":"sqlite","state":"good"})")), shard);
  };

  EXPECT_TRUE(judge_cluster({alone("acme"), alone("rest")}).good);
  EXPECT_FALSE(judge_cluster({alone("")}).good);
}

Member of_own_store(const std::string& endpoint, const std::string& shard) {
  return of_shard(member_of_stats(endpoint, stats_of(R"({"kind":"sqlite","state":"good"})")), shard);
}

TEST(Cluster, counts_a_broker_with_a_store_of_its_own_once_by_endpoint_and_http) {
  const ClusterVerdict verdict =
      judge_cluster({of_own_store("tcp://a:1", "acme"), member_of_http(looked(200, "ready\nshard: acme\n"))});

  EXPECT_TRUE(verdict.good);
  EXPECT_EQ(verdict.says, "shard \"acme\": one broker serves from its own store");
  EXPECT_TRUE(judge_cluster({member_of_http(looked(200, "ready\nshard: acme\n"))}).good);
}

TEST(Cluster, is_not_good_with_two_brokers_of_a_shard_each_with_a_store_of_its_own) {
  const Member by_http = member_of_http(looked(200, "ready\nshard: acme\n"));

  for (const auto& members :
       {std::vector{of_own_store("tcp://a:1", "acme"), of_own_store("tcp://b:1", "acme")},
        std::vector{by_http, by_http, of_own_store("tcp://a:1", "acme")}}) {
    const ClusterVerdict verdict = judge_cluster(members);
    EXPECT_FALSE(verdict.good);
    EXPECT_EQ(verdict.says, "shard \"acme\": 2 brokers serve shard acme, each from a store of its own");
  }
  EXPECT_FALSE(
      judge_cluster({of_own_store("tcp://a:1", "acme"), of_shard(owner_at("tcp://b:1", "b", 4), "acme")})
          .good);
}

}  // namespace
}  // namespace lanemq::cli
