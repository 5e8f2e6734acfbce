// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <absl/container/flat_hash_map.h>
#include <zmq.hpp>

#include "common/zmq/monitor.hpp"

namespace lanemq::io {

/// Tells which watched peers of a bound socket have gone. A ROUTER never reports that: its monitor gives the
/// descriptor of an ended connection, and each message the descriptor it came by.
///
/// A hint, within milliseconds. A peer whose connection broke before its message was read is reported only
/// when the descriptor is used again and that connection ends, too. Not thread-safe; belongs to the loop.
class Disconnects {
 public:
  /// Watches `socket`, which outlives this. Throws zmq::error_t where the system has no room for it.
  Disconnects(zmq::context_t& context, zmq::socket_t& socket)
      : monitor_(context, socket, ZMQ_EVENT_DISCONNECTED) {}

  /// Watches the peer at `address`, whose message was just read and came by `descriptor`.
  void watch(int descriptor, std::string_view address);
  /// Reads the monitor's events; to be called when handle() is readable.
  void read();
  /// The watched peers that are known to have gone; for the caller to handle and clear.
  std::vector<std::string>& gone() { return gone_; }
  zmq::socket_ref handle() { return monitor_.handle(); }

 private:
  socket::Monitor monitor_;
  /// The last addresses of one descriptor: several where a message is read after its connection ended and
  /// another got the descriptor.
  static constexpr std::size_t kAddressesMax = 8;

  absl::flat_hash_map<int, std::vector<std::string>> watched_;  // by descriptor
  std::vector<std::string> gone_;
};

}  // namespace lanemq::io
