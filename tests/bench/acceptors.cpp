// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/acceptors.hpp"

#include <array>
#include <cstdio>

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.hpp>

#include "tests/bench/lmq1.hpp"
#include "tests/bench/process.hpp"

namespace lanemq::bench {
namespace {

/// What lmq1::Writer takes in a message; larger bodies are a frame of their own.
constexpr std::size_t kInsideMax = 255;
constexpr std::size_t kIdBytes = 26;

/// A DEALER without high-water marks.
class Dealer {
 public:
  explicit Dealer(const std::string& endpoint) : socket_(context_, zmq::socket_type::dealer) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::sndhwm, 0);
    socket_.set(zmq::sockopt::rcvhwm, 0);
    socket_.set(zmq::sockopt::rcvtimeo, kReplyTimeoutMs);
    socket_.connect(endpoint);
  }

  void send(std::string_view frame, zmq::send_flags flags = zmq::send_flags::none) {
    socket_.send(zmq::const_buffer(frame.data(), frame.size()), flags);
  }
  /// Waits for one message and takes all that are there; `read` says how many jobs one is about.
  template <class Read>
  std::size_t take_all(Read&& read) {
    if (!socket_.recv(message_)) throw Failure("no answer from the broker within 10 s");
    std::size_t taken = read(message_.to_string_view());
    while (socket_.recv(message_, zmq::recv_flags::dontwait))
      taken += read(message_.to_string_view());
    return taken;
  }

 private:
  zmq::context_t context_;
  zmq::socket_t socket_;
  zmq::message_t message_;
};

class BareAcceptor final : public Acceptor {
 public:
  explicit BareAcceptor(const std::string& endpoint) : dealer_(endpoint) {}

  void submit(std::string_view body) override { dealer_.send(body); }
  std::size_t take_acks() override {
    return dealer_.take_all([](std::string_view answer) -> std::size_t {
      if (answer != "A") throw Failure("the bare loop answered something else");
      return 1;
    });
  }

 private:
  Dealer dealer_;
};

class Lmq1Acceptor final : public Acceptor {
 public:
  Lmq1Acceptor(const std::string& endpoint, std::size_t batch) : dealer_(endpoint), batch_(batch) {}

  void submit(std::string_view body) override {
    const bool first = items_ == 0;
    maps_.map(first ? (batch_ > 1 ? 4 : 3) : 1);
    if (first) {
      for (const std::string_view word : {"service", "flood", "reply", "accepted"})
        maps_.text(word);
      if (batch_ > 1) {
        maps_.text("batch");
        maps_.number(batch_);
      }
    }
    maps_.text("id");
    maps_.text(next_id());
    ++items_;
    if (body.size() > kInsideMax) return send_with_frame(body);
    bodies_.bytes(body.data(), body.size());
    if (items_ == batch_) push();
  }

  void push() override {
    if (items_ == 0) return;
    out_.begin("submit", true);
    if (items_ > 1) out_.array(items_);
    out_.raw(maps_.view());
    if (items_ > 1) out_.array(items_);
    out_.raw(bodies_.view());
    dealer_.send(out_.view());
    clear();
  }

  std::size_t take_acks() override {
    return dealer_.take_all([](std::string_view answer) {
      std::string_view op, why;
      bool durable = false;
      const std::size_t items = lmq1::read_message(
          answer, {}, op, [](std::size_t) {},
          [&](std::size_t, std::string_view key, lmq1::Reader& reader) {
            if (key == "message") return reader.text(why);
            return key == "durable" ? reader.flag(durable) : reader.skip();
          },
          [](std::size_t, std::string_view) {});
      if (items == 0 || op != "accepted" || !durable)
        throw Failure("the broker said " + std::string(op) + (durable ? "" : ", and not durable ") +
                      std::string(why));
      return items;
    });
  }

 private:
  void send_with_frame(std::string_view body) {
    out_.begin("submit", false);
    out_.raw(maps_.view());
    dealer_.send(out_.view(), zmq::send_flags::sndmore);
    dealer_.send(body);
    clear();
  }
  void clear() {
    maps_.clear();
    bodies_.clear();
    items_ = 0;
  }
  /// As long as a ULID.
  std::string_view next_id() {
    std::snprintf(id_.data(), id_.size(), "%010d%016llu", static_cast<int>(getpid()), ++made_);
    return {id_.data(), kIdBytes};
  }

  Dealer dealer_;
  const std::size_t batch_;
  lmq1::Writer maps_, bodies_, out_;
  std::size_t items_ = 0;
  std::array<char, kIdBytes + 1> id_{};
  unsigned long long made_ = 0;
};

/// A peer that answers each job with a line.
class LineAcceptor : public Acceptor {
 public:
  LineAcceptor(int port, char good) : good_(good), socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int one = 1;
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      throw Failure("no connection to port " + std::to_string(port));
  }
  ~LineAcceptor() override { ::close(socket_); }

  void push() override {
    for (std::size_t sent = 0; sent < out_.size();) {
      const ssize_t count = ::send(socket_, out_.data() + sent, out_.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) throw Failure("the peer closed the connection");
      sent += static_cast<std::size_t>(count);
    }
    out_.clear();
  }

  std::size_t take_acks() override {
    std::size_t taken = 0;
    while (taken == 0) {
      pollfd readable{.fd = socket_, .events = POLLIN, .revents = 0};
      std::array<char, 65536> piece;
      const ssize_t count =
          ::poll(&readable, 1, kReplyTimeoutMs) == 1 ? ::recv(socket_, piece.data(), piece.size(), 0) : 0;
      if (count <= 0) throw Failure("no answer from the peer within 10 s");
      for (const char c : std::string_view(piece.data(), static_cast<std::size_t>(count))) {
        if (at_start_ && c != good_) throw Failure(std::string("the peer refused a job with ") + c);
        at_start_ = c == '\n';
        if (at_start_) ++taken;
      }
    }
    return taken;
  }

 protected:
  std::string out_;

 private:
  const char good_;
  const int socket_;
  bool at_start_ = true;
};

class BeanstalkdAcceptor final : public LineAcceptor {
 public:
  explicit BeanstalkdAcceptor(int port) : LineAcceptor(port, 'I') {}  // INSERTED
  void submit(std::string_view body) override {
    out_.append("put 100 0 600 ")
        .append(std::to_string(body.size()))
        .append("\r\n")
        .append(body)
        .append("\r\n");
  }
};

class RedisAcceptor final : public LineAcceptor {
 public:
  explicit RedisAcceptor(int port) : LineAcceptor(port, ':') {}  // the list's length
  void submit(std::string_view body) override {
    out_.append("*3\r\n$5\r\nRPUSH\r\n$4\r\njobs\r\n$").append(std::to_string(body.size()));
    out_.append("\r\n").append(body).append("\r\n");
  }
};

}  // namespace

std::unique_ptr<Acceptor> make_bare_acceptor(const std::string& endpoint) {
  return std::make_unique<BareAcceptor>(endpoint);
}
std::unique_ptr<Acceptor> make_lmq1_acceptor(const std::string& endpoint, std::size_t batch) {
  return std::make_unique<Lmq1Acceptor>(endpoint, batch);
}
std::unique_ptr<Acceptor> make_beanstalkd_acceptor(int port) {
  return std::make_unique<BeanstalkdAcceptor>(port);
}
std::unique_ptr<Acceptor> make_redis_acceptor(int port) {
  return std::make_unique<RedisAcceptor>(port);
}

}  // namespace lanemq::bench
