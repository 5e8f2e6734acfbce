// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <mutex>
#include <optional>

namespace lanemq::service {

/// What the outside asks of a program that runs.
enum class Command : unsigned char {
  reload,  ///< read the configuration again
  stop,    ///< finish what runs, then end; said again: end now
};

/// Brings commands to a program's loop.
class Commands {
 public:
  virtual ~Commands() = default;
  /// Readable while there is a command; the Commands keep it.
  virtual int descriptor() const = 0;
  /// The next command; none: there is none now. Does not block.
  virtual std::optional<Command> next() = 0;
};

/// The signals of a process as commands: SIGHUP asks for a reload, SIGTERM and SIGINT to stop. One thread
/// uses it.
class SignalCommands final : public Commands {
 public:
  /// Blocks the three signals for this thread and for those that it starts from now on, and ignores SIGPIPE:
  /// a broken connection shows in its call. Throws std::runtime_error where no descriptors are left.
  SignalCommands();
  ~SignalCommands() override;
  SignalCommands(const SignalCommands&) = delete;
  SignalCommands& operator=(const SignalCommands&) = delete;

  int descriptor() const override { return signals_; }
  std::optional<Command> next() override;
  /// The signal of the last command; 0: there was none.
  int last() const { return last_; }

 private:
  int signals_, last_ = 0;
};

/// Commands of who runs a program within a process of their own. give() is thread-safe.
class GivenCommands final : public Commands {
 public:
  /// Throws std::runtime_error where no descriptors are left.
  GivenCommands();
  ~GivenCommands() override;
  GivenCommands(const GivenCommands&) = delete;
  GivenCommands& operator=(const GivenCommands&) = delete;

  void give(Command command);
  int descriptor() const override { return count_; }
  std::optional<Command> next() override;

 private:
  int count_;  ///< an eventfd: how many there are
  std::mutex mutex_;
  std::deque<Command> commands_;  // under mutex_
};

}  // namespace lanemq::service
