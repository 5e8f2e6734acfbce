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

/// Tells which peers of a bound socket have gone, of those that are watched. A ROUTER never says so itself:
/// its monitor tells the descriptor of a connection that ended, and a message tells the one that it came by.
///
/// A hint, within milliseconds: a peer whose connection broke before its message was read is told only when
/// the descriptor is used again and that connection ends too. Not thread-safe; belongs to the loop.
class Disconnects {
 public:
  /// Watches `socket`, which outlives this. Throws zmq::error_t where the system has no room for it.
  Disconnects(zmq::context_t& context, zmq::socket_t& socket)
      : monitor_(context, socket, ZMQ_EVENT_DISCONNECTED) {}

  /// The peer at `address`, whose message was just read and came by `descriptor`, is watched from now on.
  void watch(int descriptor, std::string_view address);
  /// Reads what there is to know; for when handle() becomes readable.
  void read();
  /// The watched peers that are known to have gone; for the caller to handle and clear.
  std::vector<std::string>& gone() { return gone_; }
  zmq::socket_ref handle() { return monitor_.handle(); }

 private:
  socket::Monitor monitor_;
  /// Of one descriptor, the last so many: more than one where a message is read after its connection has
  /// ended and another has got its descriptor.
  static constexpr std::size_t kAddressesMax = 8;

  absl::flat_hash_map<int, std::vector<std::string>> watched_;  // by descriptor
  std::vector<std::string> gone_;
};

}  // namespace lanemq::io
