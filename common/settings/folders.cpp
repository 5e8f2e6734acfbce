// SPDX-License-Identifier: Apache-2.0
#include "common/settings/folders.hpp"

#include <cerrno>
#include <cstring>

#include <pwd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace lanemq::settings {
namespace {

/// The longest path that a socket can have, with the NUL behind it.
constexpr std::size_t kSocketPathMax = sizeof(sockaddr_un::sun_path);

std::string value_of(const Environment& environment, const char* variable) {
  const char* const value = environment(variable);
  return value == nullptr ? "" : value;
}

/// The service manager may name several folders, separated by colons.
std::string first_of(const std::string& folders) {
  return folders.substr(0, folders.find(':'));
}

std::string home_of(const Environment& environment) {
  if (std::string home = value_of(environment, "HOME"); !home.empty()) return home;
  const passwd* const user = ::getpwuid(::getuid());
  return user != nullptr && user->pw_dir != nullptr ? user->pw_dir : "";
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

/// Whether the folder, or the nearest that is there above it, is the user's own: $XDG_RUNTIME_DIR may be
/// another's, of whom a program was started by sudo.
bool can_be_made(std::string folder) {
  struct stat there {};
  bool is_made = true;
  for (; ::stat(folder.c_str(), &there) != 0; is_made = false) {
    if (errno != ENOENT || folder.size() <= 1) return false;
    folder = folder_of(folder);
  }
  // Who may write to the folder itself could put another socket there.
  return S_ISDIR(there.st_mode) && there.st_uid == ::geteuid() && (!is_made || (there.st_mode & 0022) == 0);
}

/// Makes a folder, for the user alone, with all above it; false: errno says why not.
bool make_folder(const std::string& folder) {
  struct stat there {};
  if (::stat(folder.c_str(), &there) == 0) {
    errno = ENOTDIR;
    return S_ISDIR(there.st_mode);
  }
  if (errno == ENOENT && folder.size() > 1 && !make_folder(folder_of(folder))) return false;
  return ::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST;
}

}  // namespace

std::string service_state_folder(const Environment& environment) {
  return first_of(value_of(environment, "STATE_DIRECTORY"));
}

std::string user_state_folder(const Environment& environment) {
  if (std::string named = value_of(environment, "XDG_STATE_HOME"); named.starts_with('/')) return named;
  const std::string home = home_of(environment);
  return home.starts_with('/') ? home + "/.local/state" : "";
}

std::vector<std::string> operator_sockets(const Environment& environment) {
  std::vector<std::string> paths;
  const auto add = [&](const std::string& folder) {
    std::string path = folder + "/admin.sock";
    if (folder.starts_with('/') && path.size() < kSocketPathMax) paths.push_back(std::move(path));
  };
  if (const std::string service = first_of(value_of(environment, "RUNTIME_DIRECTORY")); !service.empty()) {
    add(service);
    return paths;
  }
  for (const std::string& base : {value_of(environment, "XDG_RUNTIME_DIR"), user_state_folder(environment)})
    if (!base.empty()) add(base + "/lanemq");
  return paths;
}

std::string own_operator_socket(const Environment& environment) {
  for (std::string& path : operator_sockets(environment))
    if (can_be_made(folder_of(path))) return std::move(path);
  return "";
}

std::optional<std::string> make_folder_of(const std::string& file) {
  const std::string folder = folder_of(file);
  if (make_folder(folder)) return std::nullopt;
  return "the folder " + folder + " cannot be made: " + std::strerror(errno);
}

bool listens_at(const std::string& socket_file) {
  sockaddr_un address{};
  if (socket_file.empty() || socket_file.size() >= kSocketPathMax) return false;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_file.data(), socket_file.size());
  const int asking = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  // EAGAIN: its queue is full, so somebody listens.
  const bool listens =
      ::connect(asking, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 || errno == EAGAIN;
  ::close(asking);
  return listens;
}

}  // namespace lanemq::settings
