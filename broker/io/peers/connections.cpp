// SPDX-License-Identifier: Apache-2.0
#include "broker/io/peers/connections.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <linux/tcp.h>  // its tcp_info has tcpi_bytes_received; that of glibc has not
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "common/log/log.hpp"

namespace lanemq::io {
namespace {

/// The peer's end of a connection; family AF_UNSPEC: it has ended, or the system does not tell.
sockaddr_storage peer_of(int descriptor) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    address.ss_family = AF_UNSPEC;
  return address;
}

/// The prefix of an IPv4 address written as an IPv6 one.
constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

AddressOwner owner_of(const sockaddr_storage& address) {
  constexpr std::size_t kNetworkBytes = 8;
  AddressOwner owner{};
  if (address.ss_family == AF_INET) {
    std::copy(kMapped.begin(), kMapped.end(), owner.begin());
    std::memcpy(owner.data() + kMapped.size(), &reinterpret_cast<const sockaddr_in&>(address).sin_addr, 4);
  } else if (address.ss_family == AF_INET6) {
    std::memcpy(owner.data(), &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, owner.size());
    if (!std::equal(kMapped.begin(), kMapped.end(), owner.begin()))
      std::fill(owner.begin() + kNetworkBytes, owner.end(), std::uint8_t{0});
  }
  return owner;
}

std::string text_of(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET)
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text.data(), text.size());
  else if (address.ss_family == AF_INET6)
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, text.data(),
                text.size());
  return text[0] != '\0' ? text.data() : "local";
}

/// The address, or of IPv6 the network, that owner_of() was told.
std::string text_of(const AddressOwner& owner) {
  if (owner == AddressOwner{}) return "local or gone";
  sockaddr_storage address{};
  const bool is_mapped = std::equal(kMapped.begin(), kMapped.end(), owner.begin());
  address.ss_family = is_mapped ? AF_INET : AF_INET6;
  if (is_mapped)
    std::memcpy(&reinterpret_cast<sockaddr_in&>(address).sin_addr, owner.data() + kMapped.size(), 4);
  else
    std::memcpy(&reinterpret_cast<sockaddr_in6&>(address).sin6_addr, owner.data(), owner.size());
  return text_of(address) + (is_mapped ? "" : "/64");
}

/// Bytes that have come on a TCP connection, read or not; none: it is none, or has ended.
std::optional<std::uint64_t> sent_by(int descriptor) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  return info.tcpi_bytes_received;
}

/// Those of them that this process has read. What waits in the kernel is left out: it bounds that, and after
/// a standstill it is whole messages.
std::optional<std::uint64_t> received_by(int descriptor) {
  const std::optional<std::uint64_t> sent = sent_by(descriptor);
  int waiting = 0;
  if (!sent || ::ioctl(descriptor, SIOCINQ, &waiting) != 0) return std::nullopt;
  return *sent - std::min(*sent, static_cast<std::uint64_t>(std::max(waiting, 0)));
}

}  // namespace

Connections::Connections(zmq::context_t& context, zmq::socket_t& socket, std::string door, bool asks_for_keys,
                         const ConnectionBounds& bounds)
    : monitor_(context, socket,
               ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                   ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                   ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL),
      door_(std::move(door)),
      asks_for_keys_(asks_for_keys),
      table_(bounds) {}

void Connections::watch(int descriptor, std::string_view address) {
  // An end that is known so far was of an earlier connection with the same descriptor.
  read();
  if (descriptor < 0) return;
  std::vector<std::string>& addresses = watched_[descriptor];
  if (std::find(addresses.begin(), addresses.end(), address) != addresses.end()) return;
  if (addresses.size() == kAddressesMax) addresses.erase(addresses.begin());
  addresses.emplace_back(address);
}

void Connections::read() {
  while (const auto event = monitor_.next()) {
    if (event->number == ZMQ_EVENT_ACCEPTED) accepted(event->value);
    if (event->number == ZMQ_EVENT_DISCONNECTED) ended(event->value);
    if (event->number == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) ++handshakes_.silent;
    if (event->number == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL &&
        event->value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)
      ++handshakes_.keyless;
    if (event->number == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL ||
        event->number == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH ||
        event->number == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL)
      ++handshakes_.explained;
  }
}

void Connections::accepted(int descriptor) {
  const auto closed = table_.accepted(descriptor, owner_of(peer_of(descriptor)),
                                      [](int silent) { return sent_by(silent).value_or(0); });
  if (!closed) return;
  ++(closed->is_new ? counts_.refused : counts_.gave_way);
  if (lines_.bounds.may_write(Clock::now()))
    log::event(log::Level::warning, "connection.refused",
               {{"door", door_},
                {"address", text_of(peer_of(closed->descriptor))},
                {"bound", closed->of_address ? "connections_per_address_max" : "connections_max"},
                {"left_out", lines_.bounds.take_left_out()}});
  ::shutdown(closed->descriptor, SHUT_RDWR);
}

/// libzmq says that a peer's security is not the socket's, and then that a connection has ended, which is the
/// peer's. Where several of its threads say so at once the address may be that of another one that has ended
/// without a word.
void Connections::note_keyless(int descriptor) {
  const std::optional<AddressOwner> owner = table_.silent_owner(descriptor);
  if (!owner) return;
  --handshakes_.keyless;
  ++counts_.keyless;
  if (lines_.keyless.may_write(Clock::now()))
    log::event(log::Level::warning, "peer.key_refused",
               {{"door", door_},
                {"address", text_of(*owner)},
                {"reason", asks_for_keys_ ? "shows no key" : "shows a key, and the broker has none"},
                {"left_out", lines_.keyless.take_left_out()}});
}

/// A connection has ended whose peer has said nothing, and libzmq not why: so it ends those of ZMTP 1 and 2,
/// and those whose bytes it takes for these, as a browser's POST. After a handshake a silent peer may have
/// left: which of the silent ones had one libzmq does not say.
void Connections::note_stranger(int descriptor) {
  const std::optional<AddressOwner> owner = table_.silent_owner(descriptor);
  if (!owner) return;
  if (handshakes_.silent > 0) {
    --handshakes_.silent;
    return;
  }
  ++counts_.strangers;
  if (lines_.strangers.may_write(Clock::now()))
    log::event(
        log::Level::warning, "peer.other_protocol",
        {{"door", door_}, {"address", text_of(*owner)}, {"left_out", lines_.strangers.take_left_out()}});
}

void Connections::ended(int descriptor) {
  const bool is_explained = handshakes_.explained > 0;
  if (is_explained) --handshakes_.explained;
  if (handshakes_.keyless > 0)
    note_keyless(descriptor);
  else if (!is_explained)
    note_stranger(descriptor);
  table_.ended(descriptor);
  const auto place = watched_.find(descriptor);
  if (place == watched_.end()) return;
  gone_.insert(gone_.end(), place->second.begin(), place->second.end());
  watched_.erase(place);
}

void Connections::look(Clock::time_point now) {
  if (table_.size() == 0 || (now - looked_at_ < kLookEvery && looked_up_to_ < 0)) return;
  if (looked_up_to_ < 0) looked_at_ = now;
  read();
  for (int looked = 0; looked < kLookedAtMax; ++looked) {
    const std::optional<int> descriptor = table_.next(looked_up_to_);
    looked_up_to_ = descriptor.value_or(-1);
    if (!descriptor) break;
    if (const auto bytes = received_by(*descriptor)) table_.received(*descriptor, *bytes);
  }
  if (looked_up_to_ >= 0) return;  // the rest in the next turn
  for (const int descriptor : table_.too_much())
    cut(descriptor);
}

/// Ends a connection that sends too much that is no message.
void Connections::cut(int descriptor) {
  ++counts_.cut;
  if (lines_.bounds.may_write(Clock::now()))
    log::event(log::Level::warning, "connection.cut",
               {{"door", door_},
                {"address", text_of(peer_of(descriptor))},
                {"bytes", received_by(descriptor).value_or(0)},
                {"left_out", lines_.bounds.take_left_out()}});
  table_.ended(descriptor);
  ::shutdown(descriptor, SHUT_RDWR);
}

}  // namespace lanemq::io
