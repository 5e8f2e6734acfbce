// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/service/commands.hpp"
#include "common/service/notifier.hpp"

namespace lanemq::service {

/// What a process has once, and lends to the program that runs in it. Both outlive the program.
struct Host {
  Commands& commands;
  Notifier& notifier;
};

}  // namespace lanemq::service
