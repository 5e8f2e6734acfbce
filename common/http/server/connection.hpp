// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/http/request_reader.hpp"
#include "common/http/server/base/responder.hpp"
#include "common/http/server/base/tls.hpp"
#include "common/http/server/bodies/body_buffer.hpp"
#include "common/http/server/bodies/spool.hpp"
#include "common/http/server/server_core.hpp"

namespace lanemq::http {

/// A piece to be written: its framing, its bytes, and the callback.
struct Piece {
  std::string head{};
  Blob bytes{};
  std::string_view tail{};
  std::function<void()> written{};

  std::size_t size() const { return head.size() + bytes.size() + tail.size(); }
};

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
  std::size_t unwritten() const { return unwritten_; }

 private:
  friend class Exchange;
  friend class Core;

  // TLS.
  bool begin_encryption();
  void wait_for_handshake();
  void shake_hands();
  void refuse_unencrypted();
  void end_handshake();
  std::size_t read_bytes(char* to, std::size_t size, error_code& error);
  std::size_t write_bytes(error_code& error);

  // Reading.
  void await_head(std::list<Connection*>& waiting);
  void await_no_head();
  void wait_to_read();
  void on_readable();
  void on_end_of_input();
  void look_for_end();
  bool has_peer_closed();
  void feed(std::string_view bytes);
  void feed_ahead();
  void on_head(bool body_has_come);
  void take_body(std::string_view piece);
  void refuse_for_room(BytePot::Over over, std::size_t wanted, const BytePot& pot, std::string_view bound);
  void drop_body();
  bool spool_body();
  void on_spooled();
  void end_body();
  void take_spooled(Blob body);
  void dispatch();
  std::string bound() const;
  void answer_options(const std::string& allowed);
  void refuse(Refusal refusal, std::string_view detail);
  void refuse_with(HttpAnswer answer);
  void refuse_unreadable();
  void become_busy();
  void become_idle();
  void begin_exchange();
  void broken(std::string_view reason);

  // Answering.
  void send_head(int status, const Headers& headers, std::optional<std::size_t> length);
  void send(Piece piece);
  void wait_to_write();
  std::size_t unacknowledged();
  void note_written(std::size_t bytes);
  void exchange_over();
  void next_request();
  void caller_is_gone();
  bool is_too_slow(TimePoint now);
  void close();
  void close_after_reading();

  const std::shared_ptr<Core> owner_;
  Core& core_;
  tcp::socket socket_;
  const std::shared_ptr<const TlsIdentity> identity_;  ///< null: this server speaks no TLS
  std::unique_ptr<TlsStream> tls_;                     ///< null: not begun, or there is none
  std::list<Connection*>::iterator shakes_at_{};       ///< its place in Core::handshakes
  bool in_handshake_ = false;                          ///< has such a place
  const std::string address_, whose_;
  RequestReader reader_;
  std::string ahead_;  ///< data behind the request that is served
  BodyBuffer body_;
  HttpRequest request_;
  const Route* route_ = nullptr;
  std::weak_ptr<Exchange> exchange_;
  BytePot::Hold body_room_;                           ///< of body_
  std::vector<std::string> holders_;                  ///< in whose shares the body counts
  std::shared_ptr<Spool> spool_;                      ///< null: the body is in memory
  int spooling_ = 0;                                  ///< pieces on their way to the spool
  std::size_t body_came_ = 0, body_came_before_ = 0;  ///< in total; and before the present window of the rate
  std::size_t discarded_ = 0;

  std::list<Connection*>* waiting_ = nullptr;  ///< its place among connections without a complete head
  std::list<Connection*>::iterator waits_at_{};

  std::optional<std::uint64_t> content_length_;
  bool waiting_to_read_ = false;
  bool busy_ = false;        ///< a request is read or served, and counted in Core::busy
  bool exchanging_ = false;  ///< a request is with its handler, or its answer on its way
  bool answered_ = false;    ///< all of the answer is in out_
  bool keep_alive_ = true;
  bool chunked_ = false;  ///< the answer has chunked framing
  bool http_1_0_ = false, head_only_ = false;
  bool held_back_ = false;    ///< its answer waits: nothing is read, so that who tries keys fills no buffers
  bool body_unread_ = false;  ///< the request's body was not read to its end
  bool peer_closed_ = false;  ///< nothing more will come
  bool closing_ = false;      ///< the answer was sent; what comes is read and dropped
  bool closed_ = false;
  bool cut_ = false;

  std::deque<Piece> out_;
  std::size_t out_offset_ = 0;  ///< of the first piece: what was written
  std::size_t unwritten_ = 0;   ///< of all pieces; counted in Core::answer_bytes
  std::size_t on_the_way_ = 0;  ///< what the reader lacked at the last look
  bool writing_ = false;

  TimePoint read_due_ = TimePoint::max(), write_due_ = TimePoint::max(), body_due_ = TimePoint::max(),
            rate_due_ = TimePoint::max();
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
