// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <zmq.hpp>

namespace lanemq::worker {

/// Tells when a socket's one connection was lost and made anew. ZeroMQ does that by itself and says nothing,
/// but to a broker the worker is then a stranger: the sooner it introduces itself again, the sooner it gets
/// work.
///
/// A hint: without it the next heartbeat would find out.
class ConnectionMonitor {
 public:
  ConnectionMonitor() = default;
  ~ConnectionMonitor() { forget(); }
  ConnectionMonitor(const ConnectionMonitor&) = delete;
  ConnectionMonitor& operator=(const ConnectionMonitor&) = delete;

  /// Watches `socket`, which has not been connected yet, instead of any other. Requires: forget() comes
  /// before the socket is closed.
  void watch(zmq::context_t& context, zmq::socket_t& socket);
  /// Ends the watch, if there is one.
  void forget();
  /// Whether the connection was made anew since the last call; the first one of a socket does not count.
  bool reconnected();
  /// Becomes readable when reconnected() has something to say, if that was asked before. Requires: a socket
  /// is watched.
  int descriptor() const { return events_.get(zmq::sockopt::fd); }

 private:
  zmq::socket_t* watched_ = nullptr;
  zmq::socket_t events_;
  bool was_connected_ = false;
  unsigned watches_ = 0;  ///< so far; each has an address of its own
};

}  // namespace lanemq::worker
