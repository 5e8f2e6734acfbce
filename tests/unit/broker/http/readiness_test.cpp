// SPDX-License-Identifier: Apache-2.0
#include "broker/http/readiness.hpp"

#include <string>

#include <gtest/gtest.h>

namespace lanemq::admin {
namespace {

using namespace std::chrono_literals;

TEST(Readiness, says_nothing_of_owners_where_the_store_is_not_shared) {
  const Json stats = Json::parse(R"({"state":"ready","store":{"kind":"sqlite","state":"good"}})");

  EXPECT_EQ(readiness(&stats, 0ms).text, "ready\n");
}

TEST(Readiness, says_which_owner_it_is_behind_all_that_is_wrong) {
  const Json stats =
      Json::parse(R"({"state":"ready","store":{"kind":"postgres","state":"stalled","role":"owner",
      "instance":"a","epoch":7,"since_commit_ms":1500},"paused":["lane low"]})");

  const Verdict verdict = readiness(&stats, 0ms);

  EXPECT_FALSE(verdict.good);
  EXPECT_EQ(verdict.text,
            "store: stalled\npaused: lane low\nrole: owner\ninstance: a\nepoch: 7\nsince_commit_ms: 1500\n");
}

TEST(Readiness, says_what_to_do_where_the_files_of_the_store_are_gone) {
  const Json stats = Json::parse(R"({"state":"ready","store":{"kind":"sqlite","state":"gone"}})");

  const Verdict verdict = readiness(&stats, 0ms);

  EXPECT_FALSE(verdict.good);
  EXPECT_EQ(verdict.text,
            "store: gone (its files were removed or replaced; lanemq backup saves what is open)\n");
}

/// All but the jobs of shared budgets goes on.
TEST(Readiness, says_that_the_bank_is_away_and_stays_good) {
  Json stats =
      Json::parse(R"({"state":"ready","store":{"state":"good"},"bank":{"state":"away"},"shard":"a"})");

  const Verdict verdict = readiness(&stats, 0ms);

  EXPECT_TRUE(verdict.good);
  EXPECT_EQ(verdict.text, "ready\nbank: away (jobs of budgets that shards share wait)\nshard: a\n");
  stats["bank"]["state"] = "good";
  EXPECT_EQ(readiness(&stats, 0ms).text, "ready\nshard: a\n");
}

TEST(Readiness, is_never_good_of_a_candidate_which_says_what_it_knows) {
  const Verdict verdict = readiness(Candidacy{.why = "\"a\" owns the store (epoch 7)",
                                              .instance = "b",
                                              .owner = "a",
                                              .epoch = 7,
                                              .since_commit = 412ms});

  EXPECT_FALSE(verdict.good);
  EXPECT_EQ(verdict.text,
            "waits: \"a\" owns the store (epoch 7)\nrole: candidate\ninstance: b\nowner: a\nepoch: 7\n"
            "since_commit_ms: 412\n");
}

TEST(Readiness, leaves_out_what_a_candidate_could_not_see) {
  EXPECT_EQ(readiness(Candidacy{.why = "the database cannot be used now", .instance = "b"}).text,
            "waits: the database cannot be used now\nrole: candidate\ninstance: b\n");
  EXPECT_EQ(readiness(Candidacy{.owns = true, .why = "it loads its jobs", .instance = "b"}).text,
            "starts: it loads its jobs\nrole: owner\ninstance: b\n");
}

/// The lines are read by programs: no name may bring a line of its own.
TEST(Readiness, keeps_a_name_on_its_line) {
  const Verdict verdict =
      readiness(Candidacy{.why = "x\nrole: owner", .instance = "b\nepoch: 9", .owner = "a\nrole: owner"});

  EXPECT_EQ(verdict.text.find("\nrole: owner"), std::string::npos) << verdict.text;
  EXPECT_EQ(verdict.text.find("\nepoch: 9"), std::string::npos) << verdict.text;
}

}  // namespace
}  // namespace lanemq::admin
