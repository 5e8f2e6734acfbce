// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/http/server/base/message.hpp"

namespace lanemq::http {

/// An IPv6 address, or an IPv4 address mapped to IPv6.
using Address = std::array<std::uint8_t, 16>;

/// The owner of an address: for IPv6 its /64 network, since whoever has one address there has 2^64; for IPv4
/// and this machine the address. Empty: the text is no address.
std::string whose_address(std::string_view address);

/// The proxies in front of this server, which are trusted about the senders of requests. Anybody can write a
/// header; the last entry of `x-forwarded-for` is the proxy's, since each proxy appends the peer it heard.
class Proxies {
 public:
  Proxies() = default;
  /// `networks`: addresses or networks, as `10.0.0.7`, `10.0.0.0/8`, `fd00::/8`. Throws
  /// std::invalid_argument, which names an invalid one.
  explicit Proxies(const std::vector<std::string>& networks);

  bool trusts(std::string_view address) const;
  /// The sender of a request that came from `address`, as whose_address(): the rightmost entry of
  /// `x-forwarded-for` that is no proxy. An entry that is no address is not trusted, nor all to the left of
  /// it: then the sender is the proxy that passed it on.
  std::string sender(std::string_view address, const Headers& headers) const;

 private:
  struct Network {
    Address address{};
    unsigned bits = 0;
    bool holds(const Address& other) const;
  };
  bool trusts(const Address& address) const;
  std::vector<Network> networks_;
};

}  // namespace lanemq::http
