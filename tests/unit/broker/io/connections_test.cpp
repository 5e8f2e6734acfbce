// SPDX-License-Identifier: Apache-2.0
#include "broker/io/connections.hpp"

#include <chrono>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.hpp>

namespace lanemq::io {
namespace {

constexpr int kMessage = 4 << 10, kMost = 64 << 10;

/// After a standstill of the broker the kernel holds more than a message may have, all of it whole messages.
TEST(Connections, what_waits_in_the_kernel_is_not_held_against_a_peer) {
  zmq::context_t context;
  zmq::socket_t door(context, zmq::socket_type::router), peer(context, zmq::socket_type::dealer);
  Connections connections(context, door, "clients", false, {.message_bytes_max = kMost});
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

/// Where one side encrypts and the other does not, whoever notices first ends the connection: here the door.
TEST(Connections, counts_a_peer_that_shows_no_key_where_one_is_asked_for) {
  zmq::context_t context;
  zmq::socket_t door(context, zmq::socket_type::router);
  Connections connections(context, door, "clients", true, {});
  door.set(zmq::sockopt::linger, 0);
  door.set(zmq::sockopt::curve_server, true);
  door.set(zmq::sockopt::curve_secretkey, "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6");
  door.bind("tcp://127.0.0.1:*");
  const std::string endpoint = door.get(zmq::sockopt::last_endpoint);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  address.sin_port = ::htons(static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
  const int peer = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::connect(peer, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  std::string greeting("\xff\0\0\0\0\0\0\0\x01\x7f\x03\0NULL", 16);  // of ZMTP 3.0
  greeting.resize(64);
  ASSERT_EQ(::send(peer, greeting.data(), greeting.size(), MSG_NOSIGNAL), 64);

  zmq::pollitem_t item{connections.handle().handle(), 0, ZMQ_POLLIN, 0};
  while (connections.counts().keyless == 0 && zmq::poll(&item, 1, std::chrono::seconds(30)) > 0)
    connections.read();

  EXPECT_EQ(connections.counts().keyless, 1u);
  EXPECT_EQ(connections.table().size(), 0u);
  ::close(peer);
}

}  // namespace
}  // namespace lanemq::io
