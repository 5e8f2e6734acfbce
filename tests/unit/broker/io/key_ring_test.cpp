// SPDX-License-Identifier: Apache-2.0
#include "broker/io/peers/key_ring.hpp"

#include <chrono>
#include <string>
#include <utility>

#include <gmock/gmock.h>

namespace lanemq::io {
namespace {

using core::Identity;
using std::chrono::hours;
using testing::ElementsAre;
using testing::IsEmpty;

using Wall = KeyRing::WallTime;

/// A key whose public half is its name.
PeerKey key(std::string name, Wall not_after = Wall::max(), Identity::Role role = Identity::Role::client) {
  PeerKey key;
  key.public_key = name;
  key.not_after = not_after;
  key.identity.name = std::move(name);
  key.identity.role = role;
  return key;
}

const Wall kNow = std::chrono::system_clock::now();

TEST(KeyRing, opens_the_door_of_its_role_alone) {
  const KeyRing ring({key("alice"), key("work", Wall::max(), Identity::Role::worker)});

  EXPECT_EQ(ring.why_shut("alice", Door::clients, kNow), "");
  EXPECT_THAT(ring.why_shut("alice", Door::workers, kNow), testing::HasSubstr("no worker's"));
  EXPECT_EQ(ring.why_shut("work", Door::workers, kNow), "");
  EXPECT_THAT(ring.why_shut("work", Door::clients, kNow), testing::HasSubstr("a worker's"));
  EXPECT_EQ(ring.why_shut("stranger", Door::clients, kNow), "no such key");
}

TEST(KeyRing, tells_once_that_the_time_of_a_key_is_over) {
  KeyRing ring({key("short", kNow), key("ever")});

  EXPECT_THAT(ring.take_expired(kNow), IsEmpty());
  EXPECT_THAT(ring.take_expired(kNow + hours(1)), ElementsAre("short"));
  EXPECT_THAT(ring.take_expired(kNow + hours(2)), IsEmpty());
  EXPECT_EQ(ring.find("short"), nullptr);
  EXPECT_NE(ring.find("ever"), nullptr);
  EXPECT_NE(ring.why_shut("short", Door::clients, kNow + hours(1)), "");
}

TEST(KeyRing, a_reload_does_not_tell_it_again) {
  KeyRing ring({key("short", kNow)});
  ring.take_expired(kNow + hours(1));

  EXPECT_THAT(ring.replace({key("short", kNow)}), IsEmpty());

  EXPECT_THAT(ring.take_expired(kNow + hours(1)), IsEmpty());
  EXPECT_EQ(ring.find("short"), nullptr);
}

TEST(KeyRing, a_key_counts_again_when_a_clock_that_ran_ahead_is_set_right) {
  KeyRing ring({key("short", kNow + hours(1))});
  ASSERT_THAT(ring.take_expired(kNow + hours(24)), ElementsAre("short"));

  EXPECT_THAT(ring.take_expired(kNow), IsEmpty());

  EXPECT_NE(ring.find("short"), nullptr);
  EXPECT_EQ(ring.why_shut("short", Door::clients, kNow), "");
  EXPECT_THAT(ring.take_expired(kNow + hours(2)), ElementsAre("short"));
}

TEST(KeyRing, names_the_keys_whose_connections_have_to_go) {
  KeyRing ring({key("alice"), key("gone"), key("moved"), key("work", Wall::max(), Identity::Role::worker)});
  PeerKey moved = key("moved"), narrower = key("work", Wall::max(), Identity::Role::worker),
          bounded = key("alice");
  moved.identity.space = core::space_of("other");
  narrower.identity.services = {"echo"};
  bounded.identity.services = {"echo"};  // a client is asked with each job

  EXPECT_THAT(ring.replace({bounded, moved, narrower}),
              testing::UnorderedElementsAre("gone", "moved", "work"));
}

}  // namespace
}  // namespace lanemq::io
