// SPDX-License-Identifier: Apache-2.0
#include "common/service/commands.hpp"

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <stdexcept>
#include <system_error>

#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/signals/signal_set.hpp"

namespace lanemq::service {
namespace {

int required(int descriptor, const char* what) {
  if (descriptor >= 0) return descriptor;
  throw std::runtime_error(std::string(what) +
                           " cannot be made: " + std::error_code(errno, std::generic_category()).message());
}

}  // namespace

SignalCommands::SignalCommands() {
  const sigset_t signals = signal_set({SIGTERM, SIGINT, SIGHUP});
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  signals_ = required(signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC), "a descriptor for signals");
}

SignalCommands::~SignalCommands() {
  ::close(signals_);
}

std::optional<Command> SignalCommands::next() {
  signalfd_siginfo info{};
  if (::read(signals_, &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return std::nullopt;
  last_ = static_cast<int>(info.ssi_signo);
  return info.ssi_signo == SIGHUP ? Command::reload : Command::stop;
}

GivenCommands::GivenCommands()
    : count_(required(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC | EFD_SEMAPHORE), "a descriptor for commands")) {}

GivenCommands::~GivenCommands() {
  ::close(count_);
}

void GivenCommands::give(Command command) {
  const std::lock_guard lock(mutex_);
  commands_.push_back(command);
  const std::uint64_t one = 1;
  static_cast<void>(::write(count_, &one, sizeof one));
}

std::optional<Command> GivenCommands::next() {
  const std::lock_guard lock(mutex_);
  if (commands_.empty()) return std::nullopt;
  std::uint64_t one = 0;
  static_cast<void>(::read(count_, &one, sizeof one));
  const Command command = commands_.front();
  commands_.pop_front();
  return command;
}

}  // namespace lanemq::service
