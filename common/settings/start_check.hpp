// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// What a start needs of the system, looked at without changing anything there.
namespace lanemq::settings {

inline constexpr std::string_view kTcp = "tcp://", kIpc = "ipc://";

/// Whether a port may be left to the system.
enum class Port : unsigned char { named, any };

/// Throws UsageError for what is no endpoint: `tcp://HOST:PORT`, where Port::any takes `*` as well, or
/// `ipc://PATH`. libzmq would take the port 99999 modulo 65536.
void check_endpoint(const std::string& endpoint, Port port);

/// Why nobody could listen at that numeric address; none: he could. A port that is taken is no reason: it may
/// be taken by the program that is asked about.
std::optional<std::string> why_not_listen(const std::string& address, std::uint16_t port);

/// Why files could not be made in that folder, or the folder itself.
std::optional<std::string> why_not_folder(const std::string& path);

}  // namespace lanemq::settings
