// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "client/gateway/http/responder.hpp"
#include "client/gateway/http/server_core.hpp"

namespace lanemq::gateway {

namespace beast = boost::beast;
namespace http = beast::http;

/// A piece on its way out: what is around it, and whom to tell.
struct Piece {
  std::string head{};
  Blob bytes{};
  std::string_view tail{};
  std::function<void()> written{};

  std::size_t size() const { return head.size() + bytes.size() + tail.size(); }
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
  friend class Core;
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
  void write_some();
  void wait_to_write();
  void note_written(std::size_t bytes);
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

}  // namespace lanemq::gateway
