// SPDX-License-Identifier: Apache-2.0
#include "broker/io/peers/connections.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.hpp>

#include "broker/io/peers/key_ring.hpp"
#include "broker/io/peers/zap_handler.hpp"

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

/// A peer of the door, by hand.
class Peer {
 public:
  explicit Peer(const std::string& endpoint) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    address.sin_port =
        ::htons(static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
    EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~Peer() { ::close(fd_); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  void say(std::string_view bytes) const {
    EXPECT_EQ(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }

 private:
  int fd_;
};

/// Where a ZAP domain is set, as at all doors of a broker.
TEST(Connections, counts_who_speaks_an_older_protocol_and_nobody_else) {
  zmq::context_t context;
  const KeyRing keys;
  const ZapHandler zap(context, keys, false);
  zmq::socket_t door(context, zmq::socket_type::router);
  door.set(zmq::sockopt::zap_domain, "clients");
  door.set(zmq::sockopt::linger, 0);
  Connections connections(context, door, "clients", false, {});
  door.bind("tcp://127.0.0.1:*");
  const std::string endpoint = door.get(zmq::sockopt::last_endpoint);
  zmq::pollitem_t item{connections.handle().handle(), 0, ZMQ_POLLIN, 0};
  const auto read_until = [&](const auto& holds) {
    while (!holds() && zmq::poll(&item, 1, std::chrono::seconds(30)) > 0)
      connections.read();
    EXPECT_TRUE(holds());
  };
  const auto is_empty = [&] { return connections.table().size() == 0; };

  { const Peer looks(endpoint); }  // as a balancer's probe does
  {
    zmq::socket_t silent(context, zmq::socket_type::dealer);
    silent.set(zmq::sockopt::linger, 0);
    zmq::socket_t other_end(context, zmq::socket_type::pair);
    zmq_socket_monitor(silent.handle(), "inproc://silent", ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
    other_end.connect("inproc://silent");
    silent.connect(endpoint);
    zmq::message_t met;
    EXPECT_TRUE(other_end.recv(met));
  }
  connections.read();
  read_until(is_empty);
  EXPECT_EQ(connections.counts().strangers, 0u);

  for (const std::string_view words : {std::string_view("POST / HTTP/1.1\r\nhost: x\r\n\r\n"),
                                       std::string_view("\xff\0\0\0\0\0\0\0\x01\x7f\x01\x06\0\0", 14)}) {
    const std::uint64_t before = connections.counts().strangers;
    const Peer peer(endpoint);
    peer.say(words);
    read_until([&] { return connections.counts().strangers > before; });
    EXPECT_EQ(connections.counts().strangers, before + 1) << words;
  }
}

}  // namespace
}  // namespace lanemq::io
