// SPDX-License-Identifier: Apache-2.0
#include "broker/core/scheduler/connections.hpp"

#include <gtest/gtest.h>

#include "broker/core/scheduler/flow.hpp"
#include "broker/core/scheduler/lanes.hpp"
#include "broker/core/scheduler/workers.hpp"

namespace lanemq::core {
namespace {

TEST(Clients, count_while_they_have_jobs) {
  Lane lane(LaneOptions{.name = "l"}, 0);
  Service service("s"), other("t");
  Clients clients({}, 10);
  Client& client = clients.named("c");
  EXPECT_EQ(clients.bytes(), 0u);
  const std::size_t more = Clients::bytes_of_more(client);
  ClientQueue& queue = clients.join(client, lane.flow(service, 0));
  EXPECT_EQ(clients.bytes(), more);
  EXPECT_EQ(Clients::bytes_of_more(client), 0u);
  clients.join(client, queue.flow());
  EXPECT_EQ(clients.bytes(), more);
  ClientQueue& second = clients.join(client, lane.flow(other, 0));
  EXPECT_EQ(clients.bytes(), more) << "further queues are not counted";
  clients.leave(second);
  clients.leave(queue);
  EXPECT_EQ(clients.bytes(), more);
  clients.leave(queue);
  EXPECT_EQ(clients.bytes(), 0u);
}

TEST(Connections, an_address_is_one_client_for_as_long_as_it_is_remembered) {
  Clients clients({}, 10);
  Connections connections(clients, 10);
  Connection& a = connections.at("a");
  EXPECT_EQ(&connections.at("a"), &a);
  EXPECT_NE(&connections.at("b"), &a);
  EXPECT_EQ(connections.size(), 2u);
}

TEST(Connections, names_are_the_brokers_and_not_the_address) {
  Clients clients({}, 10);
  Connections connections(clients, 10);
  EXPECT_EQ(connections.at("a").name.find('a'), std::string::npos);
  EXPECT_NE(connections.at("a").name, connections.at("b").name);
}

TEST(Connections, the_idle_ones_are_bounded_and_the_longest_idle_goes) {
  Clients clients({}, 10);
  Connections connections(clients, 3);
  for (int i = 0; i < 1000; ++i)
    connections.at(std::to_string(i));
  EXPECT_LE(connections.size(), 3u);
  const std::string kept = connections.at("999").name;
  EXPECT_EQ(connections.at("999").name, kept);
}

TEST(Connections, one_that_is_owed_an_answer_stays) {
  Clients clients({}, 10);
  Connections connections(clients, 2);
  Connection& owed = connections.at("owed");
  connections.take_reference(owed);
  for (int i = 0; i < 100; ++i)
    connections.at(std::to_string(i));
  EXPECT_EQ(&connections.at("owed"), &owed);

  connections.take_reference(owed);
  connections.drop_reference(owed);
  EXPECT_EQ(owed.references, 1u);
  connections.drop_reference(owed);
  for (int i = 0; i < 100; ++i)
    connections.at(std::to_string(i));
  EXPECT_LE(connections.size(), 2u);
}

TEST(Connections, one_whose_timer_is_set_is_not_forgotten_unseen) {
  Clients clients({}, 10);
  Connections connections(clients, 1);
  TimerWheel timers;
  timers.set(connections.at("a").timer, TimePoint(std::chrono::seconds(5)));
  EXPECT_DEATH(connections.at("b"), "timer");
  timers.clear(connections.at("a").timer);
  connections.at("b");
  EXPECT_EQ(connections.find("a"), nullptr);
}

TEST(Connections, a_bound_of_none_is_a_bound) {
  Clients clients({}, 10);
  Connections connections(clients, 0);
  Connection& connection = connections.at("a");
  connections.take_reference(connection);
  connections.at("b");
  connections.at("c");
  EXPECT_LE(connections.size(), 2u) << "the one that is owed an answer, and the one just asked for";
}

}  // namespace
}  // namespace lanemq::core
