// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/log/log.hpp"
#include "common/service/host.hpp"
#include "common/settings/environment.hpp"

namespace lanemq::service {

/// What a program lends itself that has its process alone: the thread that writes the log, the process's
/// signals as commands, and its service manager. To be made after what needs a process of one thread, and to
/// be destroyed after the program.
class OwnProcess {
 public:
  Host host() { return {signals_, notifier_}; }
  /// The signal of the last command; 0: there was none.
  int last_signal() const { return signals_.last(); }

 private:
  const log::Writing writing_;
  SignalCommands signals_;
  Notifier notifier_{settings::process_environment};
};

}  // namespace lanemq::service
