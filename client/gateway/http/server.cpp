// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/http/server.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <deque>
#include <exception>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <unordered_set>
#include <utility>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <netinet/tcp.h>
#include <sys/resource.h>

namespace lanemq::gateway {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using std::chrono::milliseconds;
using tcp = asio::ip::tcp;
using TimePoint = Loop::TimePoint;

/// Files beside the connections: standard streams, epoll, the broker's connection, files of batches.
constexpr std::size_t kFilesBeside = 256;
constexpr milliseconds kSweepEvery{250};  ///< how late a timeout of a connection may be
constexpr milliseconds kAcceptPause{50};  ///< when the system has no file for another connection
constexpr std::size_t kReadBytes = 4096;  ///< what is read while nothing larger is expected
constexpr std::size_t kBodyReadBytes = std::size_t{64} * 1024;
constexpr std::size_t kAheadBytesMax = std::size_t{64} * 1024;  ///< read of what a caller sends ahead
/// What a refused sender may still send until it has read why.
constexpr std::size_t kDiscardBytesMax = std::size_t{8} * 1024 * 1024;
constexpr milliseconds kDiscardTime{2'000};
constexpr std::size_t kBuffersPerWrite = 48;
constexpr int kProbeAfterSeconds = 60;  ///< of silence, whether a peer's machine is still there

std::string_view view(beast::string_view text) {
  return {text.data(), text.size()};
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[64];
  return {text, std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts)};
}

/// A value with a line end could forge headers.
void append_clean(std::string& out, std::string_view value) {
  for (const char c : value)
    if (c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F)) out += c;
}

/// Bytes of requests' bodies, shared with bodies that are let go of on other threads.
using BodyBytes = std::shared_ptr<std::atomic<std::size_t>>;

/// A body that gives its bytes back when nobody needs it any more.
struct HeldBody {
  HeldBody(std::string body, BodyBytes bytes, std::size_t counted)
      : text(std::move(body)), total(std::move(bytes)), held(counted) {}
  ~HeldBody() { total->fetch_sub(held, std::memory_order_relaxed); }
  HeldBody(const HeldBody&) = delete;
  HeldBody& operator=(const HeldBody&) = delete;

  std::string text;
  BodyBytes total;
  std::size_t held;
};

class AsioTimer final : public Loop::Timer {
 public:
  explicit AsioTimer(asio::io_context& context) : state_(std::make_shared<State>(context)) {}
  ~AsioTimer() override { cancel(); }

  void after(milliseconds pause, std::function<void()> then) override {
    const std::uint64_t turn = ++state_->turn;
    state_->then = std::move(then);
    state_->timer.expires_after(pause);
    // An expiry that is on its way when the timer is set anew is told by its turn.
    state_->timer.async_wait([state = state_, turn](error_code error) {
      if (error || turn != state->turn) return;
      const std::function<void()> due = std::exchange(state->then, nullptr);
      if (due) due();
    });
  }
  void cancel() override {
    ++state_->turn;
    state_->then = nullptr;
    state_->timer.cancel();
  }

 private:
  struct State {
    explicit State(asio::io_context& context) : timer(context) {}
    asio::steady_timer timer;
    std::uint64_t turn = 0;
    std::function<void()> then;
  };
  std::shared_ptr<State> state_;
};

/// A piece on its way out: what is around it, and whom to tell.
struct Piece {
  std::string head{};
  Blob bytes{};
  std::string_view tail{};
  std::function<void()> written{};

  std::size_t size() const { return head.size() + bytes.size() + tail.size(); }
};

}  // namespace

/// Everything that has to do with sockets.
class HttpServer::Core : public std::enable_shared_from_this<HttpServer::Core> {
 public:
  Core(ServerOptions options, const Router& router, RefusalAnswer refusal_answer);

  void listen();
  void accept();
  void sweep_later();
  void await_signal();
  void close_all();

  class Exchange;
  class Connection;

  const ServerOptions options;
  const Router& router;
  const RefusalAnswer refusal_answer;
  std::unordered_set<Connection*> connections;  // outlives the context, which ends them
  std::map<std::string, std::size_t> per_address;
  std::function<void()> on_stop, on_reload;
  BodyBytes body_bytes = std::make_shared<std::atomic<std::size_t>>(0);
  ServerCounters counters;
  std::size_t busy = 0;
  bool draining = false;
  std::string date = http_date();
  asio::io_context context{1};
  tcp::acceptor acceptor{context};

 private:
  void on_accept(error_code error, tcp::socket socket);
  bool take_address(const std::string& address);
  /// Held, as closing one may end it.
  std::vector<std::shared_ptr<Connection>> held_connections() const;

  asio::steady_timer accept_pause_{context}, sweep_timer_{context};
  asio::signal_set signals_{context, SIGTERM, SIGINT, SIGHUP};
};

/// One connection: reads a request, lets it be answered, reads the next. Kept alive by what is pending on it
/// and by the exchange.
class HttpServer::Core::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Core& core, tcp::socket socket, std::string address);
  ~Connection();

  void start();
  void sweep(TimePoint now);
  void end() { caller_is_gone(); }

 private:
  friend class Exchange;
  using Parser = http::request_parser<http::string_body>;

  // Reading.
  void read_ahead();
  void on_read_ahead(error_code error, std::size_t bytes);
  void read_header();
  void on_header(error_code error);
  void read_body();
  void on_body_part(error_code error);
  bool count_body();
  HttpRequest parsed_request() const;
  void dispatch();
  void refuse(Refusal refusal, std::string_view detail);
  void on_unreadable(error_code error);

  // Answering.
  void send_head(int status, const Headers& headers, std::optional<std::size_t> length);
  void send(Piece piece);
  void write_more();
  void on_written(error_code error, std::size_t bytes);
  void exchange_over();
  void next_request();
  void caller_is_gone();
  void close();
  void close_after_reading();
  void discard();

  const std::shared_ptr<Core> owner_;
  Core& core_;
  tcp::socket socket_;
  const std::string address_;
  beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  HttpRequest request_;
  const Route* route_ = nullptr;
  std::weak_ptr<Exchange> exchange_;
  std::size_t body_held_ = 0;
  std::size_t discarded_ = 0;

  bool reading_ahead_ = false;
  bool exchanging_ = false;  ///< a request is with its handler, or its answer on its way
  bool answered_ = false;    ///< its answer is all in out_
  bool keep_alive_ = true;
  bool chunked_ = false;  ///< the answer's pieces are framed
  bool http_1_0_ = false, head_only_ = false;
  bool body_unread_ = false;  ///< the request's body was not read to its end
  bool peer_closed_ = false;  ///< nothing more will come
  bool closing_ = false;      ///< the answer is out, the rest is read and forgotten
  bool closed_ = false;
  bool cut_ = false;

  std::deque<Piece> out_;
  std::size_t out_offset_ = 0;  ///< of the first, what is written
  bool writing_ = false;

  TimePoint read_due_ = TimePoint::max(), write_due_ = TimePoint::max(), body_due_ = TimePoint::max();
};

/// The way back of the request that its connection has now.
class HttpServer::Core::Exchange final : public Responder {
 public:
  explicit Exchange(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}

  ~Exchange() override { fail("the gateway forgot the request"); }

  /// Ends what the handler left open.
  void fail(std::string_view detail) {
    if (over_ || gone_) return;
    if (begun_) return cut();
    answer(connection_->core_.refusal_answer(Refusal::failed, connection_->request_, detail));
  }

  void answer(HttpAnswer answer) override {
    if (over_ || gone_) return;
    over_ = true;
    forget_callback();
    const std::size_t length = answer.body.size();
    connection_->send_head(answer.status, answer.headers, length);
    if (!connection_->head_only_ && length > 0) connection_->send({.bytes = std::move(answer.body)});
    finish();
  }

  void begin(int status, Headers headers) override {
    if (over_ || gone_) return;
    begun_ = true;
    connection_->send_head(status, headers, std::nullopt);
  }

  void write(Blob bytes, std::function<void()> written) override {
    if (over_ || gone_) return;
    Piece piece{.bytes = bytes.owned(), .written = std::move(written)};
    if (bytes.empty() || connection_->head_only_) {
      piece.bytes = {};
    } else if (connection_->chunked_) {
      char size[24];
      piece.head.assign(size,
                        static_cast<std::size_t>(std::snprintf(size, sizeof size, "%zx\r\n", bytes.size())));
      piece.tail = "\r\n";
    }
    connection_->send(std::move(piece));
  }

  void end() override {
    if (over_ || gone_) return;
    over_ = true;
    forget_callback();
    if (connection_->chunked_ && !connection_->head_only_) connection_->send({.head = "0\r\n\r\n"});
    finish();
  }

  void cut() override {
    if (over_ || gone_) return;
    over_ = true;
    forget_callback();
    connection_->keep_alive_ = false;
    connection_->cut_ = true;
    finish();
  }

  void on_gone(std::function<void()> gone) override {
    if (over_) return;
    if (gone_) {
      if (gone) gone();
      return;
    }
    gone_callback_ = std::move(gone);
  }
  bool gone() const override { return gone_; }

  void caller_is_gone() {
    if (over_ || gone_) return;
    gone_ = true;
    const std::function<void()> callback = std::exchange(gone_callback_, nullptr);
    if (callback) callback();
  }

 private:
  void finish() { connection_->exchange_over(); }

  /// Later: who answers may live by this callback alone.
  void forget_callback() {
    if (gone_callback_)
      asio::post(connection_->core_.context, [forgotten = std::exchange(gone_callback_, nullptr)] {});
  }

  std::shared_ptr<Connection> connection_;
  std::function<void()> gone_callback_;
  bool begun_ = false, over_ = false, gone_ = false;
};

// ---- reading ------------------------------------------------------------------------------------------

HttpServer::Core::Connection::Connection(Core& core, tcp::socket socket, std::string address)
    : owner_(core.shared_from_this()),
      core_(core),
      socket_(std::move(socket)),
      address_(std::move(address)),
      buffer_(core.options.header_bytes_max + kAheadBytesMax) {
  core_.connections.insert(this);
  core_.counters.connections = core_.connections.size();
  error_code ignored;
  socket_.set_option(tcp::no_delay(true), ignored);
  socket_.set_option(asio::socket_base::keep_alive(true), ignored);
  socket_.set_option(asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPIDLE>(kProbeAfterSeconds),
                     ignored);
}

HttpServer::Core::Connection::~Connection() {
  core_.connections.erase(this);
  core_.counters.connections = core_.connections.size();
  core_.body_bytes->fetch_sub(body_held_, std::memory_order_relaxed);
  const auto at = core_.per_address.find(address_);
  if (at != core_.per_address.end() && --at->second == 0) core_.per_address.erase(at);
}

void HttpServer::Core::Connection::start() {
  read_due_ = std::chrono::steady_clock::now() + core_.options.header_timeout;
  read_ahead();
}

/// Reads whatever comes: the first bytes of a request, or, while one is worked on, what is sent ahead or the
/// end of the connection.
void HttpServer::Core::Connection::read_ahead() {
  if (reading_ahead_ || closed_ || peer_closed_ || buffer_.size() >= kAheadBytesMax) return;
  reading_ahead_ = true;
  socket_.async_read_some(buffer_.prepare(kReadBytes),
                          [self = shared_from_this()](error_code error, std::size_t bytes) {
                            self->on_read_ahead(error, bytes);
                          });
}

void HttpServer::Core::Connection::on_read_ahead(error_code error, std::size_t bytes) {
  reading_ahead_ = false;
  buffer_.commit(bytes);
  if (closed_) return;
  if (closing_) return error ? close() : discard();
  // Broken off by next_request(): what came before is there.
  if (error == asio::error::operation_aborted) return read_header();
  if (error) {
    peer_closed_ = true;
    if (!exchanging_) return close();
    if (!answered_) caller_is_gone();
    return;
  }
  if (exchanging_) return read_ahead();
  read_header();
}

void HttpServer::Core::Connection::read_header() {
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(core_.options.header_bytes_max));
  // What a route allows is known when the header is.
  parser_->body_limit(std::numeric_limits<std::uint64_t>::max());
  request_ = HttpRequest{};
  request_.peer = address_;
  route_ = nullptr;
  keep_alive_ = true;
  body_unread_ = http_1_0_ = head_only_ = false;
  read_due_ = std::chrono::steady_clock::now() + core_.options.header_timeout;
  http::async_read_header(
      socket_, buffer_, *parser_,
      [self = shared_from_this()](error_code error, std::size_t) { self->on_header(error); });
}

HttpRequest HttpServer::Core::Connection::parsed_request() const {
  const auto& message = parser_->get();
  HttpRequest request;
  request.method = view(message.method_string());
  request.peer = address_;
  std::string_view target = view(message.target());
  if (target.starts_with("http://") || target.starts_with("https://")) {
    target.remove_prefix(target.find("//") + 2);
    const std::size_t path = target.find('/');
    target = path == std::string_view::npos ? std::string_view("/") : target.substr(path);
  }
  const std::size_t mark = std::min(target.find('?'), target.size());
  request.path = target.substr(0, mark);
  request.query = target.substr(std::min(target.size(), mark + 1));
  for (const auto& field : message)
    request.headers.add(lower(view(field.name_string())), std::string(view(field.value())));
  return request;
}

void HttpServer::Core::Connection::on_header(error_code error) {
  if (closed_) return;
  if (error) return on_unreadable(error);
  ++core_.counters.requests;
  request_ = parsed_request();
  http_1_0_ = parser_->get().version() < 11;
  head_only_ = request_.method == "HEAD";
  keep_alive_ = parser_->get().keep_alive() && !core_.draining;
  body_unread_ = !parser_->is_done();
  const Router::Found found = core_.router.find(request_);
  route_ = found.route;
  if (!route_) {
    if (request_.method == "OPTIONS" && (!found.allowed.empty() || request_.path == "*")) {
      const auto exchange = std::make_shared<Exchange>(shared_from_this());
      exchange_ = exchange;
      exchanging_ = true;
      ++core_.busy;
      if (body_unread_) keep_alive_ = false;
      exchange->answer({.status = 204, .headers = {{"allow", found.allowed + ", OPTIONS"}}, .body = {}});
      return;
    }
    if (found.allowed.empty())
      return refuse(Refusal::not_found, "there is nothing at " + request_.method + " " + request_.path);
    return refuse(Refusal::method_not_allowed,
                  request_.path + " takes " + found.allowed + ", not " + request_.method);
  }
  const std::size_t limit = route_->body_bytes_max ? route_->body_bytes_max : core_.options.body_bytes_max;
  const auto length = parser_->content_length();
  if (length && *length > limit)
    return refuse(Refusal::body_too_large, "the body has " + std::to_string(*length) +
                                               " bytes, the limit is " + std::to_string(limit) +
                                               " (body_bytes_max)");
  parser_->body_limit(limit);
  if (parser_->is_done()) return dispatch();
  const auto now = std::chrono::steady_clock::now();
  read_due_ = now + core_.options.body_idle_timeout;
  body_due_ = now + core_.options.body_timeout;
  if (lower(request_.headers.get("expect")) != "100-continue") return read_body();
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(socket_, asio::buffer(kContinue),
                    [self = shared_from_this()](error_code failed, std::size_t) {
                      failed ? self->close() : self->read_body();
                    });
}

void HttpServer::Core::Connection::read_body() {
  const auto length = parser_->content_length();
  buffer_.reserve(length ? std::min<std::size_t>(*length + kReadBytes, kBodyReadBytes) : kBodyReadBytes);
  http::async_read_some(
      socket_, buffer_, *parser_,
      [self = shared_from_this()](error_code error, std::size_t) { self->on_body_part(error); });
}

/// Counts what was read of the body; false: there is no room for it.
bool HttpServer::Core::Connection::count_body() {
  const std::size_t bytes = parser_->get().body().size();
  if (bytes <= body_held_) return true;
  const std::size_t more = bytes - body_held_;
  const std::size_t before = core_.body_bytes->fetch_add(more, std::memory_order_relaxed);
  body_held_ = bytes;
  return before + more <= core_.options.bodies_bytes_max;
}

void HttpServer::Core::Connection::on_body_part(error_code error) {
  if (closed_) return;
  if (error) return on_unreadable(error);
  if (!count_body())
    return refuse(Refusal::out_of_memory, "the gateway holds " +
                                              std::to_string(core_.options.bodies_bytes_max) +
                                              " bytes of requests (bodies_bytes_max); try again later");
  if (parser_->is_done()) {
    body_unread_ = false;
    return dispatch();
  }
  read_due_ = std::chrono::steady_clock::now() + core_.options.body_idle_timeout;
  read_body();
}

void HttpServer::Core::Connection::on_unreadable(error_code error) {
  if (error == http::error::header_limit)
    return refuse(Refusal::header_too_large, "the header has over " +
                                                 std::to_string(core_.options.header_bytes_max) +
                                                 " bytes (header_bytes_max)");
  if (error == http::error::body_limit) {
    const std::size_t limit =
        route_ && route_->body_bytes_max ? route_->body_bytes_max : core_.options.body_bytes_max;
    body_unread_ = true;
    return refuse(Refusal::body_too_large,
                  "the body has over " + std::to_string(limit) + " bytes (body_bytes_max)");
  }
  const bool left = error.category() != make_error_code(http::error::bad_method).category() ||
                    error == http::error::end_of_stream || error == http::error::partial_message;
  if (left) return close();
  ++core_.counters.bad_requests;
  refuse(Refusal::bad_request, "this is no HTTP request that can be read: " + error.message());
}

void HttpServer::Core::Connection::dispatch() {
  read_due_ = body_due_ = TimePoint::max();
  std::string text = std::move(parser_->get().body());
  if (!text.empty()) {
    count_body();
    auto held = std::make_shared<HeldBody>(std::move(text), core_.body_bytes, std::exchange(body_held_, 0));
    const std::string_view bytes = held->text;
    request_.body = Blob::own(std::move(held), bytes);
  }
  parser_.reset();
  exchanging_ = true;
  answered_ = chunked_ = false;
  ++core_.busy;
  const auto exchange = std::make_shared<Exchange>(shared_from_this());
  exchange_ = exchange;
  // What a refusal needs is kept: the handler has the rest.
  HttpRequest request = std::move(request_);
  request_ = HttpRequest{};
  request_.method = request.method;
  request_.path = request.path;
  request_.anthropic_prefix = request.anthropic_prefix;
  if (const std::string* version = request.headers.find("anthropic-version"))
    request_.headers.add("anthropic-version", *version);
  try {
    route_->handler(std::move(request), exchange);
  } catch (const std::exception& error) {
    exchange->fail(error.what());
  }
  if (buffer_.size() == 0 && buffer_.capacity() > 2 * kReadBytes) buffer_.shrink_to_fit();
  read_ahead();
}

void HttpServer::Core::Connection::refuse(Refusal refusal, std::string_view detail) {
  read_due_ = body_due_ = TimePoint::max();
  // Where a request ends that cannot be read, nobody knows.
  if (body_unread_ || refusal == Refusal::header_too_large || refusal == Refusal::bad_request)
    keep_alive_ = false;
  exchanging_ = true;
  answered_ = chunked_ = false;
  ++core_.busy;
  const auto exchange = std::make_shared<Exchange>(shared_from_this());
  exchange_ = exchange;
  exchange->answer(core_.refusal_answer(refusal, request_, detail));
}

// ---- answering ----------------------------------------------------------------------------------------

void HttpServer::Core::Connection::send_head(int status, const Headers& headers,
                                             std::optional<std::size_t> length) {
  std::string head = "HTTP/1.1 " + std::to_string(status) + " ";
  head.append(reason_phrase(status)).append("\r\ndate: ").append(core_.date).append("\r\n");
  for (const auto& [name, value] : headers) {
    append_clean(head, name);
    head += ": ";
    append_clean(head, value);
    head += "\r\n";
  }
  chunked_ = !length && !http_1_0_;
  if (!length && http_1_0_) keep_alive_ = false;
  if (chunked_) head += "transfer-encoding: chunked\r\n";
  if (length && status != 204) head += "content-length: " + std::to_string(*length) + "\r\n";
  if (!keep_alive_)
    head += "connection: close\r\n";
  else if (http_1_0_)
    head += "connection: keep-alive\r\n";
  head += "\r\n";
  send({.head = std::move(head)});
}

void HttpServer::Core::Connection::send(Piece piece) {
  if (closed_) return;
  out_.push_back(std::move(piece));
  if (writing_) return;
  writing_ = true;
  // What the same turn of the loop adds goes along.
  asio::post(core_.context, [self = shared_from_this()] { self->write_more(); });
}

void HttpServer::Core::Connection::write_more() {
  if (closed_) return;
  std::array<asio::const_buffer, kBuffersPerWrite> buffers;
  std::size_t count = 0, skip = out_offset_;
  for (const Piece& piece : out_) {
    for (std::string_view part : {std::string_view(piece.head), piece.bytes.bytes(), piece.tail}) {
      const std::size_t skipped = std::min(skip, part.size());
      skip -= skipped;
      part.remove_prefix(skipped);
      if (!part.empty() && count < buffers.size()) buffers[count++] = asio::buffer(part.data(), part.size());
    }
    if (count == buffers.size()) break;
  }
  write_due_ = std::chrono::steady_clock::now() + core_.options.write_timeout;
  const std::vector<asio::const_buffer> gathered(buffers.begin(),
                                                 buffers.begin() + static_cast<std::ptrdiff_t>(count));
  socket_.async_write_some(gathered, [self = shared_from_this()](error_code error, std::size_t bytes) {
    self->on_written(error, bytes);
  });
}

void HttpServer::Core::Connection::on_written(error_code error, std::size_t bytes) {
  if (closed_) return;
  if (error) return caller_is_gone();
  out_offset_ += bytes;
  while (!out_.empty() && out_offset_ >= out_.front().size()) {
    out_offset_ -= out_.front().size();
    const std::function<void()> written = std::move(out_.front().written);
    out_.pop_front();
    if (written) written();
    if (closed_) return;
  }
  if (!out_.empty()) return write_more();
  writing_ = false;
  write_due_ = TimePoint::max();
  if (exchanging_ && answered_) next_request();
}

void HttpServer::Core::Connection::exchange_over() {
  answered_ = true;
  if (!closed_ && !writing_ && out_.empty()) next_request();
}

/// The answer has left.
void HttpServer::Core::Connection::next_request() {
  exchanging_ = false;
  --core_.busy;
  if (cut_) return close();
  if (!keep_alive_) return close_after_reading();
  read_due_ = std::chrono::steady_clock::now() + core_.options.idle_timeout;
  if (buffer_.size() > 0) {
    if (reading_ahead_) return socket_.cancel();
    // Not from inside this call: a caller that sends much ahead would make the stack grow.
    asio::post(core_.context, [self = shared_from_this()] {
      if (!self->closed_) self->read_header();
    });
    return;
  }
  if (peer_closed_) return close();
  read_ahead();
}

void HttpServer::Core::Connection::caller_is_gone() {
  if (closed_) return;
  ++core_.counters.hang_ups;
  const std::shared_ptr<Exchange> exchange = exchange_.lock();
  close();
  if (exchange) exchange->caller_is_gone();
}

void HttpServer::Core::Connection::close() {
  if (std::exchange(closed_, true)) return;
  if (std::exchange(exchanging_, false)) --core_.busy;
  read_due_ = write_due_ = body_due_ = TimePoint::max();
  out_.clear();
  error_code ignored;
  socket_.close(ignored);
}

/// Closing while the caller still sends would reset the connection, and it might never read the refusal.
void HttpServer::Core::Connection::close_after_reading() {
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  read_due_ = std::chrono::steady_clock::now() + kDiscardTime;
  parser_.reset();
  closing_ = true;
  if (peer_closed_) return close();
  if (!reading_ahead_) discard();
}

void HttpServer::Core::Connection::discard() {
  buffer_.clear();
  socket_.async_read_some(buffer_.prepare(kBodyReadBytes),
                          [self = shared_from_this()](error_code error, std::size_t bytes) {
                            self->discarded_ += bytes;
                            if (error || self->closed_ || self->discarded_ >= kDiscardBytesMax)
                              return self->close();
                            self->discard();
                          });
}

void HttpServer::Core::Connection::sweep(TimePoint now) {
  if (now >= write_due_) {
    ++core_.counters.timeouts;
    return caller_is_gone();
  }
  if (now < read_due_ && now < body_due_) return;
  ++core_.counters.timeouts;
  close();
}

// ---- the listener -------------------------------------------------------------------------------------

HttpServer::Core::Core(ServerOptions server_options, const Router& routes, RefusalAnswer answer)
    : options(std::move(server_options)), router(routes), refusal_answer(std::move(answer)) {}

void HttpServer::Core::listen() {
  error_code error;
  const auto address = asio::ip::make_address(options.address, error);
  if (error)
    throw std::runtime_error("cannot listen on \"" + options.address +
                             "\": give a numeric address, like 127.0.0.1 or ::1");
  const tcp::endpoint endpoint(address, options.port);
  try {
    acceptor.open(endpoint.protocol());
    acceptor.set_option(tcp::acceptor::reuse_address(true));
    acceptor.bind(endpoint);
    acceptor.listen(tcp::acceptor::max_listen_connections);
  } catch (const boost::system::system_error& failed) {
    throw std::runtime_error("cannot listen on " + options.address + ":" + std::to_string(options.port) +
                             ": " + failed.code().message() +
                             "; choose another address, or port 0 for a free one");
  }
}

void HttpServer::Core::accept() {
  acceptor.async_accept(
      [this](error_code error, tcp::socket socket) { on_accept(error, std::move(socket)); });
}

bool HttpServer::Core::take_address(const std::string& address) {
  if (options.connections_per_address_max >= options.connections_max) return true;
  std::size_t& count = per_address[address];
  if (count >= options.connections_per_address_max) return false;
  ++count;
  return true;
}

void HttpServer::Core::on_accept(error_code error, tcp::socket socket) {
  if (error == asio::error::operation_aborted || draining) return;
  if (error) {
    // Out of files, most likely; trying again at once would spin.
    accept_pause_.expires_after(kAcceptPause);
    accept_pause_.async_wait([this](error_code stopped) {
      if (!stopped && !draining) accept();
    });
    return;
  }
  const tcp::endpoint peer = socket.remote_endpoint(error);
  const std::string address = error ? std::string() : peer.address().to_string();
  if (connections.size() < options.connections_max && take_address(address)) {
    ++counters.accepted;
    std::make_shared<Connection>(*this, std::move(socket), address)->start();
  } else {
    ++counters.refused;
  }
  accept();
}

void HttpServer::Core::sweep_later() {
  sweep_timer_.expires_after(kSweepEvery);
  sweep_timer_.async_wait([this](error_code error) {
    if (error) return;
    date = http_date();
    const TimePoint now = std::chrono::steady_clock::now();
    for (const std::shared_ptr<Connection>& connection : held_connections())
      connection->sweep(now);
    sweep_later();
  });
}

void HttpServer::Core::await_signal() {
  signals_.async_wait([this](error_code error, int number) {
    if (error) return;
    number == SIGHUP ? on_reload() : on_stop();
    await_signal();
  });
}

/// What is still open ends as if its caller had gone.
void HttpServer::Core::close_all() {
  draining = true;
  error_code ignored;
  acceptor.close(ignored);
  signals_.cancel(ignored);
  sweep_timer_.cancel();
  accept_pause_.cancel();
  for (const std::shared_ptr<Connection>& connection : held_connections())
    connection->end();
  context.restart();
  context.poll();
}

std::vector<std::shared_ptr<HttpServer::Core::Connection>> HttpServer::Core::held_connections() const {
  std::vector<std::shared_ptr<Connection>> held;
  held.reserve(connections.size());
  for (Connection* connection : connections)
    if (std::shared_ptr<Connection> alive = connection->weak_from_this().lock())
      held.push_back(std::move(alive));
  return held;
}

// ---- the face -----------------------------------------------------------------------------------------

std::size_t reserve_connections(std::size_t wanted) {
  const rlim_t needed = wanted + kFilesBeside;
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur >= needed) return wanted;
  const rlim_t granted = std::min(files.rlim_max, needed);
  if (granted <= kFilesBeside)
    throw std::runtime_error("the system grants " + std::to_string(files.rlim_max) +
                             " open files, and this takes over " + std::to_string(kFilesBeside) +
                             "; raise the limit (ulimit -Hn, LimitNOFILE=)");
  files.rlim_cur = granted;
  ::setrlimit(RLIMIT_NOFILE, &files);
  return granted - kFilesBeside;
}

HttpServer::HttpServer(ServerOptions options, const Router& router, RefusalAnswer refusal_answer)
    : core_(std::make_shared<Core>(std::move(options), router, std::move(refusal_answer))) {
  core_->listen();
}

HttpServer::~HttpServer() = default;

std::uint16_t HttpServer::port() const {
  return core_->acceptor.local_endpoint().port();
}

void HttpServer::run(std::function<void()> on_stop, std::function<void()> on_reload) {
  core_->on_stop = std::move(on_stop);
  core_->on_reload = std::move(on_reload);
  core_->await_signal();
  core_->sweep_later();
  core_->accept();
  core_->context.run();
  core_->close_all();
}

void HttpServer::drain() {
  core_->draining = true;
  error_code ignored;
  core_->acceptor.close(ignored);
}

std::size_t HttpServer::busy() const {
  return core_->busy;
}

void HttpServer::stop() {
  core_->context.stop();
}

void HttpServer::post(std::function<void()> work) {
  asio::post(core_->context, std::move(work));
}

std::unique_ptr<Loop::Timer> HttpServer::timer() {
  return std::make_unique<AsioTimer>(core_->context);
}

Loop::TimePoint HttpServer::now() const {
  return std::chrono::steady_clock::now();
}

ServerCounters HttpServer::counters() const {
  ServerCounters counters = core_->counters;
  counters.body_bytes = core_->body_bytes->load(std::memory_order_relaxed);
  return counters;
}

}  // namespace lanemq::gateway
