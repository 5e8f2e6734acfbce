// SPDX-License-Identifier: Apache-2.0
#include "common/http/server/access/proxies.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <stdexcept>

#include <arpa/inet.h>

#include <lanemq/text.hpp>
#include <lanemq/words.hpp>

namespace lanemq::http {
namespace {

constexpr unsigned kBits = 128, kBitsOfV4 = 32;
constexpr std::size_t kNetworkBytes = 8;  ///< of an IPv6 address: the smallest network of one customer
constexpr std::array<std::uint8_t, 12> kV4Prefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
constexpr Address kLoopback{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

bool is_v4(const Address& address) {
  return std::equal(kV4Prefix.begin(), kV4Prefix.end(), address.begin());
}

std::optional<Address> read_address(std::string_view text) {
  // An address's zone says nothing about its owner.
  const std::string plain(text.substr(0, text.find('%')));
  Address address{};
  if (::inet_pton(AF_INET6, plain.c_str(), address.data()) == 1) return address;
  std::copy(kV4Prefix.begin(), kV4Prefix.end(), address.begin());
  if (::inet_pton(AF_INET, plain.c_str(), address.data() + kV4Prefix.size()) == 1) return address;
  return std::nullopt;
}

std::string text_of(const Address& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (is_v4(address))
    ::inet_ntop(AF_INET, address.data() + kV4Prefix.size(), text, sizeof text);
  else
    ::inet_ntop(AF_INET6, address.data(), text, sizeof text);
  return text;
}

std::string whose(Address address) {
  if (is_v4(address) || address == kLoopback) return text_of(address);
  std::fill(address.begin() + kNetworkBytes, address.end(), 0);
  return text_of(address) + "/64";
}

/// `1.2.3.4`, `2001:db8::1`, and with a port, as some proxies write it: `1.2.3.4:80`, `[2001:db8::1]:80`.
std::optional<Address> read_hop(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    return end == std::string_view::npos ? std::nullopt : read_address(text.substr(1, end - 1));
  }
  if (std::count(text.begin(), text.end(), ':') == 1) text = text.substr(0, text.find(':'));
  return read_address(text);
}

}  // namespace

std::string whose_address(std::string_view address) {
  const std::optional<Address> read = read_address(address);
  return read ? whose(*read) : std::string();
}

Proxies::Proxies(const std::vector<std::string>& networks) {
  for (const std::string& text : networks) {
    const std::size_t slash = text.find('/');
    const std::optional<Address> address = read_address(std::string_view(text).substr(0, slash));
    const unsigned most = address && is_v4(*address) ? kBitsOfV4 : kBits;
    unsigned bits = most;
    bool fits = address.has_value();
    if (slash != std::string::npos) {
      const char* const end = text.data() + text.size();
      const auto [at, error] = std::from_chars(text.data() + slash + 1, end, bits);
      fits = fits && error == std::errc() && at == end && bits <= most;
    }
    if (!fits)
      throw std::invalid_argument(
          "must be addresses or networks, like 10.0.0.7 or 10.0.0.0/8 or fd00::/8, not \"" +
          printable(text, 64) + '"');
    networks_.push_back({.address = *address, .bits = bits + (kBits - most)});
  }
}

bool Proxies::Network::holds(const Address& other) const {
  const std::size_t whole = bits / 8;
  if (!std::equal(address.begin(), address.begin() + static_cast<std::ptrdiff_t>(whole), other.begin()))
    return false;
  const unsigned rest = bits % 8;
  return rest == 0 || (address[whole] >> (8 - rest)) == (other[whole] >> (8 - rest));
}

bool Proxies::trusts(const Address& address) const {
  return std::any_of(networks_.begin(), networks_.end(),
                     [&](const Network& network) { return network.holds(address); });
}

bool Proxies::trusts(std::string_view address) const {
  if (networks_.empty()) return false;
  const std::optional<Address> read = read_address(address);
  return read && trusts(*read);
}

std::string Proxies::sender(std::string_view address, const Headers& headers) const {
  const std::optional<Address> peer = read_address(address);
  if (!peer) return {};
  if (!trusts(*peer)) return whose(*peer);
  // Several fields of one name are one list.
  std::vector<std::string_view> lists;
  for (const auto& [name, value] : headers)
    if (name == "x-forwarded-for") lists.emplace_back(value);
  Address sender = *peer;
  for (auto list = lists.rbegin(); list != lists.rend(); ++list) {
    std::string_view rest = *list;
    while (true) {
      const std::size_t comma = rest.rfind(',');
      const std::optional<Address> hop =
          read_hop(comma == std::string_view::npos ? rest : rest.substr(comma + 1));
      if (!hop) return whose(sender);
      sender = *hop;
      if (!trusts(sender)) return whose(sender);
      if (comma == std::string_view::npos) break;
      rest = rest.substr(0, comma);
    }
  }
  return whose(sender);
}

}  // namespace lanemq::http
