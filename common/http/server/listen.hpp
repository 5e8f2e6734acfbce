// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "common/http/server/server.hpp"
#include "common/settings/environment.hpp"
#include "common/settings/option.hpp"

namespace lanemq::http {

/// Sets where a server listens, from `127.0.0.1:8080`, `[::1]:8080` or `*:8080`; a port of 0 or * is a free
/// one. Throws settings::UsageError.
void set_listen(ServerOptions& server, const std::string& text);
/// As set_listen() reads it.
std::string listen_of(const ServerOptions& server);

/// The option of a server beside what a program does. `Served` has `server`, and `is_on`: false where the
/// option is empty.
template <class Settings, class Served>
settings::Option<Settings> listen_row(std::string_view key, std::string_view sentence,
                                      Served Settings::*served) {
  return {{.key = key,
           .kind = settings::Kind::text,
           .unit = "address:port",
           .sentence = sentence,
           .empty = "nowhere"},
          [served](const Settings& all) {
            const Served& said = all.*served;
            return settings::Values{said.is_on ? listen_of(said.server) : ""};
          },
          [served](Settings& all, const settings::Values& values) {
            Served& said = all.*served;
            said.is_on = !values.front().empty();
            if (said.is_on) set_listen(said.server, values.front());
          }};
}

/// Whether only this machine reaches the address.
bool is_loopback(const std::string& address);

/// The URL of a server at that port. `scheme`: http or https.
std::string url_of(const std::string& scheme, const std::string& address, std::uint16_t port);

/// The file that a value names: a path, or `credential:NAME` of systemd; empty: it is taken as given
/// (settings::take_credentials_as_given()). Throws settings::UsageError.
std::string file_of(const std::string& named, const settings::Environment& environment);

}  // namespace lanemq::http
