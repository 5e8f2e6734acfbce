// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include <absl/container/flat_hash_map.h>
#include <absl/functional/function_ref.h>

namespace lanemq::io {

/// The owner of an address, as far as a network tells: an IPv4 address, or the /64 of an IPv6 address, in
/// which one owner has 2^64 of them. All zeros: any peer that is not reached by IP.
using AddressOwner = std::array<std::uint8_t, 16>;

/// Bounds of a socket's connections.
struct ConnectionBounds {
  std::size_t connections_max = 16384;
  std::size_t per_address_max = 4096;
  /// Bytes of one connection that are no whole message yet.
  std::uint64_t message_bytes_max = std::uint64_t{66} << 20;
  /// The same of all connections.
  std::uint64_t receiving_bytes_max = std::uint64_t{512} << 20;
};

/// The connections of a bound socket, by descriptor: which of them have never said anything, how many bytes
/// of them are no whole message yet (what was read of them without the messages that have come), and
/// which one has to go when a bound is reached. Knows no socket. Not thread-safe.
class ConnectionTable {
 public:
  explicit ConnectionTable(const ConnectionBounds& bounds) : bounds_(bounds) {}

  /// A connection that gives way, and whether it is the new one.
  struct Closed {
    int descriptor = -1;
    bool is_new = false;
    bool of_address = false;  ///< the bound was that of its address
  };
  /// How many bytes a connection has sent, read or not.
  using Sent = absl::FunctionRef<std::uint64_t(int descriptor)>;
  /// A connection was accepted. Where there are as many as there may be, one that has said nothing gives way,
  /// or else the new one: the caller closes it, and the table knows it no more. Of kCandidates that have said
  /// nothing, drawn at random, the one goes that has sent least, and the oldest of those. In order of age
  /// alone everybody would go after places / rate, and nobody whose handshake takes longer would get in.
  std::optional<Closed> accepted(int descriptor, const AddressOwner& owner, Sent sent);
  /// The connection has ended.
  void ended(int descriptor);

  /// A whole message of `bytes` on its connection has come by that descriptor.
  void heard(int descriptor, std::uint64_t bytes);

  /// The bytes read on a connection so far; to be reported for each connection in turn.
  void received(int descriptor, std::uint64_t bytes);
  /// Those that have to go, after received() was told of all: who holds more than a message that is none yet,
  /// and those with the most while all hold too much.
  std::vector<int> too_much() const;
  /// The next descriptor to look at, after `descriptor`; none: that was the last one.
  std::optional<int> next(int descriptor) const;

  /// The owner of a connection that has sent nothing; none: it has sent something, or is not known.
  std::optional<AddressOwner> silent_owner(int descriptor) const;
  std::size_t size() const { return size_; }
  std::size_t silent() const { return silent_.size(); }
  /// Bytes that are no whole messages, of all connections, as far as received() has told.
  std::uint64_t receiving_bytes() const { return receiving_bytes_; }

 private:
  /// Bytes of a connection that are not counted: libzmq's own, for the handshake and heartbeats.
  static constexpr std::uint64_t kUncounted = 64 << 10;
  /// Each costs a system call where a place is wanted.
  static constexpr std::size_t kCandidates = 8;

  struct Connection {
    bool open = false;
    bool silent = false;
    bool heard = false;  // since the last look
    bool quiet = false;  // at the last look no message had come since the one before
    AddressOwner owner{};
    std::uint64_t order = 0;                    // of its acceptance
    std::size_t place = 0, place_of_owner = 0;  // in the lists of the silent
    std::uint64_t whole = 0;                    // bytes of whole messages
    std::uint64_t held = 0;                     // bytes that are none; 0 up to kUncounted
  };
  /// Descriptors of those that have said nothing, in no order.
  using Silent = std::vector<int>;
  struct Owner {
    std::size_t connections = 0;
    Silent silent;
  };

  Connection* find(int descriptor);
  int gives_way(const Silent& silent, Sent sent);
  void leave(Silent& silent, std::size_t Connection::*place, std::size_t at);
  void forget(Connection& connection);
  void speaks(Connection& connection);
  void count_held(Connection& connection, std::uint64_t held);

  ConnectionBounds bounds_;
  std::vector<Connection> connections_;  // by descriptor: the system gives the lowest
  absl::flat_hash_map<AddressOwner, Owner> owners_;
  Silent silent_;
  std::minstd_rand draw_;
  std::size_t size_ = 0;
  std::uint64_t order_ = 0, receiving_bytes_ = 0;
};

}  // namespace lanemq::io
