// SPDX-License-Identifier: Apache-2.0
#include "worker/links/connection_monitor.hpp"

#include <utility>

namespace lanemq::worker {

void ConnectionMonitor::watch(zmq::context_t& context, zmq::socket_t& socket) {
  monitor_ =
      socket::Monitor(context, socket,
                      ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CONNECT_RETRIED |
                          ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL);
  was_connected_ = shaken_ = pauses_ = nobody_ = false;
}

bool ConnectionMonitor::reconnected() {
  bool again = false;
  while (const auto event = monitor_.next()) {
    if (event->number != ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
      note_end(*event);
      continue;
    }
    why_ = Why::unknown;
    again = was_connected_;
    was_connected_ = shaken_ = true;
    pauses_ = nobody_ = false;
    unshaken_ = 0;
  }
  return again;
}

void ConnectionMonitor::note_end(const socket::Monitor::Event& event) {
  if (event.number == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) {
    why_ = Why::key_refused;
    unshaken_ = kStrangersFrom;  // it will not take the key the next time
  } else if (event.number == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL) {
    if (event.value != ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH) return;
    why_ = Why::other_security;
    unshaken_ = kStrangersFrom;  // ZeroMQ makes no further connection on this socket
  } else if (event.number == ZMQ_EVENT_CONNECT_RETRIED) {
    if (!std::exchange(pauses_, false)) nobody_ = true;
  } else {
    pauses_ = true;
    if (!std::exchange(shaken_, false)) ++unshaken_;
  }
}

}  // namespace lanemq::worker
