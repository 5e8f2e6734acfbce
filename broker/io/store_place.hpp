// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <lanemq/result.hpp>

namespace lanemq::io {

/// Folders for a program's state, as the system names them. Empty: not set.
struct StateFolders {
  std::string state_directory;  ///< $STATE_DIRECTORY, of systemd: a service's own
  std::string xdg_state_home;   ///< $XDG_STATE_HOME
  std::string home;             ///< $HOME, else the home of the password file
};
StateFolders read_state_folders();

/// The store where no option names one: `lanemq.db`, or `lanemq-SHARD.db`, in the service's folder, else in
/// `lanemq/` of the user's. The error asks for an option.
Result<std::string> default_store(const StateFolders& folders, std::string_view shard = {});

/// Creates the folder of default_store(), for the user alone.
Result<void> make_default_folder(const std::string& specification);

}  // namespace lanemq::io
