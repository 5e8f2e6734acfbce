// SPDX-License-Identifier: Apache-2.0
#include "broker/io/peers/stopped_inputs.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.hpp>

#include "common/zmq/monitor.hpp"

namespace lanemq::io {
namespace {

using namespace std::string_literals;
using namespace std::string_view_literals;

constexpr int kMessages = 200;
constexpr std::string_view kMessage = "\x00\x01x"sv;
constexpr std::string_view kPing = "\x04\x07\x04PING\x00\x64"sv;  // with a time to live of 10 s
constexpr std::string_view kReady =
    "\x04\x1c\x05READY\x0bSocket-Type\x00\x00\x00\x06"
    "DEALER"sv;

/// A peer that says what libzmq would not.
class Peer {
 public:
  explicit Peer(const std::string& endpoint) {
    const timeval patience{120, 0};
    sockaddr_storage address{};
    socklen_t size = 0;
    if (endpoint.starts_with("ipc://")) {
      auto& local = reinterpret_cast<sockaddr_un&>(address);
      local.sun_family = AF_UNIX;
      std::strcpy(local.sun_path, endpoint.c_str() + 6);
      size = sizeof local;
    } else {
      auto& remote = reinterpret_cast<sockaddr_in&>(address);
      remote.sin_family = AF_INET;
      remote.sin_port =
          htons(static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
      remote.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      size = sizeof remote;
    }
    socket_ = ::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    // What is said is sent at once, and not lost where a reset follows. Not for ipc, which fails.
    const int on = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&address), size), 0);
    std::string greeting = "\xff\0\0\0\0\0\0\0\0\x7f\x03\x00NULL"s;
    greeting.resize(64);
    say(greeting);
    hear(greeting.size());
    say(kReady);
  }
  ~Peer() { reset(); }

  void say(std::string_view text) {
    EXPECT_EQ(::send(socket_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  /// Reads so many bytes, whatever they are. False: none came for the patience of a test.
  bool hear_all(std::size_t size) {
    std::array<char, 1 << 16> text{};
    while (size > 0) {
      const ssize_t heard = ::recv(socket_, text.data(), std::min(size, text.size()), 0);
      if (heard <= 0) return false;
      size -= static_cast<std::size_t>(heard);
    }
    return true;
  }
  /// Closes the connection at once, behind nothing.
  void reset() {
    if (socket_ < 0) return;
    const linger at_once{1, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    ::close(socket_);
    socket_ = -1;
  }

 private:
  void hear(std::size_t size) {
    std::array<char, 64> text{};
    ASSERT_EQ(::recv(socket_, text.data(), size, MSG_WAITALL), static_cast<ssize_t>(size));
  }

  int socket_ = -1;
};

class StoppedInputs : public testing::TestWithParam<const char*> {
 protected:
  StoppedInputs() {
    monitor_ = socket::Monitor(context_, door_,
                               ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED);
    door_.set(zmq::sockopt::linger, 0);
    door_.set(zmq::sockopt::rcvhwm, 16);
    door_.set(zmq::sockopt::rcvtimeo, 10'000);
    door_.bind(GetParam());
    endpoint_ = door_.get(zmq::sockopt::last_endpoint);
  }

  /// The value of the next such event.
  int wait_for(int event) {
    while (true) {
      while (const auto next = monitor_.next())
        if (next->number == event) return next->value;
      zmq::pollitem_t item{monitor_.handle().handle(), 0, ZMQ_POLLIN, 0};
      if (zmq::poll(&item, 1, std::chrono::seconds(10)) != 1) throw std::runtime_error("no such event");
    }
  }
  /// libzmq's only thread has seen what came before this.
  void let_libzmq_see() {
    const Peer other(endpoint_);
    wait_for(ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
  }
  bool read() {
    zmq::message_t part;
    if (!door_.recv(sender_, zmq::recv_flags::none)) return false;
    do {
      if (!door_.recv(part, zmq::recv_flags::none)) return false;
    } while (part.more());
    return true;
  }

  zmq::context_t context_;
  zmq::socket_t door_{context_, zmq::socket_type::router};
  socket::Monitor monitor_;
  std::string endpoint_;
  zmq::message_t sender_;  ///< of the message that was read last
};

/// More messages than libzmq takes, and a PING behind them.
std::string flood() {
  std::string text;
  for (int i = 0; i < kMessages; ++i)
    text += kMessage;
  return text += kPing;
}

TEST_P(StoppedInputs, a_connection_that_is_reset_behind_a_full_queue_and_a_ping_ends_behind_its_messages) {
  ASSERT_TRUE(guards_stopped_inputs());
  Peer peer(endpoint_);
  const int descriptor = wait_for(ZMQ_EVENT_ACCEPTED);
  wait_for(ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
  peer.say(flood());
  let_libzmq_see();

  peer.reset();
  let_libzmq_see();

  for (int i = 0; i < kMessages; ++i)
    ASSERT_TRUE(read()) << i;
  while (wait_for(ZMQ_EVENT_DISCONNECTED) != descriptor) {
  }
}

TEST_P(StoppedInputs, a_descriptor_that_is_used_again_is_read_as_a_new_one) {
  std::map<int, int> used;
  for (int round = 0; round < 20; ++round) {
    Peer peer(endpoint_);
    const int descriptor = wait_for(ZMQ_EVENT_ACCEPTED);
    ++used[descriptor];
    wait_for(ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
    peer.say(flood());
    let_libzmq_see();
    peer.reset();
    for (int i = 0; i < kMessages; ++i)
      ASSERT_TRUE(read()) << round << ", " << i;
    while (wait_for(ZMQ_EVENT_DISCONNECTED) != descriptor) {
    }
  }
  EXPECT_LT(used.size(), 20u);
}

TEST_P(StoppedInputs, a_connection_whose_input_is_stopped_is_written_to) {
  constexpr int kAnswers = 300;
  const std::string answer(100'000, 'a');
  Peer peer(endpoint_);
  wait_for(ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
  peer.say(flood());
  let_libzmq_see();
  ASSERT_TRUE(read());

  // Much more than the system takes at once: libzmq has to be told when there is room again.
  for (int i = 0; i < kAnswers; ++i) {
    zmq::message_t to;
    to.copy(sender_);
    ASSERT_TRUE(door_.send(to, zmq::send_flags::sndmore));
    ASSERT_TRUE(door_.send(zmq::buffer(answer), zmq::send_flags::none));
  }

  EXPECT_TRUE(peer.hear_all(kAnswers * answer.size()));
}

INSTANTIATE_TEST_SUITE_P(Transports, StoppedInputs, testing::Values("tcp://127.0.0.1:*", "ipc://*"),
                         [](const auto& transport) { return std::string(transport.param, 3); });

}  // namespace
}  // namespace lanemq::io
