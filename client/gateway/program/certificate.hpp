// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "client/gateway/door/settings.hpp"
#include "common/http/server/base/tls.hpp"
#include "common/http/server/server.hpp"

namespace lanemq::gateway {

/// The server's certificate; null: it speaks no TLS, or a check takes one of its files as given. Throws
/// UsageError with what is wrong with its files.
std::shared_ptr<const TlsIdentity> identity_of(const Settings& settings);

/// Connections to come have this certificate; the log says how long it lasts.
void encrypt(HttpServer& server, std::shared_ptr<const TlsIdentity> identity);
/// At the start: TLS where it is wanted, and a warning where strangers come without it, or without keys.
void encrypt(HttpServer& server, const Settings& settings);

}  // namespace lanemq::gateway
