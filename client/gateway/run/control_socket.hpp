// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/http/server/base/loop.hpp"

namespace lanemq::gateway {

using http::Loop;

/// What a command of the gateway's user is told.
struct ControlAnswer {
  bool done = false;
  std::string text{};  ///< for people: what was done, or why it was not
};

/// The way of a command line to the gateway that has a state folder: a socket file there (SOCK_SEQPACKET), in
/// which a command is one message and its answer another one. Who may open the folder may command. Belongs to
/// the loop's thread.
class ControlSocket {
 public:
  /// Commands at once; a further one is refused.
  static constexpr std::size_t kCommandsMax = 8;
  static constexpr std::size_t kCommandBytesMax = 4'096;

  using Then = std::function<void(ControlAnswer answer)>;
  /// Does what the command says and calls `then` once, perhaps later.
  using Serve = std::function<void(const std::string& command, Then then)>;

  /// Requires: no other gateway has the folder. Throws std::runtime_error.
  ControlSocket(Loop& loop, const std::string& folder, Serve serve);
  ~ControlSocket();
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

 private:
  struct Commander;

  void accept();
  void read(int fd);
  void end(int fd);

  Loop& loop_;
  const Serve serve_;
  const std::string path_;
  int socket_ = -1;
  std::unique_ptr<Loop::Watch> watch_;
  std::map<int, std::shared_ptr<Commander>> commanders_;
};

/// Has the gateway of that folder do something; waits for the answer. None: no gateway has the folder. Throws
/// std::runtime_error where it cannot be asked, or does not answer within a minute.
std::optional<ControlAnswer> command_gateway(const std::string& folder, const std::string& command);

}  // namespace lanemq::gateway
