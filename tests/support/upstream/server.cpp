// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/server.hpp"

#include <csignal>
#include <optional>
#include <unordered_set>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <sys/resource.h>

namespace lanemq::upstream {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;
using boost::system::error_code;

/// Files the program needs beside its connections: standard streams, the log, epoll, timers, the listener.
constexpr std::size_t kFilesBeside = 32;
/// What a refused sender may still send until it has read why.
constexpr std::size_t kDiscardBytesMax = 64 << 20;
constexpr Duration kDiscardTime = std::chrono::seconds(2);
/// How long to wait for a connection to close when the system has no file for another.
constexpr Duration kAcceptPause = std::chrono::milliseconds(50);

std::string_view view(beast::string_view text) {
  return {text.data(), text.size()};
}

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
  class Connection;

  void listen(const tcp::endpoint& endpoint);
  void accept();
  void on_accept(error_code error, tcp::socket socket);
  void flush_later();
  void stop();

  Upstream& upstream_;
  CallLog* log_;
  ServerOptions options_;
  std::unordered_set<Connection*>
      connections_;  // Owned by their pending operations. Outlives context_, which ends them.
  asio::io_context context_{1};
  tcp::acceptor acceptor_{context_};
  asio::steady_timer accept_pause_{context_};
  asio::steady_timer flush_timer_{context_};
  asio::signal_set signals_{context_, SIGINT, SIGTERM};
};

/// One connection. Kept alive by the operation that is pending on it; reads a request, answers it, reads the
/// next.
class Server::Loop::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Loop& loop, tcp::socket socket);
  ~Connection();

  void read();
  /// The program ends: the call in flight, if any, ends as cut.
  void cut();

 private:
  void on_header(error_code error);
  void read_body();
  void on_body(error_code error);
  void on_unreadable(error_code error);
  Request request() const;
  void start(Call call);
  void watch_for_hang_up();
  void answer();
  void on_answered(error_code error);
  void finish(Ending ending);
  void reset();
  void close();
  void close_after_reading();

  Loop& loop_;
  beast::tcp_stream stream_;
  asio::steady_timer timer_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  http::response<http::string_body> response_;
  std::optional<Call> call_;  // From the arrival of a request to the end of its answer.
  bool waiting_ = false;      // The answer's time has not come yet.
  std::size_t discarded_ = 0;
};

Server::Loop::Connection::Connection(Loop& loop, tcp::socket socket)
    : loop_(loop), stream_(std::move(socket)), timer_(stream_.get_executor()) {
  loop_.connections_.insert(this);
  loop_.upstream_.connection_opened();
}

Server::Loop::Connection::~Connection() {
  loop_.connections_.erase(this);
  loop_.upstream_.connection_closed();
}

void Server::Loop::Connection::read() {
  parser_.emplace();
  parser_->header_limit(kHeaderBytesMax);
  parser_->body_limit(loop_.options_.body_bytes_max);
  stream_.expires_after(kIdleTime);
  http::async_read_header(
      stream_, buffer_, *parser_,
      [self = shared_from_this()](error_code error, std::size_t) { self->on_header(error); });
}

void Server::Loop::Connection::on_header(error_code error) {
  if (error) return on_unreadable(error);
  if (!beast::iequals(parser_->get()[http::field::expect], "100-continue")) return read_body();
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(stream_, asio::buffer(kContinue),
                    [self = shared_from_this()](error_code failed, std::size_t) {
                      if (!failed) self->read_body();
                    });
}

void Server::Loop::Connection::read_body() {
  http::async_read(stream_, buffer_, *parser_,
                   [self = shared_from_this()](error_code error, std::size_t) { self->on_body(error); });
}

void Server::Loop::Connection::on_body(error_code error) {
  if (error) return on_unreadable(error);
  start(loop_.upstream_.receive(request(), Clock::now()));
}

void Server::Loop::Connection::on_unreadable(error_code error) {
  if (error == http::error::body_limit) {
    start(loop_.upstream_.receive_oversized(request(), loop_.options_.body_bytes_max, Clock::now()));
  } else if (error.category() == make_error_code(http::error::bad_method).category() &&
             error != http::error::end_of_stream && error != http::error::partial_message) {
    start(loop_.upstream_.receive_malformed(Clock::now()));
  }
  // Otherwise the client left or fell silent; letting go of the last reference closes the connection.
}

Request Server::Loop::Connection::request() const {
  const auto& message = parser_->get();
  return {.method = view(message.method_string()),
          .target = view(message.target()),
          .authorization = view(message[http::field::authorization]),
          .job = view(message["x-lanemq-job"]),
          .body = message.body()};
}

void Server::Loop::Connection::start(Call call) {
  call_ = std::move(call);
  if (call_->delay == Duration::zero()) return answer();
  waiting_ = true;
  timer_.expires_at(call_->arrived + call_->delay);
  timer_.async_wait([self = shared_from_this()](error_code error) {
    if (error || !self->waiting_) return;
    self->waiting_ = false;
    self->stream_.socket().cancel();  // Ends watch_for_hang_up().
    self->answer();
  });
  watch_for_hang_up();
}

void Server::Loop::Connection::watch_for_hang_up() {
  stream_.socket().async_wait(tcp::socket::wait_read, [self = shared_from_this()](error_code error) {
    if (error || !self->waiting_) return;
    char byte = 0;
    self->stream_.socket().receive(asio::buffer(&byte, 1), tcp::socket::message_peek, error);
    if (!error) return;  // The next request, sent early: it stays where it is until its turn.
    self->waiting_ = false;
    self->timer_.cancel();
    self->finish(Ending::hung_up);
  });
}

void Server::Loop::Connection::answer() {
  if (call_->fault == Fault::stall) {
    finish(Ending::answered);
    return close();
  }
  Reply& reply = call_->reply;
  // A request that was not read to its end leaves bytes that nobody can interpret.
  const bool keep_alive = parser_->is_done() && parser_->get().keep_alive();
  const std::size_t whole = reply.body.size();
  if (call_->fault == Fault::reset || call_->fault == Fault::half) reply.body.resize(whole / 2);
  response_ = {static_cast<http::status>(reply.status), 11};
  response_.set(http::field::server, "lanemq-upstream");
  response_.set(http::field::content_type, "application/json");
  for (const auto& [name, value] : reply.headers)
    response_.set(name, value);
  response_.keep_alive(keep_alive);
  response_.content_length(whole);
  response_.body() = std::move(reply.body);
  stream_.expires_after(kIdleTime);
  http::async_write(stream_, response_,
                    [self = shared_from_this()](error_code error, std::size_t) { self->on_answered(error); });
}

void Server::Loop::Connection::on_answered(error_code error) {
  const Fault fault = call_->fault;
  finish(error ? Ending::hung_up : Ending::answered);
  if (error) return;
  if (fault == Fault::reset) return reset();
  if (fault == Fault::half) return close();
  if (!parser_->is_done()) return close_after_reading();
  response_.keep_alive() ? read() : close();
}

void Server::Loop::Connection::finish(Ending ending) {
  loop_.upstream_.finish(*call_, ending, Clock::now());
  call_.reset();
}

void Server::Loop::Connection::cut() {
  if (call_) finish(Ending::cut);
}

void Server::Loop::Connection::reset() {
  error_code ignored;
  stream_.socket().set_option(asio::socket_base::linger(true, 0), ignored);
  stream_.socket().close(ignored);
}

void Server::Loop::Connection::close() {
  error_code ignored;
  stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
}

void Server::Loop::Connection::close_after_reading() {
  // Closing while the client still sends would reset the connection, and the client might never read the
  // refusal.
  if (discarded_ == 0) {
    close();
    stream_.expires_after(kDiscardTime);
  }
  buffer_.clear();
  stream_.async_read_some(buffer_.prepare(64 << 10),
                          [self = shared_from_this()](error_code error, std::size_t bytes) {
                            self->discarded_ += bytes;
                            if (!error && self->discarded_ < kDiscardBytesMax) self->close_after_reading();
                          });
}

Server::Loop::Loop(Upstream& upstream, CallLog* log, const ServerOptions& options)
    : upstream_(upstream), log_(log), options_(options) {
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
  if (connections_.size() < options_.connections_max) {
    socket.set_option(tcp::no_delay(true), error);
    std::make_shared<Connection>(*this, std::move(socket))->read();
  } else {
    upstream_.connection_refused();
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
  for (Connection* connection : connections_)
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
