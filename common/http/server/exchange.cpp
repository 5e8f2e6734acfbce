// SPDX-License-Identifier: Apache-2.0
#include "common/http/server/exchange.hpp"

#include <cstdio>
#include <utility>

#include <boost/asio/post.hpp>

#include "common/http/server/connection.hpp"

namespace lanemq::http {
namespace {

using std::chrono::milliseconds;

constexpr int kHungUp = 499;  ///< the status that is counted for a caller that left

}  // namespace

HttpServer::Core::Exchange::~Exchange() {
  try {
    fail("the server forgot the request");
  } catch (...) {
    connection_->core_.note_failure("there is no answer for a request that was forgotten");
    connection_->close();
  }
}

void HttpServer::Core::Exchange::fail(std::string_view detail) {
  if (over_ || gone_) return;
  if (begun_) return cut();
  answer(connection_->core_.refusal_answer(Refusal::failed, connection_->request_, detail));
}

void HttpServer::Core::Exchange::answer(HttpAnswer answer) {
  if (over_ || gone_) return;
  if (answer.held_back > milliseconds(0)) return answer_later(std::move(answer));
  over_ = true;
  note_head(answer.status, answer.headers);
  forget_callback();
  const std::size_t length = answer.body.size();
  connection_->send_head(answer.status, answer.headers, length);
  if (!connection_->framing_.head_only && length > 0) connection_->send({.bytes = std::move(answer.body)});
  finish();
}

void HttpServer::Core::Exchange::begin(int status, Headers headers) {
  if (over_ || gone_) return;
  begun_ = true;
  note_head(status, headers);
  connection_->send_head(status, headers, std::nullopt);
}

void HttpServer::Core::Exchange::write(Blob bytes, std::function<void()> written) {
  if (over_ || gone_) return;
  Piece piece{.bytes = bytes.owned(), .written = std::move(written)};
  if (bytes.empty() || connection_->framing_.head_only) {
    piece.bytes = {};
  } else if (connection_->framing_.chunked) {
    char size[24];
    piece.head.assign(size,
                      static_cast<std::size_t>(std::snprintf(size, sizeof size, "%zx\r\n", bytes.size())));
    piece.tail = "\r\n";
  }
  connection_->send(std::move(piece));
}

void HttpServer::Core::Exchange::end() {
  if (over_ || gone_) return;
  over_ = true;
  forget_callback();
  if (connection_->framing_.chunked && !connection_->framing_.head_only)
    connection_->send({.head = "0\r\n\r\n"});
  finish();
}

void HttpServer::Core::Exchange::cut() {
  if (over_ || gone_) return;
  over_ = true;
  forget_callback();
  connection_->after_ = Connection::After::close;
  whole_ = false;
  finish();
}

void HttpServer::Core::Exchange::on_gone(std::function<void()> gone) {
  if (over_) return;
  if (gone_) {
    if (gone) gone();
    return;
  }
  gone_callback_ = std::move(gone);
}

bool HttpServer::Core::Exchange::has_hung_up() {
  if (!gone_ && !over_) connection_->look_for_end();
  return gone_;
}

void HttpServer::Core::Exchange::caller_is_gone() {
  if (over_ || gone_) return;
  gone_ = true;
  if (!begun_) ++connection_->core_.answers[{connection_->route_, kHungUp}];
  const std::function<void()> callback = std::exchange(gone_callback_, nullptr);
  if (callback) callback();
  whole_ = false;
  report();
}

void HttpServer::Core::Exchange::finish() {
  report();
  connection_->exchange_over();
}

void HttpServer::Core::Exchange::note_head(int status, const Headers& headers) {
  status_ = status;
  if (!connection_->core_.on_answered) return;
  const std::string* const id = headers.find("x-request-id");
  request_id_ = id != nullptr ? *id : headers.get("request-id");
}

void HttpServer::Core::Exchange::report() {
  if (!connection_->core_.on_answered) return;
  const auto took = std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - began_);
  connection_->core_.on_answered({.request = connection_->request_,
                                  .status = status_,
                                  .whole = whole_,
                                  .request_id = request_id_,
                                  .took = took,
                                  .facts = facts_});
}

void HttpServer::Core::Exchange::answer_later(HttpAnswer answer) {
  const auto timer = std::make_shared<asio::steady_timer>(connection_->core_.context);
  timer->expires_after(std::exchange(answer.held_back, milliseconds(0)));
  connection_->input_.held_back = true;
  timer->async_wait([self = shared_from_this(), timer, answer = std::move(answer)](error_code error) {
    self->connection_->input_.held_back = false;
    if (!error) self->answer(answer);
  });
}

/// Releases the callback later: it may hold the last reference to the handler.
void HttpServer::Core::Exchange::forget_callback() {
  if (gone_callback_)
    asio::post(connection_->core_.context, [forgotten = std::exchange(gone_callback_, nullptr)] {});
}

}  // namespace lanemq::http
