// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// Checks of what a start needs from the system. They change nothing.
namespace lanemq::settings {

inline constexpr std::string_view kTcp = "tcp://", kIpc = "ipc://";

/// Whether the system may choose the port.
enum class Port : unsigned char { named, any };

/// Throws UsageError unless it is `tcp://HOST:PORT` (Port::any also takes `*`) or `ipc://PATH`. libzmq would
/// take the port 99999 modulo 65536.
void check_endpoint(const std::string& endpoint, Port port);

/// The same for each of several, separated by commas, of which one is connected to at a time
/// (lanemq/endpoints.hpp). Throws UsageError for more than Endpoints::kEndpointsMax, too.
void check_endpoints(const std::string& endpoints);

/// Why no program could listen at that numeric address; none: one could. A port in use is no reason: the
/// program that is asked about may use it.
std::optional<std::string> why_not_listen(const std::string& address, std::uint16_t port);

/// Why no file could be created in that folder, or the folder itself; none: it could.
std::optional<std::string> why_not_folder(const std::string& path);

}  // namespace lanemq::settings
