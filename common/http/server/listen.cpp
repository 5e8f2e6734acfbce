// SPDX-License-Identifier: Apache-2.0
#include "common/http/server/listen.hpp"

#include <lanemq/text.hpp>

#include "common/settings/secrets/secret_source.hpp"
#include "common/settings/usage_error.hpp"
#include "common/settings/values.hpp"

namespace lanemq::http {

void set_listen(ServerOptions& server, const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || text.find("://") != std::string::npos)
    throw settings::UsageError("must be ADDRESS:PORT, like 127.0.0.1:8080 or [::1]:8080, not \"" +
                               printable(text, 64) + '"');
  std::string address = text.substr(0, colon);
  if (address.size() > 2 && address.front() == '[' && address.back() == ']')
    address = address.substr(1, address.size() - 2);
  if (address == "*") address = "0.0.0.0";
  if (address == "localhost") address = "127.0.0.1";
  server.address = address;
  const std::string port = text.substr(colon + 1);
  server.port = static_cast<std::uint16_t>(port == "*" ? 0 : settings::parse_count(port, 0, 65535));
}

namespace {

std::string with_port(const std::string& address, std::uint16_t port) {
  const bool v6 = address.find(':') != std::string::npos;
  return (v6 ? "[" + address + "]" : address) + ":" + std::to_string(port);
}

}  // namespace

std::string listen_of(const ServerOptions& server) {
  return with_port(server.address, server.port);
}

bool is_loopback(const std::string& address) {
  return address == "::1" || address.starts_with("127.");
}

std::string url_of(const std::string& scheme, const std::string& address, std::uint16_t port) {
  return scheme + "://" + with_port(address, port);
}

std::string file_of(const std::string& named, const settings::Environment& environment) {
  constexpr std::string_view kCredential = "credential:";
  if (!named.starts_with(kCredential)) return named;
  return settings::credential_file(named.substr(kCredential.size()), environment).value_or("");
}

}  // namespace lanemq::http
