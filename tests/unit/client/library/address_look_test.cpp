// SPDX-License-Identifier: Apache-2.0
#include "common/zmq/address_look.hpp"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

namespace lanemq::socket {
namespace {

TEST(AddressLook, knows_what_has_a_name_to_look_up) {
  for (const char* endpoint : {"tcp://127.0.0.1:5570", "tcp://[::1]:5570", "tcp://10.0.0.1:0;broker:5570",
                               "ipc:///tmp/x", "inproc://x", "tcp://broker", "tcp://:5570", ""})
    EXPECT_FALSE(name_and_port(endpoint)) << endpoint;

  const auto found = name_and_port("tcp://brokers.example.com:5570");

  ASSERT_TRUE(found);
  EXPECT_EQ(found->name, "brokers.example.com");
  EXPECT_EQ(found->port, "5570");
}

TEST(AddressLook, tells_what_it_has_found_once) {
  AddressLook look;
  look.begin({"tcp://127.0.0.1:1", "tcp://localhost:5570"});

  std::optional<std::vector<NamedAddresses>> found;
  for (const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
       !(found = look.take()) && std::chrono::steady_clock::now() < end;)
    std::this_thread::yield();

  ASSERT_TRUE(found);
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ(found->front().endpoint, "tcp://localhost:5570");
  ASSERT_FALSE(found->front().addresses.empty());
  for (const std::string& address : found->front().addresses)
    EXPECT_TRUE(address == "tcp://127.0.0.1:5570" || address == "tcp://[::1]:5570") << address;
  EXPECT_FALSE(look.take());
}

}  // namespace
}  // namespace lanemq::socket
