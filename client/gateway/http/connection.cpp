// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/http/connection.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <exception>
#include <limits>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>
#include <netinet/tcp.h>

namespace lanemq::gateway {
namespace {

using std::chrono::milliseconds;

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

/// A value with a line end could forge headers.
void append_clean(std::string& out, std::string_view value) {
  for (const char c : value)
    if (c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F)) out += c;
}

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

/// What one call of the system writes.
class Gathered {
 public:
  void add(std::string_view part) {
    if (!part.empty() && !full()) buffers_[count_++] = asio::buffer(part.data(), part.size());
  }
  bool full() const { return count_ == buffers_.size(); }

  const asio::const_buffer* begin() const { return buffers_.data(); }
  const asio::const_buffer* end() const { return buffers_.data() + count_; }

 private:
  std::array<asio::const_buffer, kBuffersPerWrite> buffers_;
  std::size_t count_ = 0;
};

}  // namespace

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
  socket_.non_blocking(true, ignored);
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
  core_.write_soon(shared_from_this());  // what the same turn of the loop adds goes along
}

/// Writes what the system takes at once. One call at a time, so that who reads fast leaves time to others.
void HttpServer::Core::Connection::write_some() {
  if (closed_) return;
  Gathered gathered;
  std::size_t skip = out_offset_;
  for (const Piece& piece : out_) {
    for (std::string_view part : {std::string_view(piece.head), piece.bytes.bytes(), piece.tail}) {
      const std::size_t skipped = std::min(skip, part.size());
      skip -= skipped;
      part.remove_prefix(skipped);
      gathered.add(part);
    }
    if (gathered.full()) break;
  }
  error_code error;
  const std::size_t bytes = socket_.write_some(gathered, error);
  if (error == asio::error::would_block) return wait_to_write();
  if (error) return caller_is_gone();
  note_written(bytes);
  if (closed_) return;
  if (!out_.empty()) return core_.write_soon(shared_from_this());
  writing_ = false;
  write_due_ = TimePoint::max();
  if (exchanging_ && answered_) next_request();
}

void HttpServer::Core::Connection::wait_to_write() {
  write_due_ = std::chrono::steady_clock::now() + core_.options.write_timeout;
  socket_.async_wait(tcp::socket::wait_write,
                     [self = shared_from_this()](error_code) { self->write_some(); });
}

void HttpServer::Core::Connection::note_written(std::size_t bytes) {
  out_offset_ += bytes;
  while (!out_.empty() && out_offset_ >= out_.front().size()) {
    out_offset_ -= out_.front().size();
    const std::function<void()> written = std::move(out_.front().written);
    out_.pop_front();
    if (written) written();
    if (closed_) return;
  }
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

}  // namespace lanemq::gateway
