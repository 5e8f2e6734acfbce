// SPDX-License-Identifier: Apache-2.0
#include "common/settings/peer.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>

#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/settings/start_check.hpp"

namespace lanemq::settings {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kQuestion = "GET / HTTP/1.0\r\n\r\n", kHttpAnswer = "HTTP/";
constexpr std::chrono::milliseconds kSpeaksFirstWithin{250};
// The greeting of ZMTP 3 (rfc.zeromq.org/spec/23): a signature, the version, the mechanism. Who has heard the
// first two says the third.
constexpr char kZmtpFirst = '\xFF';
constexpr std::string_view kZmtpBegin("\xFF\0\0\0\0\0\0\0\1\x7F\3", 11);
constexpr std::size_t kMechanismAt = 12;
constexpr std::string_view kCurve("CURVE\0", 6);

class Connection {
 public:
  explicit Connection(int family) : fd_(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {}
  ~Connection() { ::close(fd_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Returns 0, or the error number.
  int connect(const sockaddr* address, socklen_t size, Clock::time_point end) const {
    if (::connect(fd_, address, size) == 0) return 0;
    if (errno != EINPROGRESS) return errno;
    if (!wait_for(POLLOUT, end)) return ETIMEDOUT;
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &length);
    return error;
  }
  /// The first bytes that the peer sends, of ZeroMQ up to its mechanism. ZeroMQ speaks first, and one with
  /// keys resets the connection of whom it does not understand, with what it had said: whoever is silent is
  /// asked.
  std::string ask(Clock::time_point end) const {
    if (!wait_for(POLLIN, std::min(end, Clock::now() + kSpeaksFirstWithin)) &&
        ::send(fd_, kQuestion.data(), kQuestion.size(), MSG_NOSIGNAL) < 0)
      return {};
    std::string heard;
    hear(heard, 1, end);
    if (!heard.starts_with(kZmtpFirst)) {
      hear(heard, kHttpAnswer.size(), end);
    } else if (::send(fd_, kZmtpBegin.data(), kZmtpBegin.size(), MSG_NOSIGNAL) > 0) {
      hear(heard, kMechanismAt + kCurve.size(), end);
    }
    return heard;
  }

 private:
  /// Reads until so many bytes are heard, or no more come.
  void hear(std::string& heard, std::size_t bytes_min, Clock::time_point end) const {
    while (heard.size() < bytes_min && wait_for(POLLIN, end)) {
      char bytes[64];
      const ssize_t count = ::recv(fd_, bytes, sizeof bytes, 0);
      if (count <= 0) return;
      heard.append(bytes, static_cast<std::size_t>(count));
    }
  }
  bool wait_for(short events, Clock::time_point end) const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd polled{.fd = fd_, .events = events, .revents = 0};
    return ::poll(&polled, 1, static_cast<int>(std::max<std::int64_t>(left, 0))) > 0;
  }

  int fd_;
};

/// What getaddrinfo() says, on a thread of its own: nobody can break off a resolver, so nobody waits for its
/// end.
struct LookUp {
  ~LookUp() {
    if (addresses != nullptr) freeaddrinfo(addresses);
    ::close(over);
  }

  const int over = ::eventfd(0, EFD_CLOEXEC);
  int code = 0;
  addrinfo* addresses = nullptr;
};

/// Null: it has no answer in that time.
std::shared_ptr<const LookUp> look_up(const std::string& host, const std::string& port,
                                      std::chrono::milliseconds patience) {
  const auto asked = std::make_shared<LookUp>();
  std::thread([host, port, asked] {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    asked->code = getaddrinfo(host.c_str(), port.c_str(), &hints, &asked->addresses);
    ::eventfd_write(asked->over, 1);
  }).detach();
  pollfd polled{.fd = asked->over, .events = POLLIN, .revents = 0};
  return ::poll(&polled, 1, static_cast<int>(patience.count())) > 0 ? asked : nullptr;
}

Peer look_at(const sockaddr* address, socklen_t size, Clock::time_point end) {
  const Connection connection(address->sa_family);
  const int error = connection.connect(address, size, end);
  if (error == ECONNREFUSED || error == ENOENT) return Peer::nobody;
  if (error != 0) return Peer::unknown;
  const std::string heard = connection.ask(end);
  if (heard.empty()) return Peer::unknown;
  if (heard.front() == kZmtpFirst)
    return std::string_view(heard).substr(std::min(kMechanismAt, heard.size())).starts_with(kCurve)
               ? Peer::zeromq_keys
               : Peer::zeromq;
  return heard.starts_with(kHttpAnswer) ? Peer::http : Peer::other;
}

}  // namespace

std::string_view what_is_wrong_with(Peer peer) {
  switch (peer) {
    case Peer::no_host:
      return "the host is not known";
    case Peer::no_word_of_host:
      return "nobody says which address the host has";
    case Peer::nobody:
      return "nothing listens there";
    case Peer::http:
      return "an HTTP server answers there";
    case Peer::other:
      return "what answers there is no broker";
    case Peer::zeromq:
    case Peer::zeromq_keys:
    case Peer::unknown:
      break;
  }
  return {};
}

std::string host_of(const std::string& endpoint) {
  if (!endpoint.starts_with(kTcp)) return {};
  std::string host = endpoint.substr(kTcp.size(), endpoint.rfind(':') - kTcp.size());
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return host;
}

Peer look_at(const std::string& endpoint, std::chrono::milliseconds patience) {
  if (endpoint.starts_with(kIpc)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = endpoint.substr(kIpc.size());
    if (path.size() >= sizeof address.sun_path) return Peer::unknown;
    std::memcpy(address.sun_path, path.data(), path.size());
    return look_at(reinterpret_cast<const sockaddr*>(&address), sizeof address, Clock::now() + patience);
  }
  const std::string host = host_of(endpoint);
  if (host.empty()) return Peer::unknown;
  const auto found = look_up(host, endpoint.substr(endpoint.rfind(':') + 1), patience);
  if (found == nullptr) return Peer::no_word_of_host;
  if (const int code = found->code; code != 0)
    return code == EAI_NONAME || code == EAI_AGAIN || code == EAI_FAIL ? Peer::no_host : Peer::unknown;
  const auto end = Clock::now() + patience;
  Peer peer = Peer::unknown;
  for (const addrinfo* one = found->addresses; one != nullptr; one = one->ai_next)
    if (peer = look_at(one->ai_addr, one->ai_addrlen, end); peer != Peer::nobody) break;
  return peer;
}

}  // namespace lanemq::settings
