// SPDX-License-Identifier: Apache-2.0
#include "common/http/server/connection.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace lanemq::http {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kAheadBytesMax = std::size_t{64} * 1024;  ///< read while an earlier request is served
/// Bytes that a refused sender may still send before it reads the answer: some read nothing before they have
/// sent all. As many as a body may have elsewhere.
constexpr std::size_t kDiscardBytesMax = std::size_t{32} * 1024 * 1024;
constexpr milliseconds kDiscardTime{2'000};
constexpr std::size_t kBuffersPerWrite = 48;
constexpr std::size_t kBytesPerWrite =
    std::size_t{256} * 1024;  ///< one write copies so much while others wait
constexpr std::size_t kTlsRecordBytes = std::size_t{16} * 1024;
constexpr int kHungUp = 499;     ///< the status that is counted for a caller that left
constexpr int kSpoolingMax = 2;  ///< pieces on their way to the disk, before reading pauses

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

/// A body that gives its bytes back to the pot when it is released.
struct HeldBody {
  BodyBuffer bytes;
  BytePot::Hold room;
};

/// What a write puts together, of the buffers that wait.
class Gathered {
 public:
  void add(std::string_view part) {
    part = part.substr(0, room_);
    if (part.empty() || full()) return;
    buffers_[count_++] = asio::buffer(part.data(), part.size());
    room_ -= part.size();
  }
  bool full() const { return count_ == buffers_.size() || room_ == 0; }

  const asio::const_buffer* begin() const { return buffers_.data(); }
  const asio::const_buffer* end() const { return buffers_.data() + count_; }

 private:
  std::array<asio::const_buffer, kBuffersPerWrite> buffers_;
  std::size_t count_ = 0, room_ = kBytesPerWrite;
};

}  // namespace

/// The Responder of the connection's present request.
class HttpServer::Core::Exchange final : public Responder, public std::enable_shared_from_this<Exchange> {
 public:
  explicit Exchange(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}

  ~Exchange() override {
    try {
      fail("the server forgot the request");
    } catch (...) {
      connection_->core_.note_failure("there is no answer for a request that was forgotten");
      connection_->close();
    }
  }

  /// Ends an answer that the handler left open.
  void fail(std::string_view detail) {
    if (over_ || gone_) return;
    if (begun_) return cut();
    answer(connection_->core_.refusal_answer(Refusal::failed, connection_->request_, detail));
  }

  void answer(HttpAnswer answer) override {
    if (over_ || gone_) return;
    if (answer.held_back > milliseconds(0)) return answer_later(std::move(answer));
    over_ = true;
    note_head(answer.status, answer.headers);
    forget_callback();
    const std::size_t length = answer.body.size();
    connection_->send_head(answer.status, answer.headers, length);
    if (!connection_->head_only_ && length > 0) connection_->send({.bytes = std::move(answer.body)});
    finish();
  }

  void begin(int status, Headers headers) override {
    if (over_ || gone_) return;
    begun_ = true;
    note_head(status, headers);
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
    whole_ = false;
    finish();
  }

  void tell(AnswerFacts facts) override { facts_ = std::move(facts); }

  void on_gone(std::function<void()> gone) override {
    if (over_) return;
    if (gone_) {
      if (gone) gone();
      return;
    }
    gone_callback_ = std::move(gone);
  }
  bool gone() const override { return gone_; }
  bool has_hung_up() override {
    if (!gone_ && !over_) connection_->look_for_end();
    return gone_;
  }

  void caller_is_gone() {
    if (over_ || gone_) return;
    gone_ = true;
    if (!begun_) ++connection_->core_.answers[{connection_->route_, kHungUp}];
    const std::function<void()> callback = std::exchange(gone_callback_, nullptr);
    if (callback) callback();
    whole_ = false;
    report();
  }

 private:
  void finish() {
    report();
    connection_->exchange_over();
  }

  void note_head(int status, const Headers& headers) {
    status_ = status;
    if (!connection_->core_.on_answered) return;
    const std::string* const id = headers.find("x-request-id");
    request_id_ = id != nullptr ? *id : headers.get("request-id");
  }

  void report() {
    if (!connection_->core_.on_answered) return;
    const auto took = std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - began_);
    connection_->core_.on_answered({.request = connection_->request_,
                                    .status = status_,
                                    .whole = whole_,
                                    .request_id = request_id_,
                                    .took = took,
                                    .facts = facts_});
  }

  void answer_later(HttpAnswer answer) {
    const auto timer = std::make_shared<asio::steady_timer>(connection_->core_.context);
    timer->expires_after(std::exchange(answer.held_back, milliseconds(0)));
    connection_->held_back_ = true;
    timer->async_wait([self = shared_from_this(), timer, answer = std::move(answer)](error_code error) {
      self->connection_->held_back_ = false;
      if (!error) self->answer(answer);
    });
  }

  /// Releases the callback later: it may hold the last reference to the handler.
  void forget_callback() {
    if (gone_callback_)
      asio::post(connection_->core_.context, [forgotten = std::exchange(gone_callback_, nullptr)] {});
  }

  std::shared_ptr<Connection> connection_;
  std::function<void()> gone_callback_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  AnswerFacts facts_;
  std::string request_id_;
  int status_ = 0;
  bool begun_ = false, over_ = false, gone_ = false, whole_ = true;
};

// ---- reading ------------------------------------------------------------------------------------------

HttpServer::Core::Connection::Connection(Core& core, tcp::socket socket, std::string address,
                                         std::string whose)
    : owner_(core.shared_from_this()),
      core_(core),
      socket_(std::move(socket)),
      identity_(core.identity),
      address_(std::move(address)),
      whose_(std::move(whose)),
      reader_({.head_bytes_max = core.options.header_bytes_max}) {
  core_.connections.insert(this);
  core_.counters.connections = core_.connections.size();
  error_code ignored;
  socket_.non_blocking(true, ignored);
}

HttpServer::Core::Connection::~Connection() {
  become_idle();
  end_handshake();
  await_no_head();
  core_.count_answer_bytes(-static_cast<std::ptrdiff_t>(unwritten_));
  core_.connections.erase(this);
  core_.counters.connections = core_.connections.size();
  const auto at = core_.per_address.find(whose_);
  if (at != core_.per_address.end() && --at->second == 0) core_.per_address.erase(at);
}

void HttpServer::Core::Connection::start() {
  read_due_ = std::chrono::steady_clock::now() + core_.options.header_timeout;
  await_head(core_.before_first);
  if (identity_) return wait_for_handshake();
  on_readable();  // most likely the request is there already
}

void HttpServer::Core::Connection::await_head(std::list<Connection*>& waiting) {
  waiting_ = &waiting;
  waits_at_ = waiting.insert(waiting.end(), this);
}

void HttpServer::Core::Connection::await_no_head() {
  if (waiting_) std::exchange(waiting_, nullptr)->erase(waits_at_);
}

// ---- TLS ----------------------------------------------------------------------------------------------

/// Waits for the peer's first bytes: until then a connection costs no memory of TLS. Handshakes take their
/// turns, since each costs a signature.
void HttpServer::Core::Connection::wait_for_handshake() {
  socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](error_code error) {
    if (error || self->closed_) return;
    self->core_.shake_hands_soon(self);
  });
}

/// False: what came is no TLS, and was refused.
bool HttpServer::Core::Connection::begin_encryption() {
  char first = 0;
  const ssize_t bytes = ::recv(socket_.native_handle(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return wait_for_handshake(), false;
  if (bytes <= 0) return close(), false;
  if (!begins_tls(first)) return refuse_unencrypted(), false;
  core_.begin_handshake(*this);
  tls_ = identity_->accept(socket_.native_handle());
  return true;
}

void HttpServer::Core::Connection::shake_hands() {
  if (closed_ || (!tls_ && !begin_encryption())) return;
  const auto go_on = [self = shared_from_this()](error_code error) {
    if (!error) self->guarded([&] { self->shake_hands(); });
  };
  switch (tls_->handshake()) {
    case TlsStep::wants_read:
      return socket_.async_wait(tcp::socket::wait_read, go_on);
    case TlsStep::wants_write:
      return socket_.async_wait(tcp::socket::wait_write, go_on);
    case TlsStep::ended:
    case TlsStep::broken:
      ++core_.counters.handshakes_failed;
      return close();
    case TlsStep::done:
      break;
  }
  ++core_.counters.handshakes;
  end_handshake();
  on_readable();
}

/// A caller that speaks HTTP here is told so, in its own words; whatever else it is only loses its
/// connection.
void HttpServer::Core::Connection::refuse_unencrypted() {
  ++core_.counters.handshakes_failed;
  char first[8] = {};
  const ssize_t bytes = ::recv(socket_.native_handle(), first, sizeof first, MSG_PEEK | MSG_DONTWAIT);
  const std::string_view word(first, static_cast<std::size_t>(std::max<ssize_t>(bytes, 0)));
  if (word.empty() || !std::all_of(word.begin(), word.begin() + std::min<std::ptrdiff_t>(bytes, 3),
                                   [](char c) { return c >= 'A' && c <= 'Z'; }))
    return close();
  keep_alive_ = false;
  body_unread_ = true;
  wait_to_read();  // what it sends is read and dropped
  refuse(Refusal::bad_request, "this port speaks TLS; use https://");
}

void HttpServer::Core::Connection::end_handshake() {
  if (std::exchange(in_handshake_, false)) core_.handshakes.erase(shakes_at_);
}

/// Reads as a socket that does not block.
std::size_t HttpServer::Core::Connection::read_bytes(char* to, std::size_t size, error_code& error) {
  if (!tls_) return socket_.read_some(asio::buffer(to, size), error);
  std::size_t all = 0;
  TlsStep step = TlsStep::done;
  while (step == TlsStep::done && all < size) {
    std::size_t came = 0;
    step = tls_->read(to + all, size - all, came);
    all += came;
  }
  if (all > 0 || step == TlsStep::done) return all;
  const bool waits = step == TlsStep::wants_read || step == TlsStep::wants_write;
  error = waits ? error_code(asio::error::would_block) : error_code(asio::error::eof);
  return 0;
}

/// Writes of what waits as a socket that does not block; with TLS in records that are put together first.
std::size_t HttpServer::Core::Connection::write_bytes(error_code& error) {
  const auto gather = [this](std::size_t skip) {
    Gathered gathered;
    for (const Piece& piece : out_) {
      for (std::string_view part : {std::string_view(piece.head), piece.bytes.bytes(), piece.tail}) {
        const std::size_t skipped = std::min(skip, part.size());
        skip -= skipped;
        part.remove_prefix(skipped);
        gathered.add(part);
      }
      if (gathered.full()) break;
    }
    return gathered;
  };
  if (!tls_) return socket_.write_some(gather(out_offset_), error);
  std::size_t written = 0;
  while (written < kBytesPerWrite && written < unwritten_) {
    const Gathered gathered = gather(out_offset_ + written);
    const std::size_t size = asio::buffer_copy(asio::buffer(core_.scratch.data(), kTlsRecordBytes), gathered);
    std::size_t went = 0;
    const TlsStep step = tls_->write({core_.scratch.data(), size}, went);
    written += went;
    if (step == TlsStep::done) continue;
    if (written > 0) break;
    error = step == TlsStep::wants_write ? error_code(asio::error::would_block)
                                         : error_code(asio::error::connection_reset);
    break;
  }
  return written;
}

// ---- reading ------------------------------------------------------------------------------------------

/// Waits for data: a request, or while one is served data sent ahead, or the peer's end.
void HttpServer::Core::Connection::wait_to_read() {
  if (waiting_to_read_ || closed_ || peer_closed_ || held_back_ || ahead_.size() >= kAheadBytesMax) return;
  if (spooling_ >= kSpoolingMax) return;
  waiting_to_read_ = true;
  if (tls_ && tls_->holds_bytes())
    return asio::post(core_.context, [self = shared_from_this()] {
      self->waiting_to_read_ = false;
      self->guarded([&] { self->on_readable(); });
    });
  socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](error_code error) {
    self->waiting_to_read_ = false;
    if (!error) self->guarded([&] { self->on_readable(); });
  });
}

void HttpServer::Core::Connection::on_readable() {
  if (closed_ || held_back_) return;
  const bool is_ahead = exchanging_ || !ahead_.empty();
  const std::size_t room =
      is_ahead ? std::min(kAheadBytesMax - ahead_.size(), core_.scratch.size()) : core_.scratch.size();
  error_code error;
  const std::size_t size = read_bytes(core_.scratch.data(), room, error);
  if (error && error != asio::error::would_block) return on_end_of_input();
  const std::string_view bytes(core_.scratch.data(), size);
  if (closing_) {
    discarded_ += size;
    if (discarded_ >= kDiscardBytesMax) return close();
  } else if (is_ahead) {
    ahead_ += bytes;
  } else if (size > 0) {
    feed(bytes);
  }
  wait_to_read();
}

void HttpServer::Core::Connection::on_end_of_input() {
  peer_closed_ = true;
  if (closing_ || !exchanging_) return close();
  if (!answered_) caller_is_gone();
}

/// Looks for the peer's end behind what was read.
void HttpServer::Core::Connection::look_for_end() {
  if (closed_ || !ahead_.empty()) return;
  if (tls_) return on_readable();  // the end stands inside TLS
  char next = 0;
  const ssize_t bytes = ::recv(socket_.native_handle(), &next, 1, MSG_PEEK | MSG_DONTWAIT);
  if (bytes == 0 || (bytes < 0 && errno != EAGAIN && errno != EINTR)) on_end_of_input();
}

/// Whether the peer has closed, even where unread data precedes the end.
bool HttpServer::Core::Connection::has_peer_closed() {
  pollfd looked_at{.fd = socket_.native_handle(), .events = POLLRDHUP, .revents = 0};
  return ::poll(&looked_at, 1, 0) > 0;
}

/// Feeds the data that came while an earlier request was served.
void HttpServer::Core::Connection::feed_ahead() {
  if (closed_ || exchanging_) return;
  const std::string bytes = std::exchange(ahead_, {});
  feed(bytes);
  if (peer_closed_ && !exchanging_) return close();
  wait_to_read();
}

void HttpServer::Core::Connection::feed(std::string_view bytes) {
  using Event = RequestReader::Event;
  if (reader_.idle()) read_due_ = std::chrono::steady_clock::now() + core_.options.header_timeout;
  while (!closed_ && !exchanging_) {
    const RequestReader::Taken taken = reader_.take(bytes);
    bytes.remove_prefix(taken.bytes);
    switch (taken.event) {
      case Event::more:
        return;
      case Event::head:
        on_head(!bytes.empty());
        break;
      case Event::body:
        read_due_ = std::chrono::steady_clock::now() + core_.options.body_idle_timeout;
        take_body(taken.piece);
        break;
      case Event::end:
        body_unread_ = false;
        ahead_ = bytes;  // set before the handler, which may answer at once
        return end_body();
      case Event::refusal:
        return refuse_unreadable();
    }
  }
  if (keep_alive_) ahead_ = bytes;
}

/// Decides all that can be decided without the body, so that nothing is kept of an unwanted one.
void HttpServer::Core::Connection::on_head(bool body_has_come) {
  ++core_.counters.requests;
  await_no_head();
  RequestHead head = reader_.take_head();
  http_1_0_ = head.http_1_0;
  head_only_ = head.method == "HEAD";
  keep_alive_ = head.keep_alive && !core_.draining;
  body_unread_ = head.has_body();
  content_length_ = head.content_length;
  request_ = HttpRequest{};
  request_.method = std::move(head.method);
  request_.path = std::move(head.path);
  request_.query = std::move(head.query);
  request_.authority = std::move(head.authority);
  for (auto& [name, value] : head.fields)
    request_.headers.add(std::move(name), std::move(value));
  request_.headers.join();
  request_.peer = core_.options.proxies.empty() ? whose_ : core_.proxies.sender(address_, request_.headers);
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
  if (!body_unread_) return;
  holders_ = {"address " + request_.peer};
  if (route_->admit) {
    tl::expected<std::string, HttpAnswer> admitted = route_->admit(request_);
    if (!admitted) return refuse_with(std::move(admitted.error()));
    if (!admitted->empty()) holders_.push_back("caller " + *admitted);
  }
  const std::size_t limit = route_->body_bytes_max ? route_->body_bytes_max : core_.options.body_bytes_max;
  if (content_length_ && *content_length_ > limit)
    return refuse(Refusal::body_too_large, "the body has " + std::to_string(*content_length_) +
                                               " bytes, the limit is " + std::to_string(limit) + bound());
  const bool spools = !route_->spool_folder.empty();
  const BytePot& pot = spools ? *core_.upload_bytes : *core_.body_bytes;
  if (content_length_ && *content_length_ > pot.share_max())
    return refuse_for_room(BytePot::Over::share, static_cast<std::size_t>(*content_length_), pot,
                           spools ? "uploads_bytes_max" : "bodies_bytes_max");
  reader_.limit_body(limit);
  body_room_ = BytePot::Hold(core_.body_bytes, holders_);
  body_came_ = body_came_before_ = 0;
  become_busy();
  const auto now = std::chrono::steady_clock::now();
  read_due_ = now + core_.options.body_idle_timeout;
  body_due_ = now + core_.options.body_timeout;
  if (core_.options.body_bytes_per_second_min > 0) rate_due_ = now + core_.options.body_rate_window;
  // A sender that sends its body already does not wait for this.
  if (head.expects_continue && !body_has_come) send({.head = "HTTP/1.1 100 Continue\r\n\r\n"});
}

/// The name of the option that bounds this request's body.
std::string HttpServer::Core::Connection::bound() const {
  const std::string& name = route_ && route_->body_bytes_max ? route_->body_bound : "body_bytes_max";
  return name.empty() ? "" : " (" + name + ")";
}

void HttpServer::Core::Connection::answer_options(const std::string& allowed) {
  if (body_unread_) keep_alive_ = false;
  begin_exchange();
  const auto exchange = std::make_shared<Exchange>(shared_from_this());
  exchange_ = exchange;
  exchange->answer({.status = 204, .headers = {{"allow", allowed + ", OPTIONS"}}, .body = {}});
}

/// Keeps a piece of the body. Makes room as bytes come, so that announced bytes cost nothing.
void HttpServer::Core::Connection::take_body(std::string_view piece) {
  body_came_ += piece.size();
  if (const BytePot::Over over = body_room_.take(piece.size()); over != BytePot::Over::nothing)
    return refuse_for_room(over, body_came_, *core_.body_bytes, "bodies_bytes_max");
  body_.append(piece, static_cast<std::size_t>(content_length_.value_or(0)));
  // Several pieces may be in memory at once, and must not use up a small share.
  const std::size_t from = std::min(Spool::kFrom, core_.body_bytes->share_max() / 4);
  if (!route_->spool_folder.empty() && body_.size() >= from) spool_body();
}

/// Sends the body so far to the disk; false: there is no room, and the request was refused.
bool HttpServer::Core::Connection::spool_body() {
  if (!spool_)
    spool_ = std::make_shared<Spool>(route_->spool_folder, BytePot::Hold(core_.upload_bytes, holders_));
  if (const BytePot::Over over = spool_->take_room(body_.size()); over != BytePot::Over::nothing) {
    refuse_for_room(over, body_came_, *core_.upload_bytes, "uploads_bytes_max");
    return false;
  }
  ++spooling_;
  auto piece = std::make_shared<HeldBody>(HeldBody{std::exchange(body_, {}), std::move(body_room_)});
  body_room_ = BytePot::Hold(core_.body_bytes, holders_);
  core_.aside(
      Loop::Side::disk,
      [spool = spool_, piece = std::move(piece)]() mutable {
        spool->append(piece->bytes.view());
        piece.reset();
        spool.reset();
      },
      [self = shared_from_this()] { self->guarded([&] { self->on_spooled(); }); });
  return true;
}

void HttpServer::Core::Connection::on_spooled() {
  --spooling_;
  if (!closing_ && !exchanging_) {
    // The disk has delayed the sender, so its rate is measured from now.
    const auto now = std::chrono::steady_clock::now();
    read_due_ = now + core_.options.body_idle_timeout;
    if (rate_due_ != TimePoint::max()) rate_due_ = now + core_.options.body_rate_window;
    body_came_before_ = body_came_;
  }
  wait_to_read();
}

/// The request is complete, in memory or on its way to the disk.
void HttpServer::Core::Connection::end_body() {
  if (!spool_) return dispatch();
  if (!body_.empty() && !spool_body()) return;
  begin_exchange();
  auto body = std::make_shared<Blob>();
  core_.aside(
      Loop::Side::disk,
      [spool = spool_, body]() mutable {
        *body = spool->look();
        spool.reset();
      },
      [self = shared_from_this(), body] { self->guarded([&] { self->take_spooled(std::move(*body)); }); });
}

void HttpServer::Core::Connection::take_spooled(Blob body) {
  if (closed_) return;
  if (!spool_->problem().empty()) return refuse(Refusal::disk_refuses, spool_->problem());
  spool_.reset();
  request_.body = std::move(body);
  dispatch();
}

/// `wanted`: the room that this body needs alone.
void HttpServer::Core::Connection::refuse_for_room(BytePot::Over over, std::size_t wanted, const BytePot& pot,
                                                   std::string_view bound) {
  const std::string share =
      "a caller's share of " + std::string(bound) + " is " + std::to_string(pot.share_max()) + " bytes";
  if (over == BytePot::Over::all)
    return refuse(Refusal::out_of_memory, "the server holds " + std::to_string(pot.bytes_max()) +
                                              " bytes of requests (" + std::string(bound) +
                                              "); try again later");
  if (wanted > pot.share_max())
    return refuse(Refusal::body_too_large,
                  "the body has at least " + std::to_string(wanted) + " bytes, and " + share);
  refuse(Refusal::out_of_memory, share + ", which your requests have; try again later");
}

void HttpServer::Core::Connection::drop_body() {
  body_ = BodyBuffer();
  body_room_.give_back();
  if (!spool_) return;
  // Deleting a large file takes the system time, so that is done beside the loop.
  core_.aside(
      Loop::Side::disk, [spool = std::exchange(spool_, nullptr)]() mutable { spool.reset(); }, [] {});
}

void HttpServer::Core::Connection::refuse_unreadable() {
  const ReaderRefusal& why = reader_.refusal();
  const Refusal kind = refusal_of(why.status);
  if (kind != Refusal::body_too_large && kind != Refusal::header_too_large) ++core_.counters.bad_requests;
  keep_alive_ = false;  // the start of the next request is not known
  if (kind == Refusal::bad_request)
    return refuse(kind, "this is no HTTP request that can be read: " + why.why);
  refuse(kind, why.why + (kind == Refusal::body_too_large ? bound() : ""));
}

void HttpServer::Core::Connection::become_busy() {
  if (!std::exchange(busy_, true)) ++core_.busy;
}

void HttpServer::Core::Connection::become_idle() {
  if (std::exchange(busy_, false)) --core_.busy;
}

void HttpServer::Core::Connection::begin_exchange() {
  await_no_head();
  read_due_ = body_due_ = rate_due_ = TimePoint::max();
  exchanging_ = true;
  answered_ = chunked_ = false;
  become_busy();
}

void HttpServer::Core::Connection::dispatch() {
  if (!body_.empty()) {
    auto held = std::make_shared<HeldBody>(HeldBody{std::exchange(body_, {}), std::move(body_room_)});
    const std::string_view bytes = held->bytes.view();
    request_.body = Blob::own(std::move(held), bytes);
  }
  begin_exchange();
  const auto exchange = std::make_shared<Exchange>(shared_from_this());
  exchange_ = exchange;
  // A refusal needs a part of the request; the handler gets the rest.
  HttpRequest request = std::move(request_);
  request_ = HttpRequest{};
  request_.method = request.method;
  request_.path = request.path;
  request_.peer = request.peer;
  request_.secret_hash = request.secret_hash;
  request_.anthropic_prefix = request.anthropic_prefix;
  for (const auto& [name, value] : request.headers)
    if (name == "anthropic-version" || name == "traceparent" || name == "tracestate")
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
  if (body_unread_) keep_alive_ = false;
  drop_body();
  begin_exchange();
  const auto exchange = std::make_shared<Exchange>(shared_from_this());
  exchange_ = exchange;
  exchange->answer(std::move(answer));
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
  unwritten_ += piece.size();
  core_.count_answer_bytes(static_cast<std::ptrdiff_t>(piece.size()));
  out_.push_back(std::move(piece));
  if (writing_) return;
  writing_ = true;
  core_.write_soon(shared_from_this());  // together with what this turn still adds
}

/// Writes what the system accepts at once: one call, so that a fast reader leaves time for others.
void HttpServer::Core::Connection::write_some() {
  if (closed_) return;
  error_code error;
  const std::size_t bytes = write_bytes(error);
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
  on_the_way_ = unacknowledged();
  socket_.async_wait(tcp::socket::wait_write,
                     [self = shared_from_this()](error_code) { self->guarded([&] { self->write_some(); }); });
}

/// Bytes that the system has accepted and the reader has not acknowledged.
std::size_t HttpServer::Core::Connection::unacknowledged() {
  int bytes = 0;
  if (::ioctl(socket_.native_handle(), SIOCOUTQ, &bytes) != 0) return 0;
  return static_cast<std::size_t>(bytes);
}

void HttpServer::Core::Connection::note_written(std::size_t bytes) {
  unwritten_ -= bytes;
  core_.count_answer_bytes(-static_cast<std::ptrdiff_t>(bytes));
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

/// The answer was written.
void HttpServer::Core::Connection::next_request() {
  exchanging_ = false;
  become_idle();
  if (cut_) return close();
  if (!keep_alive_) return close_after_reading();
  reader_.next();
  request_ = HttpRequest{};
  request_.peer = whose_;
  route_ = nullptr;
  await_head(core_.between);
  body_unread_ = head_only_ = http_1_0_ = false;
  read_due_ = std::chrono::steady_clock::now() + core_.options.idle_timeout;
  // Posted and not called here: a caller that sends much ahead would make the stack grow.
  if (!ahead_.empty())
    return asio::post(core_.context,
                      [self = shared_from_this()] { self->guarded([&] { self->feed_ahead(); }); });
  if (peer_closed_) return close();
  wait_to_read();
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
  await_no_head();
  exchanging_ = false;
  become_idle();
  read_due_ = write_due_ = body_due_ = rate_due_ = TimePoint::max();
  core_.count_answer_bytes(-static_cast<std::ptrdiff_t>(std::exchange(unwritten_, 0)));
  out_.clear();
  drop_body();
  end_handshake();
  error_code ignored;
  socket_.close(ignored);
}

/// Reads on before closing: closing while the caller sends would reset the connection, and it might not read
/// the refusal.
void HttpServer::Core::Connection::close_after_reading() {
  if (tls_) tls_->say_end();
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  read_due_ = std::chrono::steady_clock::now() + kDiscardTime;
  ahead_ = std::string();
  closing_ = true;
  if (peer_closed_) return close();
  wait_to_read();
}

/// Whether a body comes below its least rate: such senders hold connections and room.
bool HttpServer::Core::Connection::is_too_slow(TimePoint now) {
  if (now < rate_due_) return false;
  const std::size_t came = body_came_ - std::exchange(body_came_before_, body_came_);
  rate_due_ = now + core_.options.body_rate_window;
  const auto window = static_cast<std::size_t>(core_.options.body_rate_window.count());
  return came < core_.options.body_bytes_per_second_min * window / 1000;
}

void HttpServer::Core::Connection::sweep(TimePoint now) {
  if (exchanging_ && !waiting_to_read_ && !peer_closed_ && has_peer_closed()) on_end_of_input();
  if (closed_) return;
  if (now >= write_due_) {
    // The system reports room only when there is much: a slow reader has read something before that.
    const std::size_t left = unacknowledged();
    if (left >= on_the_way_) {
      ++core_.counters.timeouts;
      return caller_is_gone();
    }
    on_the_way_ = left;
    write_due_ = now + core_.options.write_timeout;
  }
  if (now < read_due_ && now < body_due_ && !is_too_slow(now)) return;
  ++core_.counters.timeouts;
  close();
}

}  // namespace lanemq::http
