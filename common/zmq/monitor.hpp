// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include <zmq.hpp>

namespace lanemq::socket {

/// Reports events of a socket's connections (zmq_socket_monitor(3)). Not thread-safe; belongs to the socket's
/// thread.
class Monitor {
 public:
  /// Watches no socket.
  Monitor() = default;
  /// Watches `socket`, which is not bound or connected yet, for `events` (ZMQ_EVENT_...). Throws zmq::error_t
  /// where the system has no room for it. Requires: this is destroyed or assigned to before the socket is
  /// moved or closed.
  Monitor(zmq::context_t& context, zmq::socket_t& socket, int events);
  ~Monitor() { end(); }
  Monitor(Monitor&& other) noexcept { *this = std::move(other); }
  Monitor& operator=(Monitor&& other) noexcept;

  struct Event {
    std::uint16_t number = 0;  ///< ZMQ_EVENT_...
    std::int32_t value = 0;    ///< its meaning depends on the event; often the connection's descriptor
  };
  /// The next event; none: nothing more has happened, or no socket is watched.
  std::optional<Event> next();
  /// Becomes readable when next() has an event, once next() has returned none. Requires: a socket is watched.
  int descriptor() const { return events_.get(zmq::sockopt::fd); }
  zmq::socket_ref handle() { return events_; }

 private:
  void end();

  void* watched_ = nullptr;
  zmq::socket_t events_;
};

}  // namespace lanemq::socket
