// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <zmq.hpp>

#include <lanemq/blob.hpp>

#include "client/library/session.hpp"
#include "common/zmq/message.hpp"
#include "common/zmq/monitor.hpp"

namespace lanemq::client {

/// What happened to a connection.
enum class LinkEvent : unsigned char { connected, disconnected };

/// A message as it came: the header, and a body where it had a frame of its own.
struct Received {
  std::string_view header;  ///< lives until the next receive(); empty: the message has no LMQ1 header
  std::optional<Blob> body;
  bool malformed = false;  ///< too many frames, or frames behind the body
};

/// One descriptor that is readable while one of those added to it is.
class Descriptors {
 public:
  /// Throws std::runtime_error when there are no descriptors.
  Descriptors();
  ~Descriptors();
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;

  int fd() const { return fd_; }
  /// Throws as the constructor.
  void add(int fd);
  void remove(int fd);

 private:
  int fd_;
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

  /// Readable when something happened that was not looked at: a message, an event, room for a message where
  /// there was none. The same one for as long as this lives.
  ///
  /// libzmq gives the sign only to who was told that there is nothing, and takes it away with any call for
  /// the socket, whatever that was for. So whoever waits has called receive() or may_go_on() since it sent,
  /// and the last answer was that there is nothing; next_event() at least once in the life of a socket.
  int fd() const { return watched_.fd(); }
  /// Whether there is something to receive or, for who has been refused, room to send.
  bool may_go_on() const;

 private:
  struct Ends {
    zmq::socket_t socket;
    socket::Monitor monitor;
  };
  Ends make_ends();
  void watch(const Ends& ends);
  void unwatch(const Ends& ends);

  std::shared_ptr<zmq::context_t> context_;
  std::string endpoint_;
  std::int64_t frame_bytes_max_;
  Descriptors watched_;
  Ends ends_;
  socket::Message message_;
};

}  // namespace lanemq::client
