// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/webhook/hook_hosts.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <arpa/inet.h>
#include <netinet/in.h>

#include <lanemq/notify_url.hpp>
#include <lanemq/text.hpp>

#include "common/settings/usage_error.hpp"

namespace lanemq::worker {
namespace {

using settings::UsageError;

struct Network {
  std::array<std::uint8_t, 16> bytes;
  int bits;
};

bool is_in(const std::string& bytes, const Network& network) {
  for (int bit = 0; bit < network.bits; ++bit) {
    const auto at = static_cast<std::size_t>(bit / 8);
    const unsigned mask = 0x80U >> (bit % 8);
    if ((static_cast<std::uint8_t>(bytes[at]) ^ network.bytes[at]) & mask) return false;
  }
  return true;
}

bool is_public_v4(const std::string& bytes) {
  static constexpr Network kOthers[] = {
      {{0}, 8},         {{10}, 8},       {{100, 64}, 10},      {{127}, 8},
      {{169, 254}, 16}, {{172, 16}, 12}, {{192, 0, 0}, 24},    {{192, 0, 2}, 24},
      {{192, 168}, 16}, {{198, 18}, 15}, {{198, 51, 100}, 24}, {{203, 0, 113}, 24},
      {{224}, 4},       {{240}, 4},
  };
  return std::none_of(std::begin(kOthers), std::end(kOthers),
                      [&](const Network& network) { return is_in(bytes, network); });
}

bool is_public_v6(const std::string& bytes) {
  // What stands for an IPv4 address, and where that begins.
  static constexpr struct {
    Network network;
    std::size_t at;
  } kCarriers[] = {
      {{{}, 96}, 12},                                          // compatible; :: and ::1 among them
      {{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF}, 96}, 12},  // mapped
      {{{0x00, 0x64, 0xFF, 0x9B}, 96}, 12},                    // NAT64
      {{{0x20, 0x02}, 16}, 2},                                 // 6to4
  };
  for (const auto& carrier : kCarriers)
    if (is_in(bytes, carrier.network)) return is_public_v4(bytes.substr(carrier.at, 4));
  static constexpr Network kOpen{{0x20}, 3};
  static constexpr Network kTeredoAndOthers{{0x20, 0x01}, 23};
  static constexpr Network kExamples{{0x20, 0x01, 0x0D, 0xB8}, 32};
  return is_in(bytes, kOpen) && !is_in(bytes, kTeredoAndOthers) && !is_in(bytes, kExamples);
}

/// Whether it is a name as DNS has them, in lower case.
bool is_name(std::string_view text) {
  return !text.empty() && text.front() != '.' && text.back() != '.' &&
         text.find("..") == std::string_view::npos && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
         });
}

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw UsageError("\"" + printable(text, 300) + "\" " + why +
                   "; write hooks.example.com, *.corp.example, host:8443, 10.0.0.1, or http://host where it "
                   "has no TLS");
}

}  // namespace

std::optional<HostAddress> read_address(std::string_view host) {
  std::array<char, sizeof(in6_addr)> bytes{};
  std::string text(host);
  if (inet_pton(AF_INET, text.c_str(), bytes.data()) == 1)
    return HostAddress{AF_INET, std::string(bytes.data(), sizeof(in_addr))};
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  if (inet_pton(AF_INET6, text.c_str(), bytes.data()) != 1) return std::nullopt;
  return HostAddress{AF_INET6, std::string(bytes.data(), sizeof(in6_addr))};
}

HostAddress address_of(const sockaddr& address) {
  const bool is_v4 = address.sa_family == AF_INET;
  HostAddress read{is_v4 ? AF_INET : AF_INET6, std::string(is_v4 ? sizeof(in_addr) : sizeof(in6_addr), '\0')};
  if (is_v4)
    std::memcpy(read.bytes.data(), &reinterpret_cast<const sockaddr_in&>(address).sin_addr, sizeof(in_addr));
  else
    std::memcpy(read.bytes.data(), &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr,
                sizeof(in6_addr));
  return read;
}

bool is_public(const HostAddress& address) {
  return address.family == AF_INET ? is_public_v4(address.bytes) : is_public_v6(address.bytes);
}

HookHost parse_hook_host(std::string_view text) {
  std::string rest(text);
  for (char& c : rest)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  HookHost entry;
  for (const std::string_view scheme : {"http", "https"})
    if (rest.starts_with(std::string(scheme) + "://")) {
      entry.scheme = scheme;
      rest.erase(0, scheme.size() + 3);
      break;
    }
  const bool has_names = rest.starts_with("*.");
  if (has_names) rest.erase(0, 2);
  // libcurl reads it as it will read the jobs' URLs, so that both write an address the same way.
  const std::string url = entry.scheme + "://" + rest;
  const std::string problem = http_url_problem(url);
  if (!problem.empty() || rest.find_first_of("/?#@%") != std::string::npos)
    refuse(text, "is no host" + (problem.empty() ? "" : ": " + problem));
  // It reads 010.1.2.3 as 8.1.2.3, and who wrote it meant another one.
  if (const std::string doubt = notify_problem(url); !doubt.empty()) refuse(text, "is no host: " + doubt);
  const HttpUrlParts parts = parts_of_url(url);
  entry.port = parts.port;
  entry.host = parts.host;
  entry.address = read_address(entry.host);
  if (!entry.address && !is_name(entry.host)) refuse(text, "is no host");
  if (!has_names) return entry;
  if (entry.address) refuse(text, "has a * before an address");
  entry.host.insert(0, ".");
  entry.with_names = true;
  return entry;
}

const HookHost* find_hook_host(const std::vector<HookHost>& hosts, const HttpUrlParts& url) {
  const std::optional<HostAddress> address = read_address(url.host);
  const auto fits = [&](const HookHost& entry) {
    if (entry.scheme != url.scheme || entry.port != url.port) return false;
    if (address || entry.address) return address == entry.address;
    return entry.with_names ? url.host.size() > entry.host.size() && url.host.ends_with(entry.host)
                            : url.host == entry.host;
  };
  const auto found = std::find_if(hosts.begin(), hosts.end(), fits);
  return found == hosts.end() ? nullptr : &*found;
}

std::string hook_url_problem(const std::string& url) {
  if (url.size() > kHookUrlBytesMax)
    return "it has " + std::to_string(url.size()) + " bytes, and may have " +
           std::to_string(kHookUrlBytesMax);
  const auto is_plain = [](char c) { return c > 0x20 && c < 0x7F && c != '\\'; };
  if (!std::all_of(url.begin(), url.end(), is_plain))
    return "it has characters other than visible ASCII, which a URL has percent-encoded";
  return http_url_problem(url);
}

}  // namespace lanemq::worker
