// SPDX-License-Identifier: Apache-2.0
#include "broker/io/connections.hpp"

#include <string>

#include <gtest/gtest.h>
#include <zmq.hpp>

namespace lanemq::io {
namespace {

constexpr int kMessage = 4 << 10, kMost = 64 << 10;

/// After a standstill of the broker the kernel holds more than a message may have, all of it whole messages.
TEST(Connections, what_waits_in_the_kernel_is_not_held_against_a_peer) {
  zmq::context_t context;
  zmq::socket_t door(context, zmq::socket_type::router), peer(context, zmq::socket_type::dealer);
  Connections connections(context, door, "clients", {.message_bytes_max = kMost});
  door.set(zmq::sockopt::linger, 0);
  peer.set(zmq::sockopt::linger, 0);
  door.set(zmq::sockopt::rcvhwm, 1);
  door.set(zmq::sockopt::rcvtimeo, 10'000);
  door.set(zmq::sockopt::rcvbuf, 256 << 10);
  peer.set(zmq::sockopt::sndhwm, 1);
  peer.set(zmq::sockopt::sndbuf, kMessage);
  peer.set(zmq::sockopt::sndtimeo, 200);
  door.bind("tcp://127.0.0.1:*");
  peer.connect(door.get(zmq::sockopt::last_endpoint));
  const std::string text(kMessage, 'x');
  int sent = 0, came = 0;
  const auto read = [&] {
    zmq::message_t part;
    do {
      if (!door.recv(part, zmq::recv_flags::none)) return false;
    } while (part.more());
    return true;
  };
  ASSERT_TRUE(peer.send(zmq::buffer(text), zmq::send_flags::none));
  ASSERT_TRUE(read());
  connections.read();
  ASSERT_EQ(connections.table().size(), 1u);

  while (peer.send(zmq::buffer(text), zmq::send_flags::none))
    ++sent;
  ASSERT_GT(sent * kMessage, 2 * kMost);
  const auto now = Connections::Clock::now();
  for (int i = 0; i < 5; ++i)
    connections.look(now + i * Connections::kLookEvery);

  ASSERT_EQ(connections.counts().cut, 0u);
  while (came < sent && read())
    ++came;
  EXPECT_EQ(came, sent);
}

}  // namespace
}  // namespace lanemq::io
