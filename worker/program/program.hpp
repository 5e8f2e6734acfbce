// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <lanemq/worker.hpp>

#include "common/log/level.hpp"
#include "common/service/host.hpp"
#include "worker/metrics/metrics_server.hpp"
#include "worker/program/obedience.hpp"
#include "worker/program/secret_reloader.hpp"
#include "worker/program/service_maker.hpp"
#include "worker/settings.hpp"

namespace lanemq::worker {

/// Exit codes of the program.
inline constexpr int kExitDone = 0, kExitUsage = 2, kExitUnreachable = 3;

/// A worker within a process, which lends it what a process has once. It is told to stop by the host's
/// commands. Its calls are made in the order of their declarations, from one thread; each throws UsageError
/// or another std::exception, after which nothing but the destructor is called.
class WorkerProgram {
 public:
  struct Ready {
    std::string name;     ///< as the broker has it
    std::string metrics;  ///< the URL where they are served; empty: nowhere
  };
  struct Told {
    /// On the worker's thread, when the broker has welcomed it, each time.
    std::function<void(const Ready&)> ready;
    /// On a thread of the program's, when it is told to stop, and there is no worker that could.
    std::function<void()> stop_without_worker;
  };

  explicit WorkerProgram(Settings settings) : settings_(std::move(settings)) {}
  WorkerProgram(const WorkerProgram&) = delete;
  WorkerProgram& operator=(const WorkerProgram&) = delete;

  /// Tries the plugins. Requires: the process has one thread.
  void prepare() { try_plugins(settings_, false); }
  /// Reads the secrets, and takes them out of the environment; makes the services. Requires: signals that are
  /// not to reach the program's threads are blocked in this one.
  void start(service::Host host, Told told);
  /// Serves until it is told to stop, the broker refuses it, or none is reached: says so, and returns the
  /// exit code.
  int run();

  const Settings& settings() const { return settings_; }

 private:
  int say_refused() const;
  int say_unreachable() const;

  Settings settings_;
  bool is_known_ = false;  ///< by some broker: jobs that run cannot wait for a look at another shard's
  std::unique_ptr<MetricsServer> metrics_;
  std::optional<Obedience> obedience_;
  std::optional<ServiceMaker> maker_;
  std::optional<Worker> worker_;
  std::optional<SecretReloader> reloader_;
};

/// Makes the library write its lines to the program's log.
Log make_log(log::Level level);

/// Refuses what a start would refuse: makes the services, which reads all secrets, but no connection.
void check_start(Settings& settings);

}  // namespace lanemq::worker
