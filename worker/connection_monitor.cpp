// SPDX-License-Identifier: Apache-2.0
#include "worker/connection_monitor.hpp"

namespace lanemq::worker {

void ConnectionMonitor::watch(zmq::context_t& context, zmq::socket_t& socket) {
  monitor_ = socket::Monitor(context, socket, ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
  was_connected_ = false;
}

bool ConnectionMonitor::reconnected() {
  bool again = false;
  while (const auto event = monitor_.next()) {
    if (event->number != ZMQ_EVENT_HANDSHAKE_SUCCEEDED) continue;
    again = was_connected_;
    was_connected_ = true;
  }
  return again;
}

}  // namespace lanemq::worker
