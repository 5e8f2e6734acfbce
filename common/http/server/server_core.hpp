// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/http/server/access/proxies.hpp"
#include "common/http/server/base/side_thread.hpp"
#include "common/http/server/base/tls.hpp"
#include "common/http/server/base/turn_clock.hpp"
#include "common/http/server/bodies/byte_pot.hpp"
#include "common/http/server/bodies/fair_line.hpp"
#include "common/http/server/server.hpp"

namespace lanemq::http {

namespace asio = boost::asio;
using asio::ip::tcp;
using TimePoint = Loop::TimePoint;
using boost::system::error_code;

/// The present date for a header.
std::string http_date();

/// The server's sockets and connections.
class HttpServer::Core : public std::enable_shared_from_this<HttpServer::Core> {
 public:
  class Exchange;
  class Connection;
  /// A connection's place in one of the lists below.
  class Place {
   public:
    void take(std::list<Connection*>& list, Connection* connection) {
      leave();
      list_ = &list;
      at_ = list.insert(list.end(), connection);
    }
    void leave() {
      if (list_) std::exchange(list_, nullptr)->erase(at_);
    }

   private:
    std::list<Connection*>* list_ = nullptr;
    std::list<Connection*>::iterator at_{};
  };

  Core(ServerOptions options, const Router& router, RefusalAnswer refusal_answer, Doorkeeper doorkeeper);

  void listen();
  void run();
  void accept();
  /// Writes the connection's data at the end of the turn, after all that the turn adds.
  void write_soon(std::shared_ptr<Connection> connection);
  /// Has the connection's handshake begun, in the turn of its address.
  void shake_hands_soon(std::shared_ptr<Connection> connection);
  /// Gives it a place among those that shake hands; where there is none the oldest gives way.
  void begin_handshake(Connection& connection);
  /// Answers have grown by so many bytes, or shrunk (below 0).
  void count_answer_bytes(std::ptrdiff_t bytes);
  std::size_t answer_bytes() const { return answer_bytes_; }
  std::size_t newcomers() const { return door_.line.size(); }
  void sweep_later();
  void close_all();
  void aside(Loop::Side side, std::function<void()> work, std::function<void()> then);
  /// Counts and reports an exception.
  void note_failure(std::string_view reason);

  const ServerOptions options;
  const Proxies proxies;
  const Router& router;
  const RefusalAnswer refusal_answer;
  const Doorkeeper doorkeeper;
  std::unordered_set<Connection*> connections;     // outlives the context, which ends them
  std::map<std::string, std::size_t> per_address;  ///< number of connections, newcomers included
  /// Connections that await a complete head, the oldest first: for their first request; for a later one.
  std::list<Connection*> before_first, between;
  std::list<Connection*> handshakes;            ///< those that are under way, the oldest first
  std::shared_ptr<const TlsIdentity> identity;  ///< for new connections; null: no TLS
  std::function<void(std::string_view)> on_failure;
  OnRefused on_refused;
  OnAnswered on_answered;
  std::vector<std::string> kept_headers;  ///< of requests that a handler has
  /// The buffer for reads; nothing in it outlives a turn.
  std::array<char, std::size_t{64} * 1024> scratch;
  const std::shared_ptr<BytePot> body_bytes, upload_bytes;
  TurnClock turns;
  ServerCounters counters;  ///< without the answers
  /// By route (null: there was none) and status.
  std::map<std::pair<const Route*, int>, std::uint64_t> answers;
  std::size_t busy = 0;
  bool draining = false;
  std::string date = http_date();
  asio::io_context context{1};
  tcp::acceptor acceptor{context};

 private:
  /// A connection whose first byte was not read yet.
  struct Newcomer {
    tcp::socket socket;
    std::string address, whose;
  };

  void on_accept(error_code error, tcp::socket socket);
  void take(tcp::socket socket);
  void begin_some();
  void shake_some_hands();
  void write_all();
  void cut_largest_answers();
  /// Takes a place for a connection. Returns the bound that refuses it; empty: it has a place.
  std::string_view take_place(std::string_view address, const std::string& whose);
  bool make_room();
  /// Holds a reference to each, since closing one may destroy others.
  std::vector<std::shared_ptr<Connection>> held_connections() const;

  /// New connections until they are read.
  struct Door {
    tcp::endpoint from;  ///< of the last one
    FairLine<Newcomer> line;
    bool opens_soon = false;
    bool more_outside = false;  ///< the system's queue has more
  };
  Door door_;
  FairLine<std::shared_ptr<Connection>> greeting_;  ///< connections whose handshake is to begin
  bool greets_soon_ = false;
  std::vector<std::shared_ptr<Connection>> writing_, written_;
  std::size_t answer_bytes_ = 0;
  bool cutting_soon_ = false;
  asio::steady_timer accept_pause_{context}, sweep_timer_{context};
  std::array<std::unique_ptr<SideThread>, Loop::kSides> sides_;  ///< null after the end
};

}  // namespace lanemq::http
