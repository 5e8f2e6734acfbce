// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/socket.h>

#include "common/url/http_url.hpp"

namespace lanemq::worker {

/// The bytes of an IPv4 or IPv6 address.
struct HostAddress {
  int family = 0;  ///< AF_INET or AF_INET6
  std::string bytes;
  bool operator==(const HostAddress&) const = default;
};
/// Of `10.0.0.1`, `::1` or `[::1]`; none: the text is a name.
std::optional<HostAddress> read_address(std::string_view host);
/// Requires: IPv4 or IPv6.
HostAddress address_of(const sockaddr& address);

/// Whether an address is of the open internet. Not: this machine, networks of one's own (RFC 1918, 4193,
/// 6598), link-local addresses (where clouds have their metadata), multicast, reserved ones, and IPv6
/// addresses that stand for such an IPv4 address (mapped, compatible, NAT64, 6to4) or hide it (Teredo). By
/// IANA's registries of special-purpose addresses.
bool is_public(const HostAddress& address);

/// An entry of the list of hosts that webhooks may call.
struct HookHost {
  std::string scheme = "https";
  std::string host;         ///< in lower case; of `*.corp.example` it is `.corp.example`
  bool with_names = false;  ///< stands for all names that end so
  std::uint16_t port = 0;
  std::optional<HostAddress> address{};  ///< where the host is one
};

/// Reads `HOST`, `*.HOST`, `HOST:PORT`, `http://HOST`; HOST is a name or an address, an IPv6 one in brackets.
/// Without a port that of the scheme is meant, without a scheme https. Throws settings::UsageError.
HookHost parse_hook_host(std::string_view text);

/// The entry that a URL's host falls under; null: there is none.
const HookHost* find_hook_host(const std::vector<HookHost>& hosts, const HttpUrlParts& url);

/// Why no webhook can go to this URL, as the job says it: longer than kHookUrlBytesMax, with characters that
/// belong encoded into a URL, or what http_url_problem() says. Empty: it can.
inline constexpr std::size_t kHookUrlBytesMax = 2048;
std::string hook_url_problem(const std::string& url);

}  // namespace lanemq::worker
