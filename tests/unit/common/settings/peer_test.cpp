// SPDX-License-Identifier: Apache-2.0
#include "common/settings/peer.hpp"

#include <thread>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lanemq::settings {
namespace {

using std::chrono::milliseconds;

/// Who says one thing to the first that connects, and hears its question.
class Answering {
 public:
  explicit Answering(std::string says) : listening_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listening_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listening_, 4), 0);
    ::getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &size);
    endpoint_ = "tcp://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this, says = std::move(says)] {
      const int connection = ::accept(listening_, nullptr, nullptr);
      char question[64];
      static_cast<void>(::recv(connection, question, sizeof question, 0));
      static_cast<void>(::send(connection, says.data(), says.size(), MSG_NOSIGNAL));
      ::close(connection);
    });
  }
  ~Answering() {
    thread_.join();
    ::close(listening_);
  }
  Answering(const Answering&) = delete;
  Answering& operator=(const Answering&) = delete;

  const std::string& endpoint() const { return endpoint_; }

 private:
  int listening_;
  std::string endpoint_;
  std::thread thread_;
};

Peer peer_that_says(const std::string& words) {
  return look_at(Answering(words).endpoint(), milliseconds(60'000));
}

TEST(Peer, is_known_by_its_first_bytes) {
  EXPECT_EQ(peer_that_says("HTTP/1.1 400 Bad Request\r\n\r\n"), Peer::http);
  EXPECT_EQ(peer_that_says(std::string("\xFF\0\0\0\0\0\0\0\x01\x7F", 10)), Peer::zeromq);
  const std::string greeting("\xFF\0\0\0\0\0\0\0\x01\x7F\x03\x01", 12);
  EXPECT_EQ(peer_that_says(greeting + std::string("NULL\0\0\0\0", 8)), Peer::zeromq);
  EXPECT_EQ(peer_that_says(greeting + std::string("CURVE\0\0\0", 8)), Peer::zeromq_keys);
  EXPECT_EQ(peer_that_says("SSH-2.0-OpenSSH_9.2\r\n"), Peer::other);
  EXPECT_EQ(peer_that_says(""), Peer::unknown);
}

TEST(Peer, nobody_where_nothing_listens_and_no_host_where_no_name_is_known) {
  std::string gone;
  {
    const Answering peer("HTTP/1.1 200 OK\r\n\r\n");
    gone = peer.endpoint();
    EXPECT_EQ(look_at(gone, milliseconds(60'000)), Peer::http);
  }
  EXPECT_EQ(look_at(gone, milliseconds(60'000)), Peer::nobody);
  EXPECT_EQ(look_at("ipc:///nowhere/at/all.sock", milliseconds(60'000)), Peer::nobody);
  EXPECT_EQ(look_at("tcp://no-such-host.invalid:5570", milliseconds(60'000)), Peer::no_host);
  EXPECT_EQ(host_of("tcp://[::1]:5570"), "::1");
}

}  // namespace
}  // namespace lanemq::settings
