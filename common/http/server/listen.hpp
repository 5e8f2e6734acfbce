// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/http/server/server.hpp"
#include "common/settings/environment.hpp"

namespace lanemq::http {

/// Sets where a server listens, from `127.0.0.1:8080`, `[::1]:8080` or `*:8080`; a port of 0 or * is a free
/// one. Throws settings::UsageError.
void set_listen(ServerOptions& server, const std::string& text);
/// As set_listen() reads it.
std::string listen_of(const ServerOptions& server);

/// Whether only this machine reaches the address.
bool is_loopback(const std::string& address);

/// The URL of a server at that port. `scheme`: http or https.
std::string url_of(const std::string& scheme, const std::string& address, std::uint16_t port);

/// The file that a value names: a path, or `credential:NAME` of systemd; empty: it is taken as given
/// (settings::take_credentials_as_given()). Throws settings::UsageError.
std::string file_of(const std::string& named, const settings::Environment& environment);

}  // namespace lanemq::http
