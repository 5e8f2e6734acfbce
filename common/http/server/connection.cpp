// SPDX-License-Identifier: Apache-2.0
#include "common/http/server/connection.hpp"

#include <algorithm>
#include <iterator>

#include <boost/asio/post.hpp>

#include "common/http/server/exchange.hpp"

namespace lanemq::http {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kAheadBytesMax = std::size_t{64} * 1024;  ///< read while an earlier request is served
/// Bytes that a refused sender may still send before it reads the answer: some read nothing before they have
/// sent all. As many as a body may have elsewhere.
constexpr std::size_t kDiscardBytesMax = std::size_t{32} * 1024 * 1024;
constexpr milliseconds kDiscardTime{2'000};

bool is_clean(char c) {
  return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F);
}

/// Appends a value without line ends, which could forge headers. Nearly no value has any.
void append_clean(std::string& out, std::string_view value) {
  if (std::all_of(value.begin(), value.end(), is_clean))
    out += value;
  else
    std::copy_if(value.begin(), value.end(), std::back_inserter(out), is_clean);
}

/// The server's refusal for a reader's status.
Refusal refusal_of(int status) {
  switch (status) {
    case 413:
      return Refusal::body_too_large;
    case 414:
      return Refusal::target_too_long;
    case 417:
      return Refusal::expectation_failed;
    case 431:
      return Refusal::header_too_large;
    case 501:
      return Refusal::not_implemented;
    case 505:
      return Refusal::version_not_supported;
    default:
      return Refusal::bad_request;
  }
}

}  // namespace

HttpServer::Core::Connection::Connection(Core& core, tcp::socket socket, std::string address,
                                         std::string whose)
    : owner_(core.shared_from_this()),
      core_(core),
      wire_(std::move(socket), core.identity),
      address_(std::move(address)),
      whose_(std::move(whose)),
      progress_(core.busy),
      reader_({.head_bytes_max = core.options.header_bytes_max}),
      intake_(core.options, core.body_bytes, core.upload_bytes,
              [this](std::function<void()> work, bool is_piece) {
                if (!is_piece) return core_.aside(Loop::Side::disk, std::move(work), [] {});
                core_.aside(Loop::Side::disk, std::move(work),
                            [self = shared_from_this()] { self->guarded([&] { self->on_spooled(); }); });
              }) {
  core_.connections.insert(this);
  core_.counters.connections = core_.connections.size();
}

HttpServer::Core::Connection::~Connection() {
  handshake_.leave();
  without_head_.leave();
  core_.count_answer_bytes(-static_cast<std::ptrdiff_t>(out_.unwritten()));
  core_.connections.erase(this);
  core_.counters.connections = core_.connections.size();
  const auto at = core_.per_address.find(whose_);
  if (at != core_.per_address.end() && --at->second == 0) core_.per_address.erase(at);
}

void HttpServer::Core::Connection::start() {
  input_.due = std::chrono::steady_clock::now() + core_.options.header_timeout;
  without_head_.take(core_.before_first, this);
  if (wire_.speaks_tls()) return wait_for_handshake();
  on_readable();  // most likely the request is there already
}

// ---- TLS ----------------------------------------------------------------------------------------------

/// Waits for the peer's first bytes: until then a connection costs no memory of TLS. Handshakes take their
/// turns, since each costs a signature.
void HttpServer::Core::Connection::wait_for_handshake() {
  wire_.socket().async_wait(tcp::socket::wait_read, [self = shared_from_this()](error_code error) {
    if (error || self->progress_.is_closed()) return;
    self->core_.shake_hands_soon(self);
  });
}

/// False: what came is no TLS, and was refused.
bool HttpServer::Core::Connection::begin_encryption() {
  char room[1];
  bool ended = false;
  const std::string_view first = wire_.peek(room, ended);
  if (ended) return close(), false;
  if (first.empty()) return wait_for_handshake(), false;
  if (!begins_tls(first.front())) return refuse_unencrypted(), false;
  core_.begin_handshake(*this);
  wire_.begin_encryption();
  return true;
}

void HttpServer::Core::Connection::shake_hands() {
  if (progress_.is_closed() || (!wire_.is_encrypted() && !begin_encryption())) return;
  const auto go_on = [self = shared_from_this()](error_code error) {
    if (!error) self->guarded([&] { self->shake_hands(); });
  };
  switch (wire_.handshake()) {
    case TlsStep::wants_read:
      return wire_.socket().async_wait(tcp::socket::wait_read, go_on);
    case TlsStep::wants_write:
      return wire_.socket().async_wait(tcp::socket::wait_write, go_on);
    case TlsStep::ended:
    case TlsStep::broken:
      ++core_.counters.handshakes_failed;
      return close();
    case TlsStep::done:
      break;
  }
  ++core_.counters.handshakes;
  handshake_.leave();
  on_readable();
}

/// A caller that speaks HTTP here is told so, in its own words; whatever else it is only loses its
/// connection.
void HttpServer::Core::Connection::refuse_unencrypted() {
  ++core_.counters.handshakes_failed;
  char first[8] = {};
  bool ended = false;
  const std::string_view word = wire_.peek(first, ended).substr(0, 3);
  if (word.empty() || !std::all_of(word.begin(), word.end(), [](char c) { return c >= 'A' && c <= 'Z'; }))
    return close();
  close_after_answer();
  input_.body_unread = true;
  wait_to_read();  // what it sends is read and dropped
  refuse(Refusal::bad_request, "this port speaks TLS; use https://");
}

// ---- reading ------------------------------------------------------------------------------------------

/// Waits for data: a request, or while one is served data sent ahead, or the peer's end.
void HttpServer::Core::Connection::wait_to_read() {
  if (input_.waiting || progress_.is_closed() || input_.ended || input_.held_back) return;
  if (input_.ahead.size() >= kAheadBytesMax || intake_.disk_is_behind()) return;
  input_.waiting = true;
  if (wire_.holds_bytes())
    return asio::post(core_.context, [self = shared_from_this()] {
      self->input_.waiting = false;
      self->guarded([&] { self->on_readable(); });
    });
  wire_.socket().async_wait(tcp::socket::wait_read, [self = shared_from_this()](error_code error) {
    self->input_.waiting = false;
    if (!error) self->guarded([&] { self->on_readable(); });
  });
}

void HttpServer::Core::Connection::on_readable() {
  if (progress_.is_closed() || input_.held_back) return;
  const bool is_ahead = progress_.is_exchanging() || !input_.ahead.empty();
  const std::size_t room =
      is_ahead ? std::min(kAheadBytesMax - input_.ahead.size(), core_.scratch.size()) : core_.scratch.size();
  error_code error;
  const std::size_t size = wire_.read({core_.scratch.data(), room}, error);
  if (error && error != asio::error::would_block) return on_end_of_input();
  const std::string_view bytes(core_.scratch.data(), size);
  if (progress_.is(Phase::discarding)) {
    input_.discarded += size;
    if (input_.discarded >= kDiscardBytesMax) return close();
  } else if (is_ahead) {
    input_.ahead += bytes;
  } else if (size > 0) {
    feed(bytes);
  }
  wait_to_read();
}

void HttpServer::Core::Connection::on_end_of_input() {
  input_.ended = true;
  if (!progress_.is_exchanging()) return close();
  if (!progress_.is(Phase::answered)) caller_is_gone();
}

/// Looks for the peer's end behind what was read.
void HttpServer::Core::Connection::look_for_end() {
  if (progress_.is_closed() || !input_.ahead.empty()) return;
  if (wire_.is_encrypted()) return on_readable();  // the end stands inside TLS
  char room[1];
  bool ended = false;
  wire_.peek(room, ended);
  if (ended) on_end_of_input();
}

/// Feeds pipelined data.
void HttpServer::Core::Connection::feed_ahead() {
  if (progress_.is_closed() || progress_.is_exchanging()) return;
  const std::string bytes = std::exchange(input_.ahead, {});
  feed(bytes);
  if (input_.ended && !progress_.is_exchanging()) return close();
  wait_to_read();
}

void HttpServer::Core::Connection::feed(std::string_view bytes) {
  using Event = RequestReader::Event;
  if (reader_.idle()) input_.due = std::chrono::steady_clock::now() + core_.options.header_timeout;
  while (!progress_.is_closed() && !progress_.is_exchanging()) {
    const RequestReader::Taken taken = reader_.take(bytes);
    bytes.remove_prefix(taken.bytes);
    switch (taken.event) {
      case Event::more:
        return;
      case Event::head:
        on_head(!bytes.empty());
        break;
      case Event::body:
        input_.due = std::chrono::steady_clock::now() + core_.options.body_idle_timeout;
        if (const auto why = intake_.take(taken.piece)) refuse(why->kind, why->detail);
        break;
      case Event::end:
        input_.body_unread = false;
        input_.ahead = bytes;  // set before the handler, which may answer at once
        return end_body();
      case Event::refusal:
        return refuse_unreadable();
    }
  }
  if (after_ == After::next_request) input_.ahead = bytes;
}

/// Decides all that can be decided without the body, so that nothing is kept of an unwanted one.
void HttpServer::Core::Connection::on_head(bool body_has_come) {
  ++core_.counters.requests;
  without_head_.leave();
  const bool expects_continue = take_head();
  const Router::Found found = core_.router.find(request_);
  route_ = found.route;
  const bool is_nothing = found.allowed.empty() && !(request_.method == "OPTIONS" && request_.path == "*");
  if (core_.doorkeeper && !is_nothing)
    if (std::optional<HttpAnswer> refusal = core_.doorkeeper(request_))
      return refuse_with(std::move(*refusal));
  if (!route_) {
    if (request_.method == "OPTIONS" && !is_nothing) return answer_options(found.allowed);
    if (is_nothing)
      return refuse(Refusal::not_found, "there is nothing at " + request_.method + " " + request_.path);
    HttpAnswer answer =
        core_.refusal_answer(Refusal::method_not_allowed, request_,
                             request_.path + " takes " + found.allowed + ", not " + request_.method);
    answer.headers.set("allow", found.allowed + ", OPTIONS");  // RFC 9110, 15.5.6
    return refuse_with(std::move(answer));
  }
  // A sender that sends its body already does not wait to be told so.
  if (input_.body_unread) await_body(expects_continue && !body_has_come);
}

/// Takes the head that was read. Returns whether the sender waits to be told to send its body.
bool HttpServer::Core::Connection::take_head() {
  RequestHead head = reader_.take_head();
  framing_ = {.http_1_0 = head.http_1_0, .head_only = head.method == "HEAD"};
  after_ = head.keep_alive && !core_.draining ? After::next_request : After::discard;
  input_.body_unread = head.has_body();
  length_ = head.content_length;
  request_ = HttpRequest{};
  request_.method = std::move(head.method);
  request_.path = std::move(head.path);
  request_.query = std::move(head.query);
  request_.authority = std::move(head.authority);
  for (auto& [name, value] : head.fields)
    request_.headers.add(std::move(name), std::move(value));
  request_.headers.join();
  request_.peer = core_.options.proxies.empty() ? whose_ : core_.proxies.sender(address_, request_.headers);
  return head.expects_continue;
}

void HttpServer::Core::Connection::await_body(bool says_so) {
  std::vector<std::string> holders = {"address " + request_.peer};
  if (route_->admit) {
    tl::expected<std::string, HttpAnswer> admitted = route_->admit(request_);
    if (!admitted) return refuse_with(std::move(admitted.error()));
    if (!admitted->empty()) holders.push_back("caller " + *admitted);
  }
  const auto now = std::chrono::steady_clock::now();
  if (const auto why = intake_.begin(*route_, length_, std::move(holders), now))
    return refuse(why->kind, why->detail);
  reader_.limit_body(intake_.limit());
  progress_.enter(Phase::body);
  input_.due = now + core_.options.body_idle_timeout;
  if (says_so) send({.head = "HTTP/1.1 100 Continue\r\n\r\n"});
}

void HttpServer::Core::Connection::answer_options(const std::string& allowed) {
  if (input_.body_unread) close_after_answer();
  begin_exchange()->answer({.status = 204, .headers = {{"allow", allowed + ", OPTIONS"}}, .body = {}});
}

void HttpServer::Core::Connection::on_spooled() {
  const auto now = std::chrono::steady_clock::now();
  intake_.spooled(now);
  if (progress_.is(Phase::body)) input_.due = now + core_.options.body_idle_timeout;
  wait_to_read();
}

/// The request is complete, in memory or on its way to the disk.
void HttpServer::Core::Connection::end_body() {
  if (const auto why = intake_.end()) return refuse(why->kind, why->detail);
  if (!intake_.file()) return dispatch();
  rest();
  progress_.enter(Phase::exchange);
  auto body = std::make_shared<Blob>();
  core_.aside(
      Loop::Side::disk,
      [spool = intake_.file(), body]() mutable {
        *body = spool->look();
        spool.reset();
      },
      [self = shared_from_this(), body] { self->guarded([&] { self->take_spooled(std::move(*body)); }); });
}

void HttpServer::Core::Connection::take_spooled(Blob body) {
  if (progress_.is_closed()) return;
  if (!intake_.file()->problem().empty()) return refuse(Refusal::disk_refuses, intake_.file()->problem());
  intake_.forget_file();
  request_.body = std::move(body);
  dispatch();
}

void HttpServer::Core::Connection::refuse_unreadable() {
  const ReaderRefusal& why = reader_.refusal();
  const Refusal kind = refusal_of(why.status);
  if (kind != Refusal::body_too_large && kind != Refusal::header_too_large) ++core_.counters.bad_requests;
  close_after_answer();  // the start of the next request is not known
  if (kind == Refusal::bad_request)
    return refuse(kind, "this is no HTTP request that can be read: " + why.why);
  refuse(kind, why.why + (kind == Refusal::body_too_large ? intake_.bound() : ""));
}

/// Nothing of a request is waited for.
void HttpServer::Core::Connection::rest() {
  without_head_.leave();
  input_.due = TimePoint::max();
  intake_.rest();
}

std::shared_ptr<HttpServer::Core::Exchange> HttpServer::Core::Connection::begin_exchange() {
  rest();
  framing_.chunked = false;
  progress_.enter(Phase::exchange);
  auto exchange = std::make_shared<Exchange>(shared_from_this());
  exchange_ = exchange;
  return exchange;
}

void HttpServer::Core::Connection::dispatch() {
  if (Blob body = intake_.take_all(); !body.empty()) request_.body = std::move(body);
  const auto exchange = begin_exchange();
  // A refusal needs a part of the request; the handler gets the rest.
  HttpRequest request = std::move(request_);
  request_ = HttpRequest{};
  request_.method = request.method;
  request_.path = request.path;
  request_.peer = request.peer;
  request_.secret_hash = request.secret_hash;
  request_.prefix = request.prefix;
  for (const auto& [name, value] : request.headers)
    if (name == "traceparent" || name == "tracestate" ||
        std::find(core_.kept_headers.begin(), core_.kept_headers.end(), name) != core_.kept_headers.end())
      request_.headers.add(name, value);
  try {
    route_->handler(std::move(request), exchange);
  } catch (const std::exception& error) {
    core_.note_failure(error.what());
    exchange->fail("the server failed at this request; its log says why");
  }
}

void HttpServer::Core::Connection::refuse(Refusal refusal, std::string_view detail) {
  refuse_with(core_.refusal_answer(refusal, request_, detail));
}

void HttpServer::Core::Connection::refuse_with(HttpAnswer answer) {
  if (input_.body_unread) close_after_answer();
  intake_.drop();
  begin_exchange()->answer(std::move(answer));
}

/// An exception was caught: the connection's state is unknown, so it is closed.
void HttpServer::Core::Connection::broken(std::string_view reason) {
  core_.note_failure(reason);
  try {
    caller_is_gone();
  } catch (...) {
    close();
  }
}

// ---- answering ----------------------------------------------------------------------------------------

void HttpServer::Core::Connection::send_head(int status, const Headers& headers,
                                             std::optional<std::size_t> length) {
  ++core_.answers[{route_, status}];
  std::string head = "HTTP/1.1 " + std::to_string(status) + " ";
  head.append(reason_phrase(status)).append("\r\ndate: ").append(core_.date).append("\r\n");
  for (const auto& [name, value] : headers) {
    append_clean(head, name);
    head += ": ";
    append_clean(head, value);
    head += "\r\n";
  }
  framing_.chunked = !length && !framing_.http_1_0;
  if (!length && framing_.http_1_0) close_after_answer();
  if (framing_.chunked) head += "transfer-encoding: chunked\r\n";
  if (length && status != 204) head += "content-length: " + std::to_string(*length) + "\r\n";
  if (after_ != After::next_request)
    head += "connection: close\r\n";
  else if (framing_.http_1_0)
    head += "connection: keep-alive\r\n";
  head += "\r\n";
  send({.head = std::move(head)});
}

void HttpServer::Core::Connection::send(Piece piece) {
  if (progress_.is_closed()) return;
  core_.count_answer_bytes(static_cast<std::ptrdiff_t>(piece.size()));
  out_.add(std::move(piece));
  if (out_.begin()) core_.write_soon(shared_from_this());  // together with what this turn still adds
}

/// Writes what the system accepts at once: one call, so that a fast reader leaves time for others.
void HttpServer::Core::Connection::write_some() {
  if (progress_.is_closed()) return;
  error_code error;
  const std::size_t bytes = wire_.write(out_, core_.scratch, error);
  if (error == asio::error::would_block) {
    out_.wait(wire_.unacknowledged(), std::chrono::steady_clock::now() + core_.options.write_timeout);
    return wire_.socket().async_wait(tcp::socket::wait_write, [self = shared_from_this()](error_code) {
      self->guarded([&] { self->write_some(); });
    });
  }
  if (error) return caller_is_gone();
  core_.count_answer_bytes(-static_cast<std::ptrdiff_t>(bytes));
  out_.accepted(bytes);
  if (progress_.is_closed()) return;
  if (!out_.empty()) return core_.write_soon(shared_from_this());
  out_.rest();
  if (progress_.is(Phase::answered)) next_request();
}

void HttpServer::Core::Connection::exchange_over() {
  progress_.enter(Phase::answered);
  if (!progress_.is_closed() && !out_.under_way() && out_.empty()) next_request();
}

/// The answer was written.
void HttpServer::Core::Connection::next_request() {
  if (after_ == After::close) return close();
  if (after_ == After::discard) return close_after_reading();
  progress_.enter(Phase::head);
  reader_.next();
  request_ = HttpRequest{};
  request_.peer = whose_;
  route_ = nullptr;
  framing_ = {};
  without_head_.take(core_.between, this);
  input_.body_unread = false;
  input_.due = std::chrono::steady_clock::now() + core_.options.idle_timeout;
  // Posted and not called here: a caller that sends much ahead would make the stack grow.
  if (!input_.ahead.empty())
    return asio::post(core_.context,
                      [self = shared_from_this()] { self->guarded([&] { self->feed_ahead(); }); });
  if (input_.ended) return close();
  wait_to_read();
}

void HttpServer::Core::Connection::caller_is_gone() {
  if (progress_.is_closed()) return;
  ++core_.counters.hang_ups;
  const std::shared_ptr<Exchange> exchange = exchange_.lock();
  close();
  if (exchange) exchange->caller_is_gone();
}

void HttpServer::Core::Connection::close() {
  if (progress_.is_closed()) return;
  progress_.enter(Phase::closed);
  rest();
  core_.count_answer_bytes(-static_cast<std::ptrdiff_t>(out_.clear()));
  intake_.drop();
  handshake_.leave();
  wire_.close();
}

/// Reads on before closing: closing while the caller sends would reset the connection, and it might not read
/// the refusal.
void HttpServer::Core::Connection::close_after_reading() {
  progress_.enter(Phase::discarding);
  wire_.end_writing();
  input_.due = std::chrono::steady_clock::now() + kDiscardTime;
  input_.ahead = std::string();
  if (input_.ended) return close();
  wait_to_read();
}

void HttpServer::Core::Connection::sweep(TimePoint now) {
  if (progress_.is_exchanging() && !input_.waiting && !input_.ended && wire_.has_peer_closed())
    on_end_of_input();
  if (progress_.is_closed()) return;
  if (out_.is_due(now)) {
    // The system reports room only when there is much: a slow reader has read something before that.
    const std::size_t left = wire_.unacknowledged();
    if (out_.stalls(left)) {
      ++core_.counters.timeouts;
      return caller_is_gone();
    }
    out_.wait(left, now + core_.options.write_timeout);
  }
  if (now < input_.due && !intake_.is_overdue(now)) return;
  ++core_.counters.timeouts;
  close();
}

}  // namespace lanemq::http
