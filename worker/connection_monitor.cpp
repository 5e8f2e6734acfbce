// SPDX-License-Identifier: Apache-2.0
#include "worker/connection_monitor.hpp"

#include <utility>

namespace lanemq::worker {

void ConnectionMonitor::watch(zmq::context_t& context, zmq::socket_t& socket) {
  monitor_ = socket::Monitor(context, socket, ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED);
  was_connected_ = shaken_ = false;
  unshaken_ = 0;
}

bool ConnectionMonitor::reconnected() {
  bool again = false;
  while (const auto event = monitor_.next()) {
    if (event->number == ZMQ_EVENT_DISCONNECTED) {
      if (!std::exchange(shaken_, false)) ++unshaken_;
      continue;
    }
    again = was_connected_;
    was_connected_ = shaken_ = true;
    unshaken_ = 0;
  }
  return again;
}

}  // namespace lanemq::worker
