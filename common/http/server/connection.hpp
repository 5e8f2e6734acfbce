// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/http/request_reader.hpp"
#include "common/http/server/base/responder.hpp"
#include "common/http/server/intake.hpp"
#include "common/http/server/outgoing.hpp"
#include "common/http/server/phase.hpp"
#include "common/http/server/server_core.hpp"
#include "common/http/server/wire.hpp"

namespace lanemq::http {

/// One connection: reads a request, has it answered, reads the next one. Pending operations and the exchange
/// keep it alive. An exception on its behalf closes it and nothing else.
class HttpServer::Core::Connection : public std::enable_shared_from_this<Connection> {
 public:
  /// `address`: of the peer; `whose`: in whose share it counts.
  Connection(Core& core, tcp::socket socket, std::string address, std::string whose);
  ~Connection();

  void start();
  /// Runs `work` for this connection; catches its exceptions.
  template <class Work>
  void guarded(Work work);
  void write_some();
  void sweep(TimePoint now);
  void end() { caller_is_gone(); }
  /// Bytes of its answer that the system has not accepted.
  std::size_t unwritten() const { return out_.unwritten(); }

 private:
  friend class Exchange;
  friend class Core;

  /// What follows the present answer.
  enum class After : unsigned char {
    next_request,
    discard,  ///< what comes is dropped, then the connection is closed
    close,    ///< the answer was cut
  };
  /// How the present answer is framed.
  struct Framing {
    bool http_1_0 = false;
    bool head_only = false;  ///< to HEAD
    bool chunked = false;
  };
  /// What comes, and until when it has to.
  struct Input {
    std::string ahead;  ///< pipelined data: what came while a request is served
    std::size_t discarded = 0;
    TimePoint due = TimePoint::max();
    bool waiting = false;      ///< for the socket
    bool held_back = false;    ///< its answer waits: nothing is read, so that who tries keys fills no buffers
    bool body_unread = false;  ///< the request's body was not read to its end
    bool ended = false;        ///< nothing more will come
  };

  void close_after_answer() { after_ = std::max(after_, After::discard); }

  // TLS.
  bool begin_encryption();
  void wait_for_handshake();
  void shake_hands();
  void refuse_unencrypted();

  // Reading.
  void wait_to_read();
  void on_readable();
  void on_end_of_input();
  void look_for_end();
  void feed(std::string_view bytes);
  void feed_ahead();
  void on_head(bool body_has_come);
  bool take_head();
  void await_body(bool says_so);
  void on_spooled();
  void end_body();
  void take_spooled(Blob body);
  void dispatch();
  void answer_options(const std::string& allowed);
  void refuse(Refusal refusal, std::string_view detail);
  void refuse_with(HttpAnswer answer);
  void refuse_unreadable();
  void rest();
  std::shared_ptr<Exchange> begin_exchange();
  void broken(std::string_view reason);

  // Answering.
  void send_head(int status, const Headers& headers, std::optional<std::size_t> length);
  void send(Piece piece);
  void exchange_over();
  void next_request();
  void caller_is_gone();
  void close();
  void close_after_reading();

  const std::shared_ptr<Core> owner_;
  Core& core_;
  Wire wire_;
  const std::string address_, whose_;
  Progress progress_;
  Place handshake_, without_head_;
  RequestReader reader_;
  Input input_;
  std::optional<std::uint64_t> length_;  ///< of the body, as its head says
  Intake intake_;
  HttpRequest request_;
  const Route* route_ = nullptr;
  std::weak_ptr<Exchange> exchange_;
  Framing framing_;
  After after_ = After::next_request;
  Outgoing out_;
};

template <class Work>
void HttpServer::Core::Connection::guarded(Work work) {
  const TurnClock::Turn noted(core_.turns);
  try {
    work();
  } catch (const std::exception& error) {
    broken(error.what());
  } catch (...) {
    broken("something that is no std::exception");
  }
}

}  // namespace lanemq::http
