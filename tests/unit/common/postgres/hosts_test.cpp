// SPDX-License-Identifier: Apache-2.0
#include "common/postgres/hosts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lanemq::postgres {
namespace {

using testing::ElementsAre;

TEST(Hosts, are_tried_one_by_one_each_with_its_own_port) {
  const auto hosts = each_host({{"host", "a,b"}, {"port", "1,2"}, {"user", "x"}});

  EXPECT_THAT(hosts, ElementsAre(Words{{"host", "a"}, {"port", "1"}, {"user", "x"}},
                                 Words{{"host", "b"}, {"port", "2"}, {"user", "x"}}));
}

TEST(Hosts, share_a_port_and_go_by_address_where_there_is_one) {
  const auto hosts = each_host({{"host", "a,b,"}, {"hostaddr", "10.0.0.1,,10.0.0.3"}, {"port", "7"}});

  EXPECT_THAT(hosts, ElementsAre(Words{{"host", "a"}, {"hostaddr", "10.0.0.1"}, {"port", "7"}},
                                 Words{{"host", "b"}, {"hostaddr", ""}, {"port", "7"}},
                                 Words{{"host", ""}, {"hostaddr", "10.0.0.3"}, {"port", "7"}}));
}

TEST(Hosts, that_are_one_or_do_not_fit_stay_as_they_are) {
  for (const Words& words :
       {Words{{"user", "x"}}, Words{{"host", "a"}, {"port", "1"}}, Words{{"host", "a,b,c"}, {"port", "1,2"}},
        Words{{"host", "a"}, {"port", "1,2"}}, Words{{"host", "a,b"}, {"hostaddr", "10.0.0.1"}}})
    EXPECT_THAT(each_host(words), ElementsAre(words));
}

TEST(Hosts, are_bounded) {
  EXPECT_EQ(each_host({{"host", std::string(1000, ',')}}).size(), kHostsMax);
}

}  // namespace
}  // namespace lanemq::postgres
