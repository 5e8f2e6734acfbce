// SPDX-License-Identifier: Apache-2.0
#include "common/settings/start_check.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>

#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <lanemq/endpoints.hpp>
#include <lanemq/text.hpp>

#include "common/settings/values.hpp"

namespace lanemq::settings {
namespace {

constexpr std::size_t kSocketPathMax = sizeof(sockaddr_un::sun_path) - 1;
constexpr std::int64_t kPortMax = 65535;

[[noreturn]] void refuse_endpoint(const std::string& endpoint, const std::string& why) {
  throw UsageError("endpoint " + printable(endpoint) + " " + why);
}

}  // namespace

void check_endpoint(const std::string& endpoint, Port port) {
  const std::string_view text = endpoint;
  if (text.starts_with(kIpc)) {
    const std::size_t bytes = text.size() - kIpc.size();
    if (text.substr(kIpc.size()).starts_with('@'))
      refuse_endpoint(
          endpoint,
          "is an abstract socket, which has no file whose mode says who may connect: every user of the "
          "machine could; write ipc://PATH");
    if (bytes == 0 || bytes > kSocketPathMax)
      refuse_endpoint(endpoint, "has a path of " + std::to_string(bytes) + " bytes; it must have 1.." +
                                    std::to_string(kSocketPathMax));
    return;
  }
  const std::size_t colon = text.rfind(':');
  if (!text.starts_with(kTcp) || text.find_first_of(" \t\n") != std::string_view::npos)
    refuse_endpoint(endpoint, "is not known; write tcp://HOST:PORT or ipc://PATH");
  if (colon <= kTcp.size()) refuse_endpoint(endpoint, "names no host or no port; write tcp://HOST:PORT");
  const std::string_view said = text.substr(colon + 1);
  if (port == Port::any && (said == "*" || said == "0")) return;
  try {
    static_cast<void>(parse_count(said, 1, kPortMax));
  } catch (const UsageError&) {
    refuse_endpoint(endpoint, "names no port; it ends in :PORT, 1 to " + std::to_string(kPortMax) +
                                  (port == Port::any ? ", or in :* for a free one" : ""));
  }
}

void check_endpoints(const std::string& endpoints) {
  const Endpoints list(endpoints);
  if (list.all().size() > Endpoints::kEndpointsMax)
    throw UsageError("there are " + std::to_string(list.all().size()) + " endpoints; at most " +
                     std::to_string(Endpoints::kEndpointsMax) + " may be named");
  for (const std::string& endpoint : list.all())
    check_endpoint(endpoint, Port::named);
}

std::optional<std::string> why_not_listen(const std::string& address, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int code = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found); code != 0)
    return "give a numeric address, like 127.0.0.1 or ::1";
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  // The socket is bound but does not listen, so that connections are refused meanwhile.
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::strerror(errno);
  const int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const int error = bind(fd, found->ai_addr, found->ai_addrlen) == 0 ? 0 : errno;
  close(fd);
  if (error == 0 || error == EADDRINUSE) return std::nullopt;
  return std::strerror(error);
}

std::optional<std::string> why_not_folder(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path folder = fs::absolute(path, error).lexically_normal();
  while (!error && !fs::exists(folder, error) && folder.has_parent_path() && folder != folder.parent_path())
    folder = folder.parent_path();
  if (error) return error.message();
  if (!fs::is_directory(folder, error)) return printable(folder.string()) + " is no folder";
  if (access(folder.c_str(), W_OK | X_OK) == 0) return std::nullopt;
  return printable(folder.string()) + ": " + std::strerror(errno);
}

}  // namespace lanemq::settings
