// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/connection.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>

namespace lanemq::upstream {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;

/// What a refused sender may still send until it has read why.
constexpr std::size_t kDiscardBytesMax = 64 << 20;
constexpr Duration kDiscardTime = std::chrono::seconds(2);

std::string_view view(beast::string_view text) {
  return {text.data(), text.size()};
}

std::string_view reason_of(unsigned status) {
  const auto known = http::int_to_status(status);
  return known == http::status::unknown ? "Unknown" : view(http::obsolete_reason(known));
}

}  // namespace

void Waits::add(TimePoint due, std::shared_ptr<Connection> connection) {
  Connection* const who = connection.get();
  waiting_.emplace(std::pair(due, who), std::move(connection));
  set_timer();
}

/// A timer that is early costs one look.
void Waits::set_timer() {
  if (waiting_.empty()) return;
  const TimePoint due = std::max(waiting_.begin()->first.first, next_round_);
  if (timer_due_ && *timer_due_ <= due) return;
  timer_due_ = due;
  timer_.expires_at(due);
  timer_.async_wait([this](boost::system::error_code error) {
    if (!error) call_due();
  });
}

/// Those that are due by now; what they make due comes with the next round.
void Waits::call_due() {
  timer_due_.reset();
  const TimePoint now = Clock::now();
  next_round_ = now + kRoundEvery;
  std::vector<std::shared_ptr<Connection>> due;
  while (!waiting_.empty() && waiting_.begin()->first.first <= now) {
    due.push_back(std::move(waiting_.begin()->second));
    waiting_.erase(waiting_.begin());
  }
  for (const std::shared_ptr<Connection>& connection : due)
    connection->on_due();
  set_timer();
}

Connection::Connection(Hall& hall, tcp::socket socket) : hall_(hall), stream_(std::move(socket)) {
  Error ignored;
  stream_.socket().non_blocking(true, ignored);
  hall_.connections.insert(this);
  hall_.upstream.connection_opened();
}

Connection::~Connection() {
  hall_.connections.erase(this);
  hall_.upstream.connection_closed();
}

void Connection::read() {
  parser_.emplace();
  parser_->header_limit(Server::kHeaderBytesMax);
  parser_->body_limit(hall_.body_bytes_max);
  stream_.expires_after(Server::kIdleTime);
  http::async_read_header(stream_, buffer_, *parser_,
                          [self = shared_from_this()](Error error, std::size_t) { self->on_header(error); });
}

void Connection::on_header(Error error) {
  if (error) return on_unreadable(error);
  if (!beast::iequals(parser_->get()[http::field::expect], "100-continue")) return read_body();
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(stream_, asio::buffer(kContinue), [self = shared_from_this()](Error failed, std::size_t) {
    if (!failed) self->read_body();
  });
}

void Connection::read_body() {
  http::async_read(stream_, buffer_, *parser_,
                   [self = shared_from_this()](Error error, std::size_t) { self->on_body(error); });
}

void Connection::on_body(Error error) {
  if (error) return on_unreadable(error);
  Call call = hall_.upstream.receive(request(), Clock::now());
  if (call.releases)
    for (Connection* const connection : hall_.connections)
      connection->look_again();
  start(std::move(call));
}

void Connection::on_unreadable(Error error) {
  if (error == http::error::body_limit) {
    start(hall_.upstream.receive_oversized(request(), hall_.body_bytes_max, Clock::now()));
  } else if (error.category() == make_error_code(http::error::bad_method).category() &&
             error != http::error::end_of_stream && error != http::error::partial_message) {
    start(hall_.upstream.receive_malformed(Clock::now()));
  }
  // Otherwise the client left or fell silent; letting go of the last reference closes the connection.
}

Request Connection::request() const {
  const auto& message = parser_->get();
  Request request{
      .method = view(message.method_string()), .target = view(message.target()), .body = message.body()};
  for (const auto& field : message)
    request.headers.emplace_back(view(field.name_string()), view(field.value()));
  return request;
}

void Connection::start(Call call) {
  call_ = std::move(call);
  sent_ = 0;
  output_.clear();
  // A request that was not read to its end leaves bytes that nobody can interpret.
  keep_alive_ = parser_->is_done() && parser_->get().keep_alive();
  chunked_ = parser_->get().version() >= 11;
  stream_.expires_never();
  if (call_->delay > Duration::zero() || call_->script || call_->held) watch_for_hang_up();
  if (call_->delay > Duration::zero()) return wait(call_->arrived + call_->delay, &Connection::answer);
  answer();
}

void Connection::wait(TimePoint due, void (Connection::*then)()) {
  due_ = due;
  then_ = then;
  hall_.waits->add(due, shared_from_this());
}

void Connection::on_due() {
  // It may have hung up in the same round.
  if (!std::exchange(due_, std::nullopt)) return;
  if (call_) (this->*then_)();
}

void Connection::wait_no_longer() {
  waits_for_release_ = false;
  if (due_) hall_.waits->remove(*std::exchange(due_, std::nullopt), this);
}

// Until look_again(), or the end of the call.
void Connection::wait_for_release(void (Connection::*then)()) {
  waits_for_release_ = true;
  wait(TimePoint::max(), then);
}

void Connection::look_again() {
  if (!waits_for_release_) return;
  wait_no_longer();
  wait(Clock::now(), then_);
}

void Connection::watch_for_hang_up() {
  watching_ = true;
  stream_.socket().async_wait(tcp::socket::wait_read,
                              [self = shared_from_this()](Error error) { self->on_readable(error); });
}

void Connection::on_readable(Error error) {
  if (error || !watching_) return;
  char byte = 0;
  stream_.socket().receive(asio::buffer(&byte, 1), tcp::socket::message_peek, error);
  if (error) return hang_up();
  watching_ = false;  // The next request, sent early: it stays where it is until its turn.
}

void Connection::hang_up() {
  watching_ = false;
  if (!call_) return;
  wait_no_longer();
  finish(Ending::hung_up);
  Error ignored;
  stream_.socket().close(ignored);
}

void Connection::answer() {
  if (call_->held && !hall_.upstream.released(*call_)) return wait_for_release(&Connection::answer);
  if (call_->script) {
    append_header(call_->script->content_length());
    return wait_for_piece();
  }
  if (call_->fault != Fault::stall && call_->fault != Fault::reset) return answer_whole();
  const bool resets = call_->fault == Fault::reset;
  finish(Ending::answered);
  resets ? reset() : close();
}

void Connection::answer_whole() {
  const std::string body = std::exchange(call_->reply.body, {});
  append_header(body.size());
  output_ += body;
  write(body.size(), &Connection::end);
}

// Sends the next piece, which is due.
void Connection::play() {
  auto piece = call_->script->next(Clock::now() - call_->arrived);
  if (piece) {
    append_body(piece->bytes);
    return write(piece->bytes.size(), &Connection::wait_for_piece);
  }
  if (call_->script->finish() == Finish::done && chunked_ && call_->script->is_stream())
    output_ += "0\r\n\r\n";
  write(0, &Connection::end_script);
}

void Connection::wait_for_piece() {
  if (call_->script->paused() && !hall_.upstream.released(*call_))
    return wait_for_release(&Connection::wait_for_piece);
  const auto due = call_->script->due();
  if (!due) return play();
  if (call_->arrived + *due > Clock::now()) return wait(call_->arrived + *due, &Connection::play);
  // What is due already comes behind the others' sockets: a stream without gaps would hold them up.
  asio::post(stream_.get_executor(), [self = shared_from_this()] {
    if (self->call_) self->play();
  });
}

// Most of what is written fits into the socket and is there at once.
void Connection::write(std::size_t body_bytes, void (Connection::*then)()) {
  Error error;
  const std::size_t written = stream_.socket().write_some(asio::buffer(output_), error);
  if (error == asio::error::would_block || (!error && written < output_.size()))
    return write_rest(written, body_bytes, then);
  if (error) return hang_up();
  output_.clear();
  sent_ += body_bytes;
  (this->*then)();
}

void Connection::write_rest(std::size_t written, std::size_t body_bytes, void (Connection::*then)()) {
  stream_.expires_after(Server::kIdleTime);
  asio::async_write(stream_, asio::buffer(output_) + written,
                    [self = shared_from_this(), body_bytes, then](Error error, std::size_t) {
                      if (!self->call_) return;  // It hung up.
                      if (error) return self->hang_up();
                      self->output_.clear();
                      self->sent_ += body_bytes;
                      self->stream_.expires_never();
                      ((*self).*then)();
                    });
}

void Connection::end_script() {
  const Finish how = call_->script->finish();
  if (how == Finish::done) return end();
  if (how == Finish::silent) return wait(Clock::now() + call_->stall, &Connection::end_silence);
  finish(Ending::answered);
  how == Finish::reset ? reset() : close();
}

void Connection::end_silence() {
  finish(Ending::answered);
  close();
}

void Connection::end() {
  watching_ = false;
  stream_.socket().cancel();  // The wait for a hang-up, if it is still pending.
  finish(Ending::answered);
  if (!parser_->is_done()) return close_after_reading();
  keep_alive_ ? read() : close();
}

void Connection::append_header(std::optional<std::size_t> content_length) {
  const Reply& reply = call_->reply;
  output_ += "HTTP/1.1 " + std::to_string(reply.status) + " ";
  output_ += reason_of(reply.status);
  output_ += "\r\nserver: lanemq-upstream\r\n";
  for (const auto& [name, value] : reply.headers)
    output_ += name + ": " + value + "\r\n";
  if (content_length) {
    output_ +=
        "content-type: application/json\r\ncontent-length: " + std::to_string(*content_length) + "\r\n";
    chunked_ = false;
  } else {
    output_ += "content-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n";
    if (chunked_)
      output_ += "transfer-encoding: chunked\r\n";
    else
      keep_alive_ = false;
  }
  if (!keep_alive_)
    output_ += "connection: close\r\n";
  else if (parser_->get().version() < 11)
    output_ += "connection: keep-alive\r\n";
  output_ += "\r\n";
}

void Connection::append_body(std::string_view bytes) {
  if (bytes.empty()) return;  // An empty chunk would end the body.
  if (!chunked_) {
    output_ += bytes;
    return;
  }
  char size[24];
  std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
  output_ += size;
  output_ += bytes;
  output_ += "\r\n";
}

void Connection::finish(Ending ending) {
  hall_.upstream.finish(*call_, ending, sent_, Clock::now());
  call_.reset();
}

void Connection::cut() {
  if (call_) finish(Ending::cut);
}

void Connection::reset() {
  Error ignored;
  stream_.socket().set_option(asio::socket_base::linger(true, 0), ignored);
  stream_.socket().close(ignored);
}

void Connection::close() {
  watching_ = false;
  Error ignored;
  stream_.socket().cancel(ignored);
  stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
}

void Connection::close_after_reading() {
  // Closing while the client still sends would reset the connection, and the client might never read the
  // refusal.
  if (discarded_ == 0) {
    close();
    stream_.expires_after(kDiscardTime);
  }
  buffer_.clear();
  stream_.async_read_some(buffer_.prepare(64 << 10),
                          [self = shared_from_this()](Error error, std::size_t bytes) {
                            self->discarded_ += bytes;
                            if (!error && self->discarded_ < kDiscardBytesMax) self->close_after_reading();
                          });
}

}  // namespace lanemq::upstream
