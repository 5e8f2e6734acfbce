// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <zmq.hpp>

#include "common/zmq/monitor.hpp"

namespace lanemq::worker {

/// Tells when a socket's only connection was made anew. ZeroMQ reconnects by itself and silently, but the
/// broker does not know the new connection: the sooner the worker introduces itself, the sooner it gets work.
/// A hint: else the next heartbeat finds out.
class ConnectionMonitor {
 public:
  /// Watches `socket`, which is not connected yet, and no other one. Requires: forget() is called before the
  /// socket is closed.
  void watch(zmq::context_t& context, zmq::socket_t& socket);
  /// Ends the watch.
  void forget() { monitor_ = {}; }
  /// Whether the connection was made anew since the last call; a socket's first connection does not count.
  bool reconnected();
  /// Whether nobody listens where a connection is to be made. Of what reconnected() has seen.
  bool finds_nobody() const { return nobody_; }
  /// Whether connections were ended before both sides had introduced themselves, several in a row: who
  /// listens there does not speak ZeroMQ. Of what reconnected() has seen.
  bool meets_strangers() const { return unshaken_ >= kStrangersFrom; }
  /// Why the connections ended so, as far as ZeroMQ knows. Where one side encrypts and the other does not,
  /// whoever notices first ends the connection, and often the other one then knows no reason: a later
  /// connection may tell.
  enum class Why : unsigned char {
    unknown,
    key_refused,     ///< the broker does not take the key
    other_security,  ///< one side encrypts and the other does not
  };
  Why why() const { return why_; }
  /// Whether why() has the reason, or so many connections ended without any that there is none to come.
  bool knows_why() const { return why_ != Why::unknown || unshaken_ >= kNoReasonFrom; }
  /// Becomes readable when reconnected() has news, once reconnected() has returned false. Requires: a socket
  /// is watched.
  int descriptor() const { return monitor_.descriptor(); }

 private:
  static constexpr int kStrangersFrom = 3, kNoReasonFrom = 8;

  void note_end(const socket::Monitor::Event& event);

  socket::Monitor monitor_;
  bool was_connected_ = false, shaken_ = false;
  bool pauses_ = false;  ///< ZeroMQ tells next how long it waits after a connection has ended
  bool nobody_ = false;
  Why why_ = Why::unknown;
  int unshaken_ = 0;  ///< connections that ended before the handshake, since one succeeded
};

}  // namespace lanemq::worker
