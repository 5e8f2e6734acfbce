// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <absl/container/flat_hash_map.h>
#include <zmq.hpp>

#include <lanemq/blob.hpp>

#include "broker/core/base/string_hash.hpp"

namespace lanemq::io {

/// How a ROUTER socket is set up. Every figure is a bound.
struct RouterOptions {
  std::string endpoint;              ///< to bind; tcp://127.0.0.1:* picks a port
  int receive_hwm = 1000;            ///< messages waiting to be read, for each peer
  int send_hwm = 1000;               ///< messages waiting to be sent, for each peer
  std::int64_t frame_bytes_max = 0;  ///< a peer that sends a larger frame is disconnected
  std::int64_t large_bytes_max = 0;  ///< bytes of large bodies waiting to be sent, for each peer
  bool private_file = false;         ///< the file of an ipc endpoint is for its owner and group alone
};

/// One message as it came. Used again from message to message; views live until the next receive().
class Incoming {
 public:
  std::string_view address() const { return view(address_); }
  /// Of the connection that it came by; -1 where the transport does not say. Requires: its body has not been
  /// taken. (The address does not always say it: not when it was read by a poll.)
  int descriptor() const { return zmq_msg_get(header_.handle(), ZMQ_SRCFD); }
  /// The frames in front of the header, packed: a 16-bit length before each.
  std::string_view envelope() const { return envelope_; }
  std::string_view header() const { return view(header_); }
  /// The frame behind the header, if there is one.
  std::optional<std::string_view> body_frame() const {
    return has_body_ ? std::optional(view(body_)) : std::nullopt;
  }
  /// The peer is a REQ: the last frame before the header is empty.
  bool from_req() const { return from_req_; }
  /// Null, or why this is not a message: no header, or frames too many.
  const char* fault() const { return fault_; }

  /// The body frame's bytes, or those inside the header that the decoder found. Large ones take the network's
  /// buffer with them, small ones are borrowed from it.
  Blob take_body(std::string_view inside, std::size_t borrow_max);

 private:
  friend class Router;
  static std::string_view view(const zmq::message_t& frame) {
    return {static_cast<const char*>(frame.data()), frame.size()};
  }
  static Blob adopt(zmq::message_t& frame, std::string_view bytes);

  zmq::message_t address_, header_, body_;
  std::string envelope_;
  bool has_body_ = false, from_req_ = false;
  const char* fault_ = nullptr;
};

enum class SendStatus : std::uint8_t {
  sent,
  gone,  ///< nobody is at this address
  slow,  ///< the peer's bound is reached
};

/// A bound ROUTER socket under the rules that keep one: MANDATORY, never blocking, and one function that
/// sends. Not thread-safe; belongs to the loop.
class Router {
 public:
  /// Throws zmq::error_t when the endpoint cannot be bound.
  Router(zmq::context_t& context, const RouterOptions& options);

  /// The endpoint with the port that was picked.
  std::string endpoint() const;
  /// Takes the next message; false when none is waiting.
  bool receive(Incoming& message);
  /// Sends one message or none of it. `envelope` as Incoming packs it; an empty body is no frame.
  SendStatus send(std::string_view address, std::string_view envelope, std::string_view header,
                  const Blob& body);

  zmq::socket_t& handle() { return socket_; }
  /// Leaves what is queued this long to go out once the socket is closed.
  void set_linger(std::chrono::milliseconds time) {
    socket_.set(zmq::sockopt::linger, static_cast<int>(time.count()));
  }

 private:
  using Outstanding = std::atomic<std::int64_t>;

  std::shared_ptr<Outstanding> outstanding_of(std::string_view address);
  zmq::message_t lend(const Blob& body, std::shared_ptr<Outstanding> outstanding);

  zmq::socket_t socket_;
  std::int64_t large_bytes_max_;
  // High-water marks count messages; these count the bytes of large bodies that libzmq has not let go of.
  absl::flat_hash_map<std::string, std::shared_ptr<Outstanding>, core::StringHash, core::StringEqual>
      outstanding_;
};

}  // namespace lanemq::io
