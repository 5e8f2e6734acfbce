// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/server.hpp"

#include <csignal>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <sys/resource.h>

#include "tests/support/upstream/connection.hpp"

namespace lanemq::upstream {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using boost::system::error_code;

/// Files the program needs beside its connections: standard streams, the log, epoll, timers, the listener.
constexpr std::size_t kFilesBeside = 32;
/// How long to wait for a connection to close when the system has no file for another.
constexpr Duration kAcceptPause = std::chrono::milliseconds(50);

void reserve_files(std::size_t connections_max) {
  const rlim_t needed = connections_max + kFilesBeside;
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur >= needed) return;
  if (files.rlim_max < needed) {
    throw ListenError(std::to_string(connections_max) + " connections (max-connections) need " +
                      std::to_string(needed) + " open files, but the system grants " +
                      std::to_string(files.rlim_max) +
                      "; lower max-connections or raise the limit (ulimit -Hn)");
  }
  files.rlim_cur = needed;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

tcp::endpoint parse_endpoint(const std::string& text) {
  const auto colon = text.rfind(':');
  error_code error = asio::error::invalid_argument;
  if (colon != std::string::npos && colon + 1 < text.size() && text.size() - colon <= 6 &&
      text.find_first_not_of("0123456789", colon + 1) == std::string::npos) {
    const bool bracketed = colon >= 2 && text.front() == '[' && text[colon - 1] == ']';
    const auto address =
        asio::ip::make_address(bracketed ? text.substr(1, colon - 2) : text.substr(0, colon), error);
    const unsigned long port = std::stoul(text.substr(colon + 1));
    if (!error && port <= 65535) return {address, static_cast<std::uint16_t>(port)};
  }
  throw ListenError("cannot listen on \"" + text +
                    "\"; give a numeric address and a port, like 127.0.0.1:8080");
}

}  // namespace

/// Everything that has to do with sockets: the listener, the open connections, signals and the flushing of
/// the log.
class Server::Loop {
 public:
  Loop(Upstream& upstream, CallLog* log, const ServerOptions& options);

  void run();
  tcp::endpoint endpoint() const { return acceptor_.local_endpoint(); }

 private:
  void listen(const tcp::endpoint& endpoint);
  void accept();
  void on_accept(error_code error, tcp::socket socket);
  void flush_later();
  void stop();

  Hall hall_;  // Outlives context_, which ends the connections.
  CallLog* log_;
  ServerOptions options_;
  asio::io_context context_{1};
  Waits waits_{context_};
  tcp::acceptor acceptor_{context_};
  asio::steady_timer accept_pause_{context_};
  asio::steady_timer flush_timer_{context_};
  asio::signal_set signals_{context_, SIGINT, SIGTERM};
};

Server::Loop::Loop(Upstream& upstream, CallLog* log, const ServerOptions& options)
    : hall_{.upstream = upstream, .body_bytes_max = options.body_bytes_max}, log_(log), options_(options) {
  hall_.waits = &waits_;
  reserve_files(options.connections_max);
  listen(parse_endpoint(options.listen));
}

void Server::Loop::listen(const tcp::endpoint& endpoint) {
  try {
    acceptor_.open(endpoint.protocol());
    acceptor_.set_option(tcp::acceptor::reuse_address(true));
    acceptor_.bind(endpoint);
    acceptor_.listen(tcp::acceptor::max_listen_connections);
  } catch (const boost::system::system_error& error) {
    throw ListenError("cannot listen on " + options_.listen + ": " + error.code().message() +
                      "; choose another address or port 0");
  }
}

void Server::Loop::run() {
  signals_.async_wait([this](error_code error, int) {
    if (!error) stop();
  });
  if (log_) flush_later();
  accept();
  context_.run();
}

void Server::Loop::accept() {
  acceptor_.async_accept(
      [this](error_code error, tcp::socket socket) { on_accept(error, std::move(socket)); });
}

void Server::Loop::on_accept(error_code error, tcp::socket socket) {
  if (error == asio::error::operation_aborted) return;
  if (error) {
    // Out of files, most likely; trying again at once would spin.
    accept_pause_.expires_after(kAcceptPause);
    accept_pause_.async_wait([this](error_code stopped) {
      if (!stopped) accept();
    });
    return;
  }
  if (hall_.connections.size() < options_.connections_max) {
    socket.set_option(tcp::no_delay(true), error);
    std::make_shared<Connection>(hall_, std::move(socket))->read();
  } else {
    hall_.upstream.connection_refused();
  }
  accept();
}

void Server::Loop::flush_later() {
  flush_timer_.expires_after(CallLog::kFlushInterval);
  flush_timer_.async_wait([this](error_code error) {
    if (error) return;
    log_->flush();
    flush_later();
  });
}

void Server::Loop::stop() {
  context_.stop();
  for (Connection* connection : hall_.connections)
    connection->cut();
  if (log_) log_->flush();
}

Server::Server(Upstream& upstream, CallLog* log, const ServerOptions& options)
    : loop_(std::make_unique<Loop>(upstream, log, options)) {}

Server::~Server() = default;

std::string Server::url() const {
  const tcp::endpoint endpoint = loop_->endpoint();
  const std::string address = endpoint.address().to_string();
  return "http://" + (endpoint.address().is_v6() ? "[" + address + "]" : address) + ":" +
         std::to_string(endpoint.port());
}

void Server::run() {
  loop_->run();
}

}  // namespace lanemq::upstream
