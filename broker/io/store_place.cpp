// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store_place.hpp"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/io/store.hpp"

namespace lanemq::io {
namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

StateFolders read_state_folders() {
  StateFolders folders{.state_directory = variable("STATE_DIRECTORY"),
                       .xdg_state_home = variable("XDG_STATE_HOME"),
                       .home = variable("HOME")};
  if (folders.home.empty())
    if (const passwd* const user = getpwuid(getuid()); user != nullptr && user->pw_dir != nullptr)
      folders.home = user->pw_dir;
  return folders;
}

Result<std::string> default_store(const StateFolders& folders, std::string_view shard) {
  const std::string file = "/lanemq" + (shard.empty() ? "" : '-' + std::string(shard)) + ".db";
  // A unit may have several folders, separated by colons.
  const std::string service = folders.state_directory.substr(0, folders.state_directory.find(':'));
  if (!service.empty()) return "sqlite:" + service + file;
  // The XDG specification says to ignore a relative path.
  if (folders.xdg_state_home.starts_with('/')) return "sqlite:" + folders.xdg_state_home + "/lanemq" + file;
  if (folders.home.starts_with('/')) return "sqlite:" + folders.home + "/.local/state/lanemq" + file;
  return failure(
      ErrorCode::bad_request,
      "no folder is known for the store, since STATE_DIRECTORY, XDG_STATE_HOME and HOME are not set; "
      "name a file with --store sqlite:PATH, or say --store memory");
}

Result<void> make_default_folder(const std::string& specification) {
  const auto path = path_of_store({.specification = specification});
  if (!path) return {};
  const std::filesystem::path folder = std::filesystem::path(*path).parent_path();
  const mode_t before = umask(0077);
  std::error_code why;
  std::filesystem::create_directories(folder, why);
  umask(before);
  if (why)
    return failure(ErrorCode::internal, "the folder " + folder.string() + " for the store cannot be made: " +
                                            why.message() + "; name a file with --store sqlite:PATH");
  return {};
}

}  // namespace lanemq::io
