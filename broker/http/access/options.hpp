// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/http/server/small_server.hpp"
#include "common/settings/values.hpp"

namespace lanemq::admin {

/// The rights of a key's holder: to look, or also to change.
enum class Role : unsigned char { viewer, manager };

constexpr std::string_view name_of(Role role) {
  return role == Role::viewer ? "viewer" : "operator";
}

/// A key that operators and scrapers may show.
struct HttpKey {
  static constexpr std::size_t kKeysMax = 1'000;

  std::string name{};
  std::string secret{};  ///< the secret's source, as written; empty: `sha256` is given instead
  std::string sha256{};  ///< of the secret, 64 hexadecimal digits
  Role role = Role::viewer;
  settings::Moment not_after = settings::kNever;  ///< the key counts until then

  bool operator==(const HttpKey&) const = default;
};

/// The broker's HTTP for operators.
struct HttpOptions {
  bool is_on = false;
  http::ServerOptions server = http::small_server(5573);
  /// As configured: paths, or `credential:NAME`. Empty: no TLS.
  std::string tls_certificate{}, tls_key{};
  std::vector<std::string> hosts{};  ///< names besides this machine's own, for requests without keys
  std::vector<HttpKey> keys{};       ///< at most HttpKey::kKeysMax
  std::size_t metrics_clients = 8;   ///< that have series of their own; 0 to limits::timed_clients_max
};

}  // namespace lanemq::admin
