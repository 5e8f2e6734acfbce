// SPDX-License-Identifier: Apache-2.0
#include "broker/io/disconnects.hpp"

#include <algorithm>
#include <cstring>

namespace lanemq::io {

Disconnects::Disconnects(zmq::context_t& context, zmq::socket_t& socket, const char* events)
    : events_(context, zmq::socket_type::pair) {
  if (zmq_socket_monitor(socket.handle(), events, ZMQ_EVENT_DISCONNECTED) != 0) throw zmq::error_t();
  events_.set(zmq::sockopt::linger, 0);
  // At a mark the network's own thread would wait for us.
  events_.set(zmq::sockopt::rcvhwm, 0);
  events_.connect(events);
}

void Disconnects::watch(int descriptor, std::string_view address) {
  // What is known to have ended so far was another connection's, if it had the same descriptor.
  read();
  if (descriptor < 0) return;
  std::vector<std::string>& addresses = watched_[descriptor];
  if (std::find(addresses.begin(), addresses.end(), address) != addresses.end()) return;
  if (addresses.size() == kAddressesMax) addresses.erase(addresses.begin());
  addresses.emplace_back(address);
}

void Disconnects::read() {
  zmq::message_t frame;
  // Each event is two frames: its number with a value, here the descriptor, and the endpoint.
  while (events_.recv(frame, zmq::recv_flags::dontwait)) {
    std::int32_t descriptor = -1;
    if (!frame.more() || frame.size() != sizeof(std::uint16_t) + sizeof descriptor) continue;
    std::memcpy(&descriptor, static_cast<const char*>(frame.data()) + sizeof(std::uint16_t),
                sizeof descriptor);
    const auto place = watched_.find(descriptor);
    if (place == watched_.end()) continue;
    gone_.insert(gone_.end(), place->second.begin(), place->second.end());
    watched_.erase(place);
  }
}

}  // namespace lanemq::io
