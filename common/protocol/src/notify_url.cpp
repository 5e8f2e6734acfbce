// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstddef>

#include <arpa/inet.h>
#include <netinet/in.h>

#include <lanemq/notify_url.hpp>

namespace lanemq {
namespace {

/// Of a name in DNS (RFC 1035).
constexpr std::size_t kNameBytesMax = 253, kLabelBytesMax = 63;
constexpr unsigned kPortMax = 65535;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// A URL cut into pieces that nobody has looked at.
struct Pieces {
  bool known_scheme = false;
  std::string_view scheme, authority, host, port, rest;
  bool has_port = false;
};

Pieces cut(std::string_view url) {
  Pieces pieces;
  for (const std::string_view scheme : {"http", "https"}) {
    if (!url.starts_with(scheme) || !url.substr(scheme.size()).starts_with("://")) continue;
    pieces.known_scheme = true;
    pieces.scheme = scheme;
    url.remove_prefix(scheme.size() + 3);
    break;
  }
  pieces.authority = url.substr(0, std::min(url.find_first_of("/?#"), url.size()));
  pieces.rest = url.substr(pieces.authority.size());
  // The colons of an IPv6 address stand in brackets.
  const std::size_t bracket = pieces.authority.starts_with('[') ? pieces.authority.find(']') : 0;
  const std::size_t colon = bracket == std::string_view::npos ? bracket : pieces.authority.find(':', bracket);
  pieces.has_port = colon != std::string_view::npos;
  pieces.host = pieces.authority.substr(0, std::min(colon, pieces.authority.size()));
  if (pieces.has_port) pieces.port = pieces.authority.substr(colon + 1);
  return pieces;
}

/// 1 to 65535, of decimal digits without a zero in front; 0: it is none.
unsigned port_of(std::string_view text) {
  if (text.empty() || text.size() > 5 || text[0] == '0' || !std::all_of(text.begin(), text.end(), is_digit))
    return 0;
  unsigned port = 0;
  for (const char c : text)
    port = port * 10 + static_cast<unsigned>(c - '0');
  return port > kPortMax ? 0 : port;
}

/// The bytes of an IPv6 address in brackets; false: it is none, or one with a zone.
bool read_v6(std::string_view host, in6_addr& address) {
  if (host.size() < 2 || host.front() != '[' || host.back() != ']') return false;
  return inet_pton(AF_INET6, std::string(host.substr(1, host.size() - 2)).c_str(), &address) == 1;
}

std::string_view last_label(std::string_view host) {
  return host.substr(host.rfind('.') + 1);  // npos + 1: all of it
}

/// Whether readers of URLs may take the host for a number (URL Standard, "ends in a number").
bool ends_in_a_number(std::string_view host) {
  const std::string_view last = last_label(host);
  if (last.starts_with("0x") || last.starts_with("0X"))
    return std::all_of(last.begin() + 2, last.end(), is_hex);
  return !last.empty() && std::all_of(last.begin(), last.end(), is_digit);
}

std::string host_problem(std::string_view host) {
  if (host.empty()) return "it names no host";
  if (host.front() == '[') {
    in6_addr address{};
    if (read_v6(host, address)) return {};
    return "its host is no IPv6 address (a zone cannot stand in it)";
  }
  if (ends_in_a_number(host)) {
    in_addr address{};
    if (inet_pton(AF_INET, std::string(host).c_str(), &address) == 1) return {};
    return "its host is no plain IPv4 address; write four decimal numbers, as in 10.1.2.3";
  }
  std::size_t label = 0;
  for (const char c : host) {
    label = c == '.' ? 0 : label + 1;
    const bool fits = is_letter(c) || is_digit(c) || c == '-' || c == '_' || c == '.';
    if (!fits || label > kLabelBytesMax) return "its host is no name of DNS";
  }
  const bool empty_label = host.front() == '.' || host.back() == '.' || host.find("..") != host.npos;
  if (empty_label || host.size() > kNameBytesMax) return "its host is no name of DNS";
  return {};
}

bool has_broken_escape(std::string_view text) {
  for (std::size_t at = text.find('%'); at != text.npos; at = text.find('%', at + 1))
    if (at + 2 >= text.size() || !is_hex(text[at + 1]) || !is_hex(text[at + 2])) return true;
  return false;
}

}  // namespace

std::string notify_problem(std::string_view url) {
  const auto is_plain = [](char c) { return c > ' ' && c < '\x7f' && c != '\\'; };
  if (!std::all_of(url.begin(), url.end(), is_plain))
    return "it has a backslash, or characters other than visible ASCII, which a URL has percent-encoded";
  const Pieces pieces = cut(url);
  if (!pieces.known_scheme) return "it does not begin with http:// or https://";
  if (pieces.authority.find('@') != std::string_view::npos)
    return "it holds credentials, which would be in logs; have the receiver check the signature instead";
  if (std::string problem = host_problem(pieces.host); !problem.empty()) return problem;
  if (pieces.has_port && port_of(pieces.port) == 0) return "its port is no number from 1 to 65535";
  if (has_broken_escape(pieces.rest)) return "it has a % that two hexadecimal digits do not follow";
  return {};
}

std::string receiver_of(std::string_view url) {
  const Pieces pieces = cut(url);
  std::string receiver(pieces.host);
  std::transform(receiver.begin(), receiver.end(), receiver.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; });
  if (in6_addr address{}; read_v6(receiver, address)) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    inet_ntop(AF_INET6, &address, text.data(), text.size());
    receiver = '[' + std::string(text.data()) + ']';
  }
  const std::string_view usual = pieces.scheme == "https" ? "443" : "80";
  return receiver.append(1, ':').append(pieces.has_port ? pieces.port : usual);
}

}  // namespace lanemq
