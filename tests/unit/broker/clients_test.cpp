// SPDX-License-Identifier: Apache-2.0
#include "broker/core/clients.hpp"

#include <gtest/gtest.h>

namespace lanemq::core {
namespace {

TEST(Clients, an_address_is_one_client_for_as_long_as_it_is_remembered) {
  Clients clients(10);
  Client& a = clients.at("a");
  EXPECT_EQ(&clients.at("a"), &a);
  EXPECT_NE(&clients.at("b"), &a);
  EXPECT_EQ(clients.size(), 2u);
}

TEST(Clients, names_are_the_brokers_and_not_the_address) {
  Clients clients(10);
  EXPECT_EQ(clients.at("a").name.find('a'), std::string::npos);
  EXPECT_NE(clients.at("a").name, clients.at("b").name);
}

TEST(Clients, the_idle_ones_are_bounded_and_the_longest_idle_goes) {
  Clients clients(3);
  for (int i = 0; i < 1000; ++i)
    clients.at(std::to_string(i));
  EXPECT_LE(clients.size(), 3u);
  const std::string kept = clients.at("999").name;
  EXPECT_EQ(clients.at("999").name, kept);
}

TEST(Clients, one_that_is_owed_an_answer_stays) {
  Clients clients(2);
  Client& owed = clients.at("owed");
  clients.take_reference(owed);
  for (int i = 0; i < 100; ++i)
    clients.at(std::to_string(i));
  EXPECT_EQ(&clients.at("owed"), &owed);

  clients.take_reference(owed);
  clients.drop_reference(owed);
  EXPECT_EQ(owed.references, 1u);
  clients.drop_reference(owed);
  for (int i = 0; i < 100; ++i)
    clients.at(std::to_string(i));
  EXPECT_LE(clients.size(), 2u);
}

TEST(Clients, a_bound_of_none_is_a_bound) {
  Clients clients(0);
  Client& client = clients.at("a");
  clients.take_reference(client);
  clients.at("b");
  clients.at("c");
  EXPECT_LE(clients.size(), 2u) << "the one that is owed an answer, and the one just asked for";
}

}  // namespace
}  // namespace lanemq::core
