// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <zmq.hpp>

#include <lanemq/blob.hpp>

#include "client/session.hpp"

namespace lanemq::client {

/// What happened to a connection.
enum class LinkEvent : unsigned char { connected, disconnected };

/// A message as it came: the header, and a body where it had a frame of its own.
struct Received {
  std::string_view header;  ///< lives until the next receive(); empty: the message has no LMQ1 header
  std::optional<Blob> body;
  bool malformed = false;  ///< too many frames, or frames behind the body
};

/// The socket to the broker and what watches it, replaced as one. Not thread-safe: one thread at a time.
class Link {
 public:
  /// Begins to connect. Throws std::invalid_argument when the endpoint is not one, std::runtime_error when
  /// there are no descriptors. `body_bytes_max` bounds what a message may hold.
  Link(std::string endpoint, std::size_t body_bytes_max);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// Makes a new socket in the place of the old one; what the old one had not sent is forgotten, and what it
  /// had received must have been read. Throws like the constructor, and then keeps the old one.
  void reopen();

  /// Puts a message on its way; false: no room, and nothing was sent.
  bool send(const Outgoing& outgoing);
  /// The next message; false: none is there.
  bool receive(Received& received);
  /// What happened to the connection since it was asked last.
  std::optional<LinkEvent> next_event();

  /// Sleeps until there is something to receive, an event, room to send (where asked for), `wake_fd` is
  /// readable or the time is over. Empty: no limit.
  void wait(std::optional<std::chrono::milliseconds> timeout, bool for_room, int wake_fd);

 private:
  struct Ends {
    zmq::socket_t socket, monitor;
  };
  Ends make_ends();

  std::shared_ptr<zmq::context_t> context_;
  std::string endpoint_;
  std::int64_t frame_bytes_max_;
  Ends ends_;
  zmq::message_t header_;
};

}  // namespace lanemq::client
