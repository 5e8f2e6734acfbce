// SPDX-License-Identifier: Apache-2.0
#include "tests/support/answer_thief.hpp"

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace lanemq::test {
namespace {

bool send_all(int to, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t sent = ::send(to, data, size, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    data += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

int connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  const int made = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return made;
  ::close(made);
  return -1;
}

}  // namespace

AnswerThief::AnswerThief(std::string server)
    : server_(std::move(server)),
      listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      wake_(eventfd(0, EFD_CLOEXEC)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(listener_, reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::listen(listener_, 16) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::runtime_error("the thief cannot listen");
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { run(); });
}

AnswerThief::~AnswerThief() {
  ends_ = true;
  eventfd_write(wake_, 1);
  thread_.join();
  cut();
  ::close(listener_);
  ::close(wake_);
}

void AnswerThief::begin_to_steal() {
  const std::lock_guard lock(mutex_);
  for (Pair& pair : pairs_)
    pair.steals = true;
}

void AnswerThief::cut() {
  const std::lock_guard lock(mutex_);
  // The thread finds their ends, and closes them.
  for (const Pair& pair : pairs_) {
    ::shutdown(pair.client, SHUT_RDWR);
    ::shutdown(pair.server, SHUT_RDWR);
  }
}

void AnswerThief::run() {
  while (!ends_) {
    std::vector<pollfd> ready{{.fd = listener_, .events = POLLIN, .revents = 0},
                              {.fd = wake_, .events = POLLIN, .revents = 0}};
    {
      const std::lock_guard lock(mutex_);
      for (const Pair& pair : pairs_) {
        ready.push_back({.fd = pair.client, .events = POLLIN, .revents = 0});
        ready.push_back({.fd = pair.server, .events = POLLIN, .revents = 0});
      }
    }
    if (::poll(ready.data(), ready.size(), 100) <= 0) continue;
    const std::lock_guard lock(mutex_);
    std::vector<Pair> left;
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      if (pass_on(pairs_[i], ready[2 + 2 * i].revents, ready[3 + 2 * i].revents)) {
        left.push_back(pairs_[i]);
        continue;
      }
      ::close(pairs_[i].client);
      ::close(pairs_[i].server);
    }
    pairs_ = std::move(left);
    if (ready[0].revents != 0) accept_one();
  }
}

void AnswerThief::accept_one() {
  const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (client < 0) return;
  const int server = connect_to(server_);
  if (server < 0)
    ::close(client);
  else
    pairs_.push_back({.client = client, .server = server});
}

bool AnswerThief::pass_on(Pair& pair, short client_ready, short server_ready) {
  char data[65536];
  if (client_ready != 0) {
    const ssize_t size = ::recv(pair.client, data, sizeof data, 0);
    if (size <= 0 || !send_all(pair.server, data, static_cast<std::size_t>(size))) return false;
  }
  if (server_ready != 0) {
    const ssize_t size = ::recv(pair.server, data, sizeof data, 0);
    if (size <= 0) return false;
    if (pair.steals)
      ++stolen_;
    else if (!send_all(pair.client, data, static_cast<std::size_t>(size)))
      return false;
  }
  return true;
}

}  // namespace lanemq::test
