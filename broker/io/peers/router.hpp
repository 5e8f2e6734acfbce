// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>
#include <zmq.hpp>

#include <lanemq/blob.hpp>

#include "broker/core/base/string_hash.hpp"
#include "common/zmq/message.hpp"

namespace lanemq::io {

/// How a ROUTER socket is set up.
struct RouterOptions {
  std::string endpoint;              ///< to bind; tcp://127.0.0.1:* picks a port
  int receive_hwm = 1000;            ///< messages waiting to be read, for each peer
  int send_hwm = 1000;               ///< messages waiting to be sent, for each peer
  std::int64_t frame_bytes_max = 0;  ///< a peer that sends a larger frame is disconnected
  std::int64_t large_bytes_max = 0;  ///< bytes of large bodies waiting to be sent, for each peer
  std::string inner{};               ///< bound as well: for this process; empty: none
  bool private_file = false;         ///< the file of an ipc endpoint is for its owner and group alone
  std::string secret_key{};          ///< encrypts, and has peers show keys; empty: neither
  std::string zap_domain{};          ///< what ZapHandler is told of who connects; empty: it is not asked
};

/// The first frame of an envelope as Incoming packs it; empty: there is none.
std::string_view first_frame(std::string_view envelope);

/// One received message. Used again for the next one; views are valid until the next receive().
class Incoming : public socket::Message {
 public:
  std::string_view address() const { return socket::view_of(address_); }
  /// The frames in front of the header, packed: a 16-bit length before each.
  std::string_view envelope() const { return envelope_; }
  /// Whether the peer is a REQ: the last frame before the header is empty.
  bool from_req() const { return from_req_; }
  /// The peer's name from the ZAP handler: its public key; empty: no key was asked for.
  std::string_view user_id() const { return property("User-Id"); }
  /// Whether it was held since it came: it is not held again, and its connection may have ended.
  bool was_held() const { return was_held_; }
  void note_held() { was_held_ = true; }

 private:
  friend class Router;
  const char* keep_envelope_frame(std::string_view frame);

  zmq::message_t address_;
  std::string envelope_;
  bool from_req_ = false, was_held_ = false;
};

enum class SendStatus : std::uint8_t {
  sent,
  gone,  ///< no peer has this address
  slow,  ///< the peer's bound is reached
};

/// An endpoint cannot be bound; says which one, and why.
class BindError : public std::runtime_error {
 public:
  /// `error`: libzmq's number.
  BindError(const std::string& endpoint, int error);
  BindError(const std::string& endpoint, const std::string& reason)
      : std::runtime_error(endpoint + ": " + reason), reason_(reason) {}

  const std::string& reason() const { return reason_; }

 private:
  std::string reason_;
};

/// Why an ipc endpoint cannot be bound: something else than a socket is there, or somebody listens. libzmq
/// would remove either. None: it can, or it is no ipc endpoint with a file.
std::optional<std::string> why_no_socket_file(const std::string& endpoint);

/// A bound ROUTER socket: MANDATORY, never blocking, with one function that sends. Not thread-safe; belongs
/// to the loop.
class Router {
 public:
  /// Throws BindError.
  Router(zmq::context_t& context, const RouterOptions& options);

  /// The endpoint with its actual port.
  std::string endpoint() const;
  /// Takes the next message; false when none is waiting.
  bool receive(Incoming& message);
  /// Sends the whole message or nothing. `envelope`: packed as in Incoming. An empty body is not a frame.
  SendStatus send(std::string_view address, std::string_view envelope, std::string_view header,
                  const Blob& body);

  /// From now on the peer at that address counts as gone, although its connection lives: libzmq cannot end
  /// it. The latest kShutOutMax are remembered.
  void shut_out(std::string_view address);
  /// Takes that back.
  void let_in(std::string_view address) {
    if (!shut_out_.empty()) shut_out_.erase(address);
  }

  zmq::socket_t& handle() { return socket_; }
  bool is_encrypted() const { return is_encrypted_; }
  /// How long queued messages may still leave after the socket is closed.
  void set_linger(std::chrono::milliseconds time) {
    socket_.set(zmq::sockopt::linger, static_cast<int>(time.count()));
  }

 private:
  static constexpr std::size_t kShutOutMax = 65536;

  std::shared_ptr<socket::Outstanding> outstanding_of(std::string_view address);

  zmq::socket_t socket_;
  std::int64_t large_bytes_max_;
  bool is_encrypted_;
  // High-water marks count messages; these count bytes of large bodies that libzmq still holds.
  absl::flat_hash_map<std::string, std::shared_ptr<socket::Outstanding>, core::StringHash, core::StringEqual>
      outstanding_;
  absl::flat_hash_set<std::string, core::StringHash, core::StringEqual> shut_out_;
};

}  // namespace lanemq::io
