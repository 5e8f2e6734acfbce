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
#include <lanemq/curve_keys.hpp>
#include <lanemq/endpoints.hpp>

#include "client/library/session.hpp"
#include "common/zmq/address_look.hpp"
#include "common/zmq/message.hpp"
#include "common/zmq/monitor.hpp"

namespace lanemq::client {

/// An event of a connection.
enum class LinkEvent : unsigned char {
  connected,
  disconnected,
  nobody,      ///< nobody listens there, or the name is not known; libzmq tries again
  refused,     ///< the broker does not take the key; libzmq tries again
  other_kind,  ///< one side encrypts and the other does not
};

/// A received message: its header, and its body if that had a frame of its own.
struct Received {
  std::string_view header;  ///< valid until the next receive(); empty: there is no LMQ1 header
  std::optional<Blob> body;
  bool malformed = false;  ///< too many frames, or frames behind the body
};

/// A descriptor that is readable while one of those added to it is.
class Descriptors {
 public:
  /// Throws std::runtime_error where no descriptors are left.
  Descriptors();
  ~Descriptors();
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;

  int fd() const { return fd_; }
  /// Throws as the constructor does.
  void add(int fd);
  void remove(int fd);

 private:
  int fd_;
};

/// The socket to the broker and its monitor, replaced together. Not thread-safe.
class Link {
 public:
  /// Begins to connect. Throws std::invalid_argument for an invalid endpoint, std::runtime_error where no
  /// descriptors are left. `body_bytes_max` bounds received messages. Throws std::invalid_argument for keys
  /// that are unusable, too.
  Link(const std::string& endpoints, CurveKeys keys, std::size_t body_bytes_max);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// Replaces the socket by a new one, at the next endpoint where there are several. Drops what the old one
  /// had not sent. Requires: all that the old one had received was read. Throws as the constructor does, and
  /// then keeps the old one.
  void reopen();
  /// The connection is lost: libzmq makes no new one on this socket, on which it would say what the old one
  /// had not said, beside reopen(). Of one that ended before the handshake nothing was said, and libzmq goes
  /// on trying. Requires: all that was received was read.
  void let_go();

  /// Puts the addresses of names in their place, as far as these have been looked up. Returns how many
  /// endpoints there are then.
  std::size_t take_addresses();
  /// Whether an endpoint has a name, whose address may be another when it is looked up again.
  bool has_names() const { return looks_; }

  /// Goes to `told`, too, where they can be connected to. Returns how many endpoints there are then.
  std::size_t learn(const std::vector<std::string>& told);
  /// Takes these out of the endpoints, as far as they are among them, but never the present one. Returns how
  /// many are left.
  std::size_t forget(const std::vector<std::string>& endpoints);
  const Endpoints& endpoints() const { return endpoints_; }

  /// Sends a message; false: there is no room, and nothing was sent.
  bool send(const Outgoing& outgoing);
  /// The next message; false: there is none.
  bool receive(Received& received);
  /// The next event of the connection since the last call.
  std::optional<LinkEvent> next_event();

  /// Readable when something is to be looked at: a message, an event, or room for a message where there was
  /// none. The same while this lives.
  ///
  /// libzmq signals only after a call has reported that nothing is there, and any call for the socket may
  /// clear the signal. So before waiting the caller must have called receive() or may_go_on() after its last
  /// send, with the answer that nothing is there; and next_event() at least once per socket.
  int fd() const { return watched_.fd(); }
  /// Has fd() be readable while that one is, too. Throws as the constructor does.
  void join(int fd) { watched_.add(fd); }
  void leave(int fd) { watched_.remove(fd); }
  /// Whether there is something to receive or, after a refused send, room to send.
  bool may_go_on() const;

 private:
  struct Ends {
    zmq::socket_t socket;
    socket::Monitor monitor;
  };
  Ends make_ends();
  void connect(zmq::socket_t& socket);
  void look_up();
  std::optional<LinkEvent> take_address();
  void watch(const Ends& ends);
  void unwatch(const Ends& ends);

  std::shared_ptr<zmq::context_t> context_;
  Endpoints endpoints_;
  std::string place_;     // what the socket is connected to; empty: nothing
  bool reached_ = false;  // a handshake has succeeded there
  socket::AddressLook addresses_;
  bool looks_ = false;           // its descriptor is watched
  bool awaits_address_ = false;  // the socket is connected once the present endpoint's name is looked up
  CurveKeys keys_;
  std::int64_t frame_bytes_max_;
  Descriptors watched_;
  Ends ends_;
  socket::Message message_;
};

}  // namespace lanemq::client
