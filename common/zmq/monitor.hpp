// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include <zmq.hpp>

namespace lanemq::socket {

/// Tells what happens to the connections of a socket (zmq_socket_monitor(3)). It is not thread-safe, and
/// belongs to whom the socket belongs.
class Monitor {
 public:
  /// Watches nobody.
  Monitor() = default;
  /// Watches `socket`, which is neither bound nor connected yet, for `events` (ZMQ_EVENT_...). Throws
  /// zmq::error_t where the system has no room for it. Requires: the socket is moved or closed only after
  /// this was destroyed or assigned to.
  Monitor(zmq::context_t& context, zmq::socket_t& socket, int events);
  ~Monitor() { end(); }
  Monitor(Monitor&& other) noexcept { *this = std::move(other); }
  Monitor& operator=(Monitor&& other) noexcept;

  struct Event {
    std::uint16_t number = 0;  ///< ZMQ_EVENT_...
    std::int32_t value = 0;    ///< what it is, the event says: often the connection's file descriptor
  };
  /// The next event; none: nothing more has happened, or nobody is watched.
  std::optional<Event> next();
  /// Becomes readable when next() has something to say, if that was asked before. Requires: a socket is
  /// watched.
  int descriptor() const { return events_.get(zmq::sockopt::fd); }
  zmq::socket_ref handle() { return events_; }

 private:
  void end();

  void* watched_ = nullptr;
  zmq::socket_t events_;
};

}  // namespace lanemq::socket
