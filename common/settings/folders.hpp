// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/settings/environment.hpp"

/// Folders of the service manager and of the user, as the environment names them.
namespace lanemq::settings {

/// A service's own folder for what it keeps: the first of systemd's $STATE_DIRECTORY; empty: there is none.
std::string service_state_folder(const Environment& environment);

/// Where a user's programs keep what outlives them: $XDG_STATE_HOME, else ~/.local/state (XDG Base Directory
/// Specification, which ignores relative paths); empty: none is known.
std::string user_state_folder(const Environment& environment);

/// The socket files at which operators may find a broker that names no endpoint for them, in the order in
/// which brokers choose: `admin.sock` in the first of systemd's $RUNTIME_DIRECTORY, which stands alone where
/// it is set; else in `lanemq/` of $XDG_RUNTIME_DIR and of user_state_folder(). Paths that no socket can
/// have, since they are too long, are left out.
std::vector<std::string> operator_sockets(const Environment& environment);

/// The one of operator_sockets() that a broker takes: the first whose folder is there, or can be made in one
/// that is the user's own; empty: none is.
std::string own_operator_socket(const Environment& environment);

/// Makes the folder of a file, for the user alone, with all folders above it. The reason why not; none: it is
/// there.
std::optional<std::string> make_folder_of(const std::string& file);

/// Whether a program listens at a socket file.
bool listens_at(const std::string& socket_file);

}  // namespace lanemq::settings
