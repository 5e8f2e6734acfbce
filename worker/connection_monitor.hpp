// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <zmq.hpp>

#include "common/zmq/monitor.hpp"

namespace lanemq::worker {

/// Tells when a socket's one connection was lost and made anew. ZeroMQ does that by itself and says nothing,
/// but to a broker the worker is then a stranger: the sooner it introduces itself again, the sooner it gets
/// work.
///
/// A hint: without it the next heartbeat would find out.
class ConnectionMonitor {
 public:
  /// Watches `socket`, which has not been connected yet, instead of any other. Requires: forget() comes
  /// before the socket is closed.
  void watch(zmq::context_t& context, zmq::socket_t& socket);
  /// Ends the watch, if there is one.
  void forget() { monitor_ = {}; }
  /// Whether the connection was made anew since the last call; the first one of a socket does not count.
  bool reconnected();
  /// Becomes readable when reconnected() has something to say, if that was asked before. Requires: a socket
  /// is watched.
  int descriptor() const { return monitor_.descriptor(); }

 private:
  socket::Monitor monitor_;
  bool was_connected_ = false;
};

}  // namespace lanemq::worker
