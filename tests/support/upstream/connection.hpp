// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include "tests/support/upstream/server.hpp"
#include "tests/support/upstream/upstream.hpp"

namespace lanemq::upstream {

class Connection;

/// The connections that wait until something is due, all by one timer of the system: with one for each, it
/// would be set twice for every event of every stream. Keeps those that wait alive.
///
/// Who is due soon after others is called with the next ones, up to kRoundEvery late, and so all of them cost
/// one waking; who is alone is called in time.
class Waits {
 public:
  static constexpr Duration kRoundEvery = std::chrono::microseconds(250);

  explicit Waits(boost::asio::io_context& context) : timer_(context) {}

  /// Calls `connection->on_due()` when the time is there, never before this call is over. Requires: it does
  /// not wait.
  void add(TimePoint due, std::shared_ptr<Connection> connection);
  /// Has no effect on one that does not wait.
  void remove(TimePoint due, Connection* connection) { waiting_.erase({due, connection}); }

 private:
  void set_timer();
  void call_due();

  boost::asio::steady_timer timer_;
  std::optional<TimePoint> timer_due_;  ///< What the timer is set to.
  TimePoint next_round_{};              ///< Not earlier.
  std::map<std::pair<TimePoint, Connection*>, std::shared_ptr<Connection>> waiting_;
};

/// What all connections share; it outlives them, but for what waits.
struct Hall {
  Upstream& upstream;
  std::uint64_t body_bytes_max;
  std::unordered_set<Connection*> connections{};  ///< Those that are open; owned by their pending operations.
  Waits* waits = nullptr;
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
  /// What wait() waited for is due.
  void on_due();

 private:
  using Error = boost::system::error_code;

  void on_header(Error error);
  void read_body();
  void on_body(Error error);
  void on_unreadable(Error error);
  Request request() const;
  void start(Call call);
  void wait(TimePoint due, void (Connection::*then)());
  void wait_no_longer();
  void wait_for_release(void (Connection::*then)());
  void watch_for_hang_up();
  void on_readable(Error error);
  void hang_up();
  void answer();
  void answer_whole();
  void play();
  void wait_for_piece();
  void write(std::size_t body_bytes, void (Connection::*then)());
  void write_rest(std::size_t written, std::size_t body_bytes, void (Connection::*then)());
  void end_script();
  void end_silence();
  void end();
  void append_header(std::optional<std::size_t> content_length);
  void append_body(std::string_view bytes);
  void finish(Ending ending);
  void reset();
  void close();
  void close_after_reading();

  Hall& hall_;
  boost::beast::tcp_stream stream_;
  std::optional<TimePoint> due_;  // It stands in the hall's waits, to go on with then_.
  void (Connection::*then_)() = nullptr;
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
