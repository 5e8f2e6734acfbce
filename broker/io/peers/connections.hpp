// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <absl/container/flat_hash_map.h>
#include <zmq.hpp>

#include "broker/io/peers/connection_table.hpp"
#include "common/log/line_limit.hpp"
#include "common/zmq/monitor.hpp"

namespace lanemq::io {

/// Refused connections of a socket since the start, by reason.
struct ConnectionCounts {
  std::uint64_t gave_way = 0;   ///< had said nothing, and others came
  std::uint64_t refused = 0;    ///< came when there were as many as there may be
  std::uint64_t cut = 0;        ///< sent without end what was no message
  std::uint64_t keyless = 0;    ///< showed no key where one is asked for, or one where none is
  std::uint64_t strangers = 0;  ///< spoke no ZMTP 3
};

/// libzmq's reports on handshakes of a socket's connections, which do not name the connection.
struct Handshakes {
  std::size_t keyless = 0;    ///< reported as keyless, and not ended yet
  std::size_t explained = 0;  ///< failed with a reported reason, and not ended yet
  /// Handshakes done whose peers have sent nothing since. Below 0 while libzmq's report of one is on the way.
  std::int64_t silent = 0;
};

/// Bounds of the log's lines about connections of one socket.
struct ConnectionLines {
  static constexpr std::uint64_t kPerSecond = 1;  ///< of each kind
  log::LineLimit bounds{kPerSecond}, keyless{kPerSecond}, strangers{kPerSecond};
};

/// The connections of a bound ROUTER: keeps them within their bounds, and tells which watched peers have
/// gone. A ROUTER reports neither, and cannot end a connection: its monitor gives the descriptors of those
/// that begin and end, and each message the descriptor it came by; shutdown(2) on such a descriptor ends it.
///
/// The end of a peer is a hint, within milliseconds. A peer whose connection broke before its message was
/// read is reported only when the descriptor is used again and that connection ends, too. A descriptor may be
/// used again between two looks: then a new connection of the same peer may be ended in place of the old one,
/// and it connects again. Not thread-safe; belongs to the loop.
class Connections {
 public:
  using Clock = std::chrono::steady_clock;
  /// How often look() wants to be called while there are connections.
  static constexpr std::chrono::milliseconds kLookEvery{100};

  /// Watches `socket`, which outlives this, from now on; `door` names it in the log. `asks_for_keys`: whether
  /// the socket does. Throws zmq::error_t where the system has no room for it.
  Connections(zmq::context_t& context, zmq::socket_t& socket, std::string door, bool asks_for_keys,
              const ConnectionBounds& bounds);

  /// Watches the peer at `address`, whose message was just read and came by `descriptor`.
  void watch(int descriptor, std::string_view address);
  /// A message of `bytes` on its connection has come by that descriptor; -1: the descriptor is not known.
  void heard(int descriptor, std::uint64_t bytes) {
    const std::size_t silent = table_.silent();
    table_.heard(descriptor, bytes);
    handshakes_.silent -= static_cast<std::int64_t>(silent - table_.silent());
  }
  /// Reads the monitor's events; to be called when handle() is readable.
  void read();
  /// Looks how much connections send, and ends those that send too much that is no message. Cheap: it looks
  /// every kLookEvery, at a part of them.
  void look(Clock::time_point now);

  /// The watched peers that are known to have gone; for the caller to handle and clear.
  std::vector<std::string>& gone() { return gone_; }
  zmq::socket_ref handle() { return monitor_.handle(); }
  const ConnectionTable& table() const { return table_; }
  const ConnectionCounts& counts() const { return counts_; }

 private:
  /// The last addresses of one descriptor: several where a message is read after its connection ended and
  /// another got the descriptor.
  static constexpr std::size_t kAddressesMax = 8;
  /// Looked at in one turn of the loop.
  static constexpr int kLookedAtMax = 512;

  void accepted(int descriptor);
  void ended(int descriptor);
  void note_keyless(int descriptor);
  void note_stranger(int descriptor);
  void cut(int descriptor);

  socket::Monitor monitor_;
  std::string door_;
  const bool asks_for_keys_;
  Handshakes handshakes_{};
  /// Connections that have said nothing since their handshake. Below 0 while libzmq's word of one is on its
  /// way.
  std::int64_t silent_met_ = 0;
  ConnectionTable table_;
  ConnectionCounts counts_;
  absl::flat_hash_map<int, std::vector<std::string>> watched_;  // by descriptor
  std::vector<std::string> gone_;
  Clock::time_point looked_at_{};
  int looked_up_to_ = -1;
  ConnectionLines lines_{};
};

}  // namespace lanemq::io
