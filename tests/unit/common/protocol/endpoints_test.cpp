// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <lanemq/endpoints.hpp>

namespace lanemq {
namespace {

using std::chrono::milliseconds;
using Texts = std::vector<std::string>;

const NamedAddresses kBrokers{.endpoint = "tcp://brokers:1",
                              .addresses = {"tcp://10.0.0.1:1", "tcp://10.0.0.2:1"}};

TEST(Endpoints, a_name_stands_for_its_addresses) {
  Endpoints endpoints("tcp://a:1,tcp://brokers:1");

  endpoints.set_addresses({{.endpoint = "tcp://a:1", .addresses = {"tcp://10.0.0.9:1"}}, kBrokers});

  EXPECT_EQ(endpoints.all(), (Texts{"tcp://10.0.0.9:1", "tcp://10.0.0.1:1", "tcp://10.0.0.2:1"}));
  EXPECT_EQ(endpoints.named(), (Texts{"tcp://a:1", "tcp://brokers:1"}));
  EXPECT_EQ(endpoints.current(), "tcp://10.0.0.9:1");
}

TEST(Endpoints, a_name_that_was_connected_to_counts_as_its_first_address) {
  Endpoints endpoints("tcp://brokers:1");
  EXPECT_FALSE(endpoints.several());

  endpoints.set_addresses({kBrokers});
  endpoints.turn();

  EXPECT_TRUE(endpoints.several());
  EXPECT_EQ(endpoints.current(), "tcp://10.0.0.2:1");
}

TEST(Endpoints, the_present_address_stays_where_the_name_gets_others) {
  Endpoints endpoints("tcp://brokers:1");
  endpoints.set_addresses({kBrokers});
  endpoints.turn();

  endpoints.set_addresses(
      {{.endpoint = "tcp://brokers:1",
        .addresses = {"tcp://10.0.0.0:1", "tcp://10.0.0.1:1", "tcp://10.0.0.2:1", "tcp://10.0.0.3:1"}}});
  EXPECT_EQ(endpoints.current(), "tcp://10.0.0.2:1");

  endpoints.set_addresses(
      {{.endpoint = "tcp://brokers:1", .addresses = {"tcp://10.0.0.5:1", "tcp://10.0.0.6:1"}}});
  EXPECT_EQ(endpoints.all(), (Texts{"tcp://10.0.0.5:1", "tcp://10.0.0.6:1"}));
  EXPECT_EQ(endpoints.current(), "tcp://10.0.0.5:1");
}

TEST(Endpoints, a_name_that_is_not_known_now_stays_a_name) {
  Endpoints endpoints("tcp://brokers:1,tcp://b:1");
  endpoints.set_addresses({kBrokers});
  endpoints.turn();

  endpoints.set_addresses({{.endpoint = "tcp://brokers:1", .addresses = {}}});

  EXPECT_EQ(endpoints.all(), (Texts{"tcp://brokers:1", "tcp://b:1"}));
}

TEST(Endpoints, no_name_has_more_addresses_than_are_bounded) {
  Endpoints endpoints("tcp://brokers:1");
  NamedAddresses many{.endpoint = "tcp://brokers:1", .addresses = {}};
  for (int i = 0; i < 100; ++i)
    many.addresses.push_back("tcp://10.0.0." + std::to_string(i) + ":1");

  endpoints.set_addresses({many});

  EXPECT_EQ(endpoints.all().size(), Endpoints::kEndpointsMax);
  EXPECT_FALSE(endpoints.learn("tcp://c:1"));
}

TEST(Endpoints, one_that_is_forgotten_is_not_turned_to_but_the_present_one_stays) {
  Endpoints endpoints("tcp://a:1,tcp://b:1,tcp://c:1");
  endpoints.turn();

  EXPECT_FALSE(endpoints.forget("tcp://b:1"));
  EXPECT_FALSE(endpoints.forget("tcp://d:1"));
  EXPECT_TRUE(endpoints.forget("tcp://a:1"));
  EXPECT_EQ(endpoints.current(), "tcp://b:1");
  endpoints.turn();
  EXPECT_EQ(endpoints.current(), "tcp://c:1");
  endpoints.turn();
  EXPECT_EQ(endpoints.current(), "tcp://b:1");
}

TEST(EndpointRounds, pause_behind_each_round_and_longer_each_time_up_to_a_second) {
  EndpointRounds rounds;
  EndpointRounds::TimePoint now{std::chrono::hours(1)};
  std::vector<std::int64_t> pauses;
  for (int i = 0; i < 14; ++i) {
    const auto next = rounds.found_nobody(2, now);
    pauses.push_back(std::chrono::duration_cast<milliseconds>(next - now).count());
    now = next;
  }

  EXPECT_EQ(pauses, (std::vector<std::int64_t>{0, 100, 0, 200, 0, 400, 0, 800, 0, 1000, 0, 1000, 0, 1000}));
}

TEST(EndpointRounds, what_was_long_ago_belongs_to_no_round) {
  EndpointRounds rounds;
  EndpointRounds::TimePoint now{std::chrono::hours(1)};
  EXPECT_EQ(rounds.found_nobody(2, now), now);

  now += EndpointRounds::kForgottenAfter + milliseconds(1);

  EXPECT_EQ(rounds.found_nobody(2, now), now);
  EXPECT_GT(rounds.found_nobody(2, now), now);
}

}  // namespace
}  // namespace lanemq
