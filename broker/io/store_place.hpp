// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <lanemq/result.hpp>

namespace lanemq::io {

/// What the system says about where a program keeps its state. Empty: nothing.
struct StateFolders {
  std::string state_directory;  ///< $STATE_DIRECTORY, of systemd: a service's own
  std::string xdg_state_home;   ///< $XDG_STATE_HOME
  std::string home;             ///< $HOME, else the user's of the password file
};
StateFolders read_state_folders();

/// The store where none is named: `lanemq.db` in the service's folder, else in `lanemq/` of the user's. An
/// error says that one has to be named.
Result<std::string> default_store(const StateFolders& folders);

/// Makes the folder that default_store() names, for the user alone.
Result<void> make_default_folder(const std::string& specification);

}  // namespace lanemq::io
