// SPDX-License-Identifier: Apache-2.0
#include "common/http/server/access/proxies.hpp"

#include <stdexcept>

#include <gtest/gtest.h>

namespace lanemq::http {
namespace {

TEST(WhoseAddress, is_the_address_or_the_network_of_a_customer) {
  EXPECT_EQ(whose_address("192.0.2.7"), "192.0.2.7");
  EXPECT_EQ(whose_address("::ffff:192.0.2.7"), "192.0.2.7");
  EXPECT_EQ(whose_address("::1"), "::1");
  EXPECT_EQ(whose_address("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
  EXPECT_EQ(whose_address("fe80::1%eth0"), "fe80::/64");
  EXPECT_EQ(whose_address("unknown"), "");
}

TEST(Proxies, are_addresses_and_networks) {
  const Proxies proxies({"10.0.0.0/8", "192.0.2.130/25", "203.0.113.9", "fd00::/8", "2001:db8::1"});
  for (const char* trusted : {"10.255.0.1", "192.0.2.128", "192.0.2.255", "203.0.113.9", "::ffff:10.0.0.1",
                              "fdff::1", "2001:db8::1"})
    EXPECT_TRUE(proxies.trusts(trusted)) << trusted;
  for (const char* other :
       {"11.0.0.1", "192.0.2.127", "203.0.113.8", "fe00::1", "2001:db8::2", "::10.0.0.1", "", "x"})
    EXPECT_FALSE(proxies.trusts(other)) << other;
  EXPECT_TRUE(Proxies({"0.0.0.0/0"}).trusts("192.0.2.1"));
  EXPECT_FALSE(Proxies({"0.0.0.0/0"}).trusts("2001:db8::1"));
}

TEST(Proxies, that_are_none_are_refused_by_name) {
  for (const char* wrong :
       {"proxy.example", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/8x", "10.0.0/8", "::/129", "/8", ""})
    EXPECT_THROW(Proxies({wrong}), std::invalid_argument) << wrong;
  try {
    const Proxies none({"10.0.0.1", "proxy.example"});
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("\"proxy.example\""), std::string::npos) << error.what();
  }
}

TEST(Sender, of_a_stranger_is_itself_whatever_it_says) {
  const Proxies proxies({"10.0.0.0/8"});
  EXPECT_EQ(proxies.sender("192.0.2.1", {{"x-forwarded-for", "198.51.100.1"}}), "192.0.2.1");
  EXPECT_EQ(proxies.sender("192.0.2.1", {{"x-forwarded-for", "10.0.0.1"}}), "192.0.2.1");
  EXPECT_EQ(Proxies().sender("127.0.0.1", {{"x-forwarded-for", "198.51.100.1"}}), "127.0.0.1");
}

TEST(Sender, is_whom_the_last_proxy_of_ours_heard) {
  const Proxies proxies({"10.0.0.0/8", "fd00::/8"});
  const auto sender = [&](const Headers& headers) { return proxies.sender("10.0.0.1", headers); };
  EXPECT_EQ(sender({}), "10.0.0.1");
  EXPECT_EQ(sender({{"x-forwarded-for", "192.0.2.1"}}), "192.0.2.1");
  // What the caller wrote itself stands further left.
  EXPECT_EQ(sender({{"x-forwarded-for", "198.51.100.1, 192.0.2.1"}}), "192.0.2.1");
  EXPECT_EQ(sender({{"x-forwarded-for", "10.9.9.9,192.0.2.1 , 10.0.0.2"}}), "192.0.2.1");
  EXPECT_EQ(sender({{"x-forwarded-for", "198.51.100.1"}, {"accept", "*"}, {"x-forwarded-for", "192.0.2.1"}}),
            "192.0.2.1");
  EXPECT_EQ(sender({{"x-forwarded-for", "192.0.2.1"}, {"x-forwarded-for", "10.0.0.3, fd00::1"}}),
            "192.0.2.1");
  // With ports, as some write it.
  EXPECT_EQ(sender({{"x-forwarded-for", "192.0.2.1:4711"}}), "192.0.2.1");
  EXPECT_EQ(sender({{"x-forwarded-for", "[2001:db8:0:1::7]:4711"}}), "2001:db8:0:1::/64");
  EXPECT_EQ(sender({{"x-forwarded-for", "2001:db8:0:1::7"}}), "2001:db8:0:1::/64");
  // All are ours: the first that was heard.
  EXPECT_EQ(sender({{"x-forwarded-for", "10.0.0.4, 10.0.0.5"}}), "10.0.0.4");
}

TEST(Sender, is_the_proxy_where_what_it_heard_is_no_address) {
  const Proxies proxies({"10.0.0.0/8"});
  for (const char* said :
       {"", "unknown", "_hidden", "192.0.2.1,", "[192.0.2.1", "192.0.2.1.5", "192.0.2.1 10.0.0.2"})
    EXPECT_EQ(proxies.sender("10.0.0.1", {{"x-forwarded-for", said}}), "10.0.0.1") << said;
  EXPECT_EQ(proxies.sender("10.0.0.1", {{"x-forwarded-for", "192.0.2.1, unknown, 10.0.0.2"}}), "10.0.0.2");
}

}  // namespace
}  // namespace lanemq::http
