// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <lanemq/worker.hpp>

#include "common/settings/environment.hpp"
#include "worker/metrics/metrics_options.hpp"
#include "worker/metrics/metrics_text.hpp"

namespace lanemq::worker {

/// Refuses what a start would refuse: an address beyond this machine without a key and TLS, a key or a
/// certificate that cannot be read, an address that nobody can listen on. Throws settings::UsageError.
void check_metrics(const MetricsOptions& options, const settings::Environment& environment);

/// Serves /metrics, /healthz and /readyz, on a thread of its own, whatever the worker's loop does. A loop
/// that has not turned for kSilenceMax is not healthy: a handler blocks it.
class MetricsServer {
 public:
  static constexpr std::chrono::milliseconds kBeatEvery{500};
  static constexpr std::chrono::milliseconds kSilenceMax{5'000};

  /// Listens and starts the thread. `figures`: all but the beat; asked on that thread. Throws
  /// settings::UsageError as check_metrics() does, and where the address is taken.
  MetricsServer(const MetricsOptions& options, const settings::Environment& environment,
                std::function<WorkerFigures()> figures);
  /// Ends the thread; who still reads is cut off.
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  /// `http://127.0.0.1:5574`.
  const std::string& url() const;
  /// Takes a new key and certificate for requests and connections to come. Throws settings::UsageError where
  /// they cannot be read; those before stay in use. Thread-safe.
  void read_again();
  /// The worker's loop turns. From its thread, every kBeatEvery.
  void beat(const WorkerBeat& beat);

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace lanemq::worker
