// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/door/response_owners.hpp"

#include <gtest/gtest.h>

namespace lanemq::gateway {
namespace {

TEST(ResponseOwners, keep_who_was_first) {
  ResponseOwners owners;
  owners.note("resp_1", "alice");
  owners.note("resp_1", "bob");
  owners.note("", "bob");
  owners.note(std::string(ResponseOwners::kIdBytesMax + 1, 'x'), "bob");

  EXPECT_TRUE(owners.belongs("resp_1", "alice"));
  EXPECT_FALSE(owners.belongs("resp_1", "bob"));
  EXPECT_FALSE(owners.belongs("", "bob"));
  EXPECT_FALSE(owners.belongs(std::string(ResponseOwners::kIdBytesMax + 1, 'x'), "bob"));
}

TEST(ResponseOwners, tell_of_new_ones_and_know_earlier_ones) {
  ResponseOwners owners;
  std::vector<std::string> told;
  owners.keep_with({{.id = "resp_1", .owner = "alice"}},
                   [&](const OwnedResponse& made) { told.push_back(made.id + " " + made.owner); });
  for (const char* owner : {"bob", "alice"})
    for (const char* id : {"resp_1", "resp_2", ""})
      owners.note(id, owner);

  EXPECT_EQ(told, std::vector<std::string>{"resp_2 bob"});
  EXPECT_TRUE(owners.belongs("resp_1", "alice"));
  EXPECT_FALSE(owners.belongs("resp_1", "bob"));
}

TEST(ResponseOwners, forget_the_oldest_of_who_has_most) {
  ResponseOwners owners;
  owners.note("resp_of_bob", "bob");
  for (std::size_t i = 1; i <= ResponseOwners::kKnownMax; ++i)
    owners.note("resp_" + std::to_string(i), "alice");

  EXPECT_TRUE(owners.belongs("resp_of_bob", "bob"));
  EXPECT_FALSE(owners.belongs("resp_1", "alice"));
  EXPECT_TRUE(owners.belongs("resp_2", "alice"));
  EXPECT_TRUE(owners.belongs("resp_" + std::to_string(ResponseOwners::kKnownMax), "alice"));
}

}  // namespace
}  // namespace lanemq::gateway
