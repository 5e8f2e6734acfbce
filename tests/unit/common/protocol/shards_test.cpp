// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <lanemq/codec.hpp>
#include <lanemq/shards.hpp>

namespace lanemq {
namespace {

const ShardMap kThree({{.name = "acme", .tenants = {"acme*", "umbrella"}, .endpoints = {"tcp://a:1"}},
                       {.name = "audio", .services = {"speech"}, .endpoints = {"tcp://b:1", "tcp://c:1"}},
                       {.name = "rest"}});

std::string taken_by(const ShardMap& map, std::string_view service, std::string_view tenant) {
  const Shard* const shard = map.of(service, tenant);
  return shard == nullptr ? "none" : shard->name;
}

TEST(ShardMap, the_first_rule_that_matches_takes_the_job) {
  EXPECT_EQ(taken_by(kThree, "chat", "acme-eu"), "acme");
  EXPECT_EQ(taken_by(kThree, "speech", "umbrella"), "acme");
  EXPECT_EQ(taken_by(kThree, "speech", ""), "audio");
  EXPECT_EQ(taken_by(kThree, "chat", ""), "rest");
  EXPECT_EQ(taken_by(kThree, "chat", "other"), "rest");
}

TEST(ShardMap, service_and_tenant_both_count_where_both_are_named) {
  const ShardMap map({{.name = "one", .services = {"chat"}, .tenants = {"acme"}}});
  EXPECT_EQ(taken_by(map, "chat", "acme"), "one");
  EXPECT_EQ(taken_by(map, "chat", ""), "none");
  EXPECT_EQ(taken_by(map, "speech", "acme"), "none");
}

TEST(ShardMap, is_read_as_it_was_written) {
  const auto read = decode_shards(encode_shards(kThree));
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, kThree);
  EXPECT_EQ(decode_shards(encode_shards({})), ShardMap());
}

TEST(ShardMap, skips_what_a_later_version_says) {
  Buffer out;
  DocumentWriter(out).array(1).map(3).text("name").text("a").text("weight").integer(7).integer(3).text("x");
  const auto read = decode_shards(out.view());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->all().size(), 1u);
}

TEST(ShardMap, refuses_what_is_no_list_of_shards) {
  const auto read = [](auto write) {
    Buffer out;
    DocumentWriter writer(out);
    write(writer);
    return decode_shards(out.view()).has_value();
  };
  EXPECT_FALSE(decode_shards(""));
  EXPECT_FALSE(decode_shards("\xc1"));
  EXPECT_FALSE(decode_shards(encode_shards(kThree) + "x"));
  EXPECT_FALSE(read([](DocumentWriter& to) { to.map(0); }));
  EXPECT_FALSE(read([](DocumentWriter& to) { to.array(1).text("a"); }));
  EXPECT_FALSE(read([](DocumentWriter& to) { to.array(1).map(0); })) << "a shard has a name";
  EXPECT_FALSE(read([](DocumentWriter& to) { to.array(1).map(1).text("name").integer(1); }));
  EXPECT_FALSE(read([](DocumentWriter& to) {
    to.array(1).map(2).text("name").text("a").text("tenants").array(1).integer(1);
  }));
  EXPECT_FALSE(decode_shards(encode_shards(ShardMap(std::vector<Shard>(ShardMap::kShardsMax + 1, {"a"})))));
}

}  // namespace
}  // namespace lanemq
