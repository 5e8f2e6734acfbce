// SPDX-License-Identifier: Apache-2.0
#include "worker/connection_monitor.hpp"

#include <string>

namespace lanemq::worker {

void ConnectionMonitor::watch(zmq::context_t& context, zmq::socket_t& socket) {
  forget();
  const std::string address = "inproc://connection-monitor-" + std::to_string(++watches_);
  if (zmq_socket_monitor(socket.handle(), address.c_str(), ZMQ_EVENT_HANDSHAKE_SUCCEEDED) != 0)
    throw zmq::error_t();
  watched_ = &socket;
  was_connected_ = false;
  events_ = zmq::socket_t(context, zmq::socket_type::pair);
  events_.set(zmq::sockopt::linger, 0);
  events_.connect(address);
}

void ConnectionMonitor::forget() {
  if (!watched_) return;
  zmq_socket_monitor(watched_->handle(), nullptr, 0);
  watched_ = nullptr;
  events_.close();
}

bool ConnectionMonitor::reconnected() {
  bool again = false;
  zmq::message_t frame;
  // Each event is two frames, its number and the endpoint; only the one was asked for.
  while (events_.recv(frame, zmq::recv_flags::dontwait)) {
    if (frame.more()) continue;
    again = was_connected_;
    was_connected_ = true;
  }
  return again;
}

}  // namespace lanemq::worker
