// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "client/gateway/door/settings.hpp"
#include "common/service/host.hpp"

namespace lanemq::gateway {

/// A gateway within a process, which lends it what a process has once. It is told to stop by the host's
/// commands. Its calls are made in the order of their declarations, from one thread; each throws UsageError
/// or another std::exception, after which nothing but the destructor is called.
class GatewayProgram {
 public:
  /// `read_again`: the settings as they are now; it throws UsageError.
  GatewayProgram(Settings settings, std::function<Settings()> read_again);
  ~GatewayProgram();
  GatewayProgram(const GatewayProgram&) = delete;
  GatewayProgram& operator=(const GatewayProgram&) = delete;

  /// Listens, and opens files and batches. Returns the URL where it serves, from run() on.
  std::string start(service::Host host);
  /// Serves until it is told to stop.
  void run();

 private:
  class Parts;

  Settings settings_;
  const std::function<Settings()> read_again_;
  std::unique_ptr<Parts> parts_;  ///< null: not started
};

}  // namespace lanemq::gateway
