// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include <boost/asio/ip/tcp.hpp>

#include "common/http/server/base/tls.hpp"
#include "common/http/server/outgoing.hpp"

namespace lanemq::http {

/// The bytes of a connection, as they are or in TLS, as a socket that does not block. Not thread-safe.
class Wire {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  using ErrorCode = boost::system::error_code;

  /// `identity`: null where the server speaks no TLS.
  Wire(Socket socket, std::shared_ptr<const TlsIdentity> identity);

  Socket& socket() { return socket_; }
  bool speaks_tls() const { return identity_ != nullptr; }
  /// From begin_encryption() on.
  bool is_encrypted() const { return tls_ != nullptr; }
  /// Allocates what TLS needs. Requires: speaks_tls().
  void begin_encryption() { tls_ = identity_->accept(socket_.native_handle()); }
  TlsStep handshake() { return tls_->handshake(); }

  /// What has come and was not read, without reading it. `ended`: there is nothing, and the peer has closed,
  /// or the socket is broken. Not for what is encrypted.
  std::string_view peek(std::span<char> room, bool& ended);
  /// Whether bytes were decrypted that no read has taken: the socket may not become readable for them.
  bool holds_bytes() const { return tls_ && tls_->holds_bytes(); }
  std::size_t read(std::span<char> to, ErrorCode& error);
  /// Writes of what waits; in TLS records that are put together in `scratch` first.
  std::size_t write(const Outgoing& out, std::span<char> scratch, ErrorCode& error);

  /// Whether the peer has closed, even where unread data precedes the end.
  bool has_peer_closed();
  /// Bytes that the system has accepted and the reader has not acknowledged.
  std::size_t unacknowledged();
  /// Nothing more is written; what comes may be read.
  void end_writing();
  void close();

 private:
  Socket socket_;
  const std::shared_ptr<const TlsIdentity> identity_;
  std::unique_ptr<TlsStream> tls_;  ///< null: not begun, or there is none
};

}  // namespace lanemq::http
