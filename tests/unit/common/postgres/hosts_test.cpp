// SPDX-License-Identifier: Apache-2.0
#include "common/postgres/hosts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/postgres/connection.hpp"

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

TEST(Connection, to_another_machine_is_encrypted_where_nothing_is_said_of_it) {
  EXPECT_EQ(shown("host=db.example user=u"), "user=u host=db.example sslmode=require");
  EXPECT_EQ(shown("host=a,localhost"), "host=a,localhost sslmode=require");
  EXPECT_EQ(shown("host=db.example hostaddr=127.0.0.1"),
            "host=db.example hostaddr=127.0.0.1 sslmode=require");
  EXPECT_EQ(shown("host=db.example sslmode=prefer"), "host=db.example sslmode=prefer");
  for (const char* here : {"host=127.0.0.1", "host=localhost", "host=::1", "host=/run/postgresql"})
    EXPECT_EQ(shown(here), here);
  EXPECT_EQ(shown("dbname=x"), "dbname=x");
}

TEST(Connection, shows_no_password_however_it_is_written) {
  for (const char* said : {"postgresql://u:A/B@h/db", "postgresql://u:a@h", "u:geheim@h/db",
                           "host=h password=geheim", "host=h port=geheim"}) {
    const std::optional<std::string> problem = problem_of(said);
    ASSERT_TRUE(problem) << said;
    EXPECT_EQ(problem->find("geheim"), std::string::npos) << *problem;
    EXPECT_EQ(problem->find("A/B"), std::string::npos) << *problem;
  }
  EXPECT_FALSE(problem_of("postgresql://u@h:5432/db?sslmode=require"));
}

}  // namespace
}  // namespace lanemq::postgres
