// SPDX-License-Identifier: Apache-2.0
#include "common/zmq/address_look.hpp"

#include <gtest/gtest.h>
#include <poll.h>

namespace lanemq::socket {
namespace {

TEST(AddressLook, knows_what_has_a_name_to_look_up) {
  for (const char* endpoint : {"tcp://127.0.0.1:5570", "tcp://[::1]:5570", "tcp://10.0.0.1:0;127.0.0.1:1",
                               "ipc:///tmp/x", "inproc://x", "tcp://broker", "tcp://:5570", "tcp://broker:",
                               "tcp://broker:http", "tcp://broker:65536", "tcp://bro ker:1", "tcp://*:1", ""})
    EXPECT_FALSE(named_endpoint(endpoint)) << endpoint;

  const auto found = named_endpoint("tcp://brokers.example.com:5570");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->before, "tcp://");
  EXPECT_EQ(found->name, "brokers.example.com");
  EXPECT_EQ(found->port, "5570");

  const auto from = named_endpoint("tcp://10.0.0.1:0;broker:5570");
  ASSERT_TRUE(from);
  EXPECT_EQ(from->before, "tcp://10.0.0.1:0;");
  EXPECT_EQ(from->name, "broker");
}

/// Whether the descriptor is readable within half a minute.
bool is_readable(int fd) {
  pollfd polled{fd, POLLIN, 0};
  return poll(&polled, 1, 30'000) == 1;
}

TEST(AddressLook, tells_when_a_name_is_found) {
  AddressLook look;
  EXPECT_EQ(look.fd(), -1);
  look.begin({"tcp://127.0.0.1:1", "tcp://localhost:5570"});

  while (look.awaits("tcp://localhost:5570")) {
    ASSERT_TRUE(is_readable(look.fd()));
    look.heed();
  }

  const std::vector<NamedAddresses> found = look.known();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found.front().endpoint, "tcp://localhost:5570");
  ASSERT_FALSE(found.front().addresses.empty());
  for (const std::string& address : found.front().addresses)
    EXPECT_TRUE(address == "tcp://127.0.0.1:5570" || address == "tcp://[::1]:5570") << address;
  look.heed();
  pollfd polled{look.fd(), POLLIN, 0};
  EXPECT_EQ(poll(&polled, 1, 0), 0);
}

}  // namespace
}  // namespace lanemq::socket
