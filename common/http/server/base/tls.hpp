// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace lanemq::http {

/// What became of a step of a TLS connection.
enum class TlsStep : unsigned char {
  done,
  wants_read,   ///< once the socket is readable, the same again
  wants_write,  ///< once it is writable
  ended,        ///< the peer has closed, in TLS or below it
  broken        ///< the peer breaks the protocol, or speaks none of ours
};

/// One connection: TLS over a socket that does not block. Allocates about 20 KiB.
class TlsStream {
 public:
  struct Impl;
  explicit TlsStream(std::unique_ptr<Impl> impl);
  ~TlsStream();

  /// Goes on with the handshake.
  TlsStep handshake();
  /// Reads up to `size` bytes; `came`: how many.
  TlsStep read(char* to, std::size_t size, std::size_t& came);
  /// Writes a part of the data, one record at most; `went`: how much. After wants_write the same data, or
  /// more behind it, has to follow.
  TlsStep write(std::string_view data, std::size_t& went);
  /// Whether bytes were decrypted that no read has taken: the socket may not become readable for them.
  bool holds_bytes() const;
  /// Tells the peer that nothing more follows. To be called once at most, and not after `broken`.
  void say_end();

 private:
  std::unique_ptr<Impl> impl_;
};

/// A certificate with its key, and the rules for connections: TLS 1.2 or 1.3, ciphers with forward secrecy,
/// HTTP/1.1.
///
/// Connections keep what they need: it may be replaced while they go on.
class TlsIdentity {
 public:
  struct Impl;
  /// Reads PEM files: a certificate with its chain, and its key. Throws std::runtime_error, which names the
  /// file and what is wrong with it.
  static std::shared_ptr<const TlsIdentity> read(const std::string& certificate, const std::string& key);
  explicit TlsIdentity(std::unique_ptr<Impl> impl);
  ~TlsIdentity();

  /// The server's side of a new connection. The socket remains the caller's.
  std::unique_ptr<TlsStream> accept(int socket) const;
  /// When the certificate ends, for people: `Nov 23 16:00:00 2027 GMT`, and how long that is from now.
  std::string ends() const;
  std::chrono::seconds left() const;

 private:
  std::unique_ptr<Impl> impl_;
};

/// Whether the first byte of a connection begins a TLS handshake.
constexpr bool begins_tls(char first) {
  return first == 0x16;
}

}  // namespace lanemq::http
