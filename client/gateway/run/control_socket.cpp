// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/run/control_socket.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

namespace lanemq::gateway {
namespace {

constexpr const char* kName = "control.sock";
constexpr std::string_view kDone = "done\n", kRefused = "refused\n";
constexpr timeval kAnswerWait{.tv_sec = 60, .tv_usec = 0};

std::runtime_error failed(const std::string& what) {
  return std::runtime_error(what + ": " + std::strerror(errno));
}

/// The socket's address, by a descriptor of its folder: a path of any length fits.
class Address {
 public:
  explicit Address(const std::string& folder)
      : folder_(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
    address_.sun_family = AF_UNIX;
    const std::string path = "/proc/self/fd/" + std::to_string(folder_) + "/" + kName;
    path.copy(address_.sun_path, sizeof address_.sun_path - 1);
  }
  ~Address() {
    if (folder_ >= 0) ::close(folder_);
  }
  Address(const Address&) = delete;
  Address& operator=(const Address&) = delete;

  bool is_there() const { return folder_ >= 0; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
  static constexpr socklen_t kSize = sizeof(sockaddr_un);

 private:
  int folder_;
  sockaddr_un address_{};
};

void answer_to(int fd, const ControlAnswer& answer) {
  const std::string text = std::string(answer.done ? kDone : kRefused) + answer.text;
  static_cast<void>(::send(fd, text.data(), text.size(), MSG_NOSIGNAL));
}

}  // namespace

struct ControlSocket::Commander {
  explicit Commander(int descriptor) : fd(descriptor) {}
  ~Commander() {
    watch.reset();
    ::close(fd);
  }
  Commander(const Commander&) = delete;
  Commander& operator=(const Commander&) = delete;

  const int fd;
  std::unique_ptr<Loop::Watch> watch{};
};

ControlSocket::ControlSocket(Loop& loop, const std::string& folder, Serve serve)
    : loop_(loop), serve_(std::move(serve)), path_((std::filesystem::path(folder) / kName).string()) {
  const Address address(folder);
  if (!address.is_there()) throw failed(folder);
  // Of an earlier life.
  if (::unlink(path_.c_str()) != 0 && errno != ENOENT) throw failed(path_);
  socket_ = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const mode_t before = ::umask(0177);
  const int bound = socket_ < 0 ? -1 : ::bind(socket_, address.get(), Address::kSize);
  ::umask(before);
  if (bound != 0 || ::listen(socket_, static_cast<int>(kCommandsMax)) != 0) {
    const std::runtime_error why = failed(path_);
    if (socket_ >= 0) ::close(socket_);
    throw why;
  }
  watch_ = loop_.watch(socket_, [this] { accept(); });
}

ControlSocket::~ControlSocket() {
  commanders_.clear();
  watch_.reset();
  ::close(socket_);
  ::unlink(path_.c_str());
}

void ControlSocket::accept() {
  const int fd = ::accept4(socket_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) return;
  const auto commander = std::make_shared<Commander>(fd);
  if (commanders_.size() >= kCommandsMax)
    return answer_to(fd, {.text = "other commands are under way; try again"});
  commander->watch = loop_.watch(fd, [this, fd] { read(fd); });
  commanders_.emplace(fd, commander);
}

void ControlSocket::read(int fd) {
  const auto at = commanders_.find(fd);
  if (at == commanders_.end()) return;
  std::array<char, kCommandBytesMax> bytes{};
  const ssize_t size = ::recv(fd, bytes.data(), bytes.size(), 0);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) return end(fd);
  serve_(std::string(bytes.data(), static_cast<std::size_t>(size)),
         [this, fd, weak = std::weak_ptr<Commander>(at->second)](const ControlAnswer& answer) {
           if (weak.expired()) return;  // it has left
           answer_to(fd, answer);
           end(fd);
         });
}

/// Ends a connection once the call that watches it is over.
void ControlSocket::end(int fd) {
  const auto at = commanders_.find(fd);
  if (at == commanders_.end()) return;
  loop_.post([gone = std::move(at->second)] {});
  commanders_.erase(at);
}

std::optional<ControlAnswer> command_gateway(const std::string& folder, const std::string& command) {
  const Address address(folder);
  if (!address.is_there()) return std::nullopt;
  const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (socket < 0) throw failed("a socket");
  struct Closes {
    int fd;
    ~Closes() { ::close(fd); }
  } const closes{socket};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &kAnswerWait, sizeof kAnswerWait);
  if (::connect(socket, address.get(), Address::kSize) != 0) {
    if (errno == ENOENT || errno == ECONNREFUSED) return std::nullopt;
    throw failed("the gateway of " + folder);
  }
  if (::send(socket, command.data(), command.size(), MSG_NOSIGNAL) < 0)
    throw failed("the gateway of " + folder);
  std::array<char, ControlSocket::kCommandBytesMax> bytes{};
  const ssize_t size = ::recv(socket, bytes.data(), bytes.size(), 0);
  if (size <= 0) throw std::runtime_error("the gateway of " + folder + " does not answer; see its log");
  std::string_view said(bytes.data(), static_cast<std::size_t>(size));
  const bool done = said.starts_with(kDone);
  said.remove_prefix(done ? kDone.size() : kRefused.size());
  return ControlAnswer{.done = done, .text = std::string(said)};
}

}  // namespace lanemq::gateway
