// SPDX-License-Identifier: Apache-2.0
#include "common/zmq/monitor.hpp"

#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include "common/zmq/message.hpp"

namespace lanemq::socket {
namespace {

/// A new inproc endpoint for each monitor: several sockets share a context.
std::string next_endpoint() {
  static std::atomic<std::uint64_t> made{0};
  return "inproc://lanemq-monitor-" + std::to_string(++made);
}

}  // namespace

Monitor::Monitor(zmq::context_t& context, zmq::socket_t& socket, int events)
    : events_(context, zmq::socket_type::pair) {
  const std::string endpoint = next_endpoint();
  if (zmq_socket_monitor(socket.handle(), endpoint.c_str(), events) != 0) throw zmq::error_t();
  watched_ = socket.handle();
  events_.set(zmq::sockopt::linger, 0);
  // No bound: at one, the network's own thread would wait for the reader.
  events_.set(zmq::sockopt::rcvhwm, 0);
  events_.connect(endpoint);
}

Monitor& Monitor::operator=(Monitor&& other) noexcept {
  if (this == &other) return *this;
  end();
  watched_ = std::exchange(other.watched_, nullptr);
  events_ = std::move(other.events_);
  return *this;
}

void Monitor::end() {
  // The socket must stop sending events before their reader is closed.
  if (watched_ != nullptr) zmq_socket_monitor(std::exchange(watched_, nullptr), nullptr, 0);
  events_.close();
}

std::optional<Monitor::Event> Monitor::next() {
  if (watched_ == nullptr) return std::nullopt;
  zmq::message_t frame, endpoint;
  // An event has two frames: its number and value, and the endpoint.
  if (!uninterrupted([&] { return events_.recv(frame, zmq::recv_flags::dontwait).has_value(); }))
    return std::nullopt;
  if (frame.more()) static_cast<void>(uninterrupted([&] { return events_.recv(endpoint).has_value(); }));
  Event event;
  if (frame.size() != sizeof event.number + sizeof event.value) return event;
  std::memcpy(&event.number, frame.data(), sizeof event.number);
  std::memcpy(&event.value, static_cast<const char*>(frame.data()) + sizeof event.number, sizeof event.value);
  return event;
}

}  // namespace lanemq::socket
