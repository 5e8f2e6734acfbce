// SPDX-License-Identifier: Apache-2.0
// An HTTP upstream that answers each request as a script says, step by step.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lanemq::worker {

/// One connection after the other, each for one request; all on one thread.
class ScriptedUpstream {
 public:
  class Connection {
   public:
    explicit Connection(int socket) : socket_(socket) {}
    /// Blocks while the caller does not read. False: it has hung up.
    bool send(std::string_view bytes) const {
      while (!bytes.empty()) {
        const ssize_t size = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (size <= 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(size));
      }
      return true;
    }
    /// The head of a stream, whose end is that of the connection.
    bool begin_events() const {
      return send(
          "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
          "Connection: close\r\n\r\n");
    }
    void answer(std::string_view head, std::string_view body) const {
      send("HTTP/1.1 " + std::string(head) + "\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\nConnection: close\r\n\r\n" + std::string(body));
    }
    /// Until the caller hangs up.
    void wait_for_end() const {
      std::array<char, 256> buffer;
      while (recv(socket_, buffer.data(), buffer.size(), 0) > 0) {
      }
    }

   private:
    int socket_;
  };
  using Script = std::function<void(const Connection&)>;

  explicit ScriptedUpstream(Script script) : script_(std::move(script)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 256), 0);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~ScriptedUpstream() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  ScriptedUpstream(const ScriptedUpstream&) = delete;
  ScriptedUpstream& operator=(const ScriptedUpstream&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  /// What was asked so far, each with its head and body.
  std::vector<std::string> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void run() {
    for (;;) {
      const int connection = accept(listener_, nullptr, nullptr);
      if (connection < 0) return;
      if (take_request(connection)) script_(Connection(connection));
      close(connection);
    }
  }

  bool take_request(int connection) {
    std::string request;
    std::array<char, 4096> buffer;
    while (!is_whole(request)) {
      const ssize_t size = recv(connection, buffer.data(), buffer.size(), 0);
      if (size <= 0) return false;
      request.append(buffer.data(), static_cast<std::size_t>(size));
    }
    const std::lock_guard lock(mutex_);
    requests_.push_back(std::move(request));
    return true;
  }

  static bool is_whole(const std::string& request) {
    static constexpr std::string_view kLength = "\r\nContent-Length: ";
    const std::size_t end = request.find("\r\n\r\n");
    if (end == std::string::npos) return false;
    const std::size_t at = request.find(kLength);
    const std::size_t length = at < end ? std::stoul(request.substr(at + kLength.size())) : 0;
    return request.size() >= end + 4 + length;
  }

  const Script script_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace lanemq::worker
