// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "client/gateway/http/message.hpp"

namespace lanemq::gateway {

/// An address of IPv6, or one of IPv4 as IPv6 writes it.
using Address = std::array<std::uint8_t, 16>;

/// Who has one address of an IPv6 network has 2^64 of them: its /64. Of IPv4, and of this machine, the
/// address. Empty where the text is no address.
std::string whose_address(std::string_view address);

/// The proxies in front of this gateway: their word counts on who sent a request. Anybody can write a header;
/// theirs is the last word in `x-forwarded-for`, as each one appends whom it heard.
class Proxies {
 public:
  Proxies() = default;
  /// Each an address or a network, as `10.0.0.7`, `10.0.0.0/8`, `fd00::/8`. Throws std::invalid_argument,
  /// which names what is neither.
  explicit Proxies(const std::vector<std::string>& networks);

  bool trusts(std::string_view address) const;
  /// Who sent a request that came from `address`, as whose_address() says it: from the right the first of
  /// `x-forwarded-for` that is no proxy of ours. What is no address, and all to the left of it, is nobody's
  /// word: then it is the proxy that passed it on.
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

}  // namespace lanemq::gateway
