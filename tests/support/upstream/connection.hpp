// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_set>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include "tests/support/upstream/server.hpp"
#include "tests/support/upstream/upstream.hpp"

namespace lanemq::upstream {

class Connection;

/// What all connections share; it outlives them.
struct Hall {
  Upstream& upstream;
  std::uint64_t body_bytes_max;
  std::unordered_set<Connection*> connections{};  ///< Those that are open; owned by their pending operations.
};

/// One connection. Kept alive by the operation that is pending on it; reads a request, answers it, reads the
/// next.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Hall& hall, boost::asio::ip::tcp::socket socket);
  ~Connection();

  void read();
  /// A model was released: the call in flight, if any, may have waited for that.
  void look_again();
  /// The program ends: the call in flight, if any, ends as cut.
  void cut();

 private:
  using Error = boost::system::error_code;

  void on_header(Error error);
  void read_body();
  void on_body(Error error);
  void on_unreadable(Error error);
  Request request() const;
  void start(Call call);
  void wait_until(TimePoint due, void (Connection::*then)());
  void wait_for_release(void (Connection::*then)());
  void watch_for_hang_up();
  void on_readable(Error error);
  void hang_up();
  void answer();
  void answer_whole();
  void play();
  void write_piece();
  void write(std::size_t body_bytes, void (Connection::*then)());
  void end_script();
  void end();
  void append_header(std::optional<std::size_t> content_length);
  void append_body(std::string_view bytes);
  void finish(Ending ending);
  void reset();
  void close();
  void close_after_reading();

  Hall& hall_;
  boost::beast::tcp_stream stream_;
  boost::asio::steady_timer timer_;
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;
  std::string output_;        // What is being written.
  std::optional<Call> call_;  // From the arrival of a request to the end of its answer.
  bool watching_ = false;     // For the client to hang up, by a pending wait.
  bool waits_for_release_ = false;
  bool keep_alive_ = false;
  bool chunked_ = false;
  std::uint64_t sent_ = 0;  // Bytes of the body.
  std::size_t discarded_ = 0;
};

}  // namespace lanemq::upstream
