// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include <lanemq/worker.hpp>

#include "common/service/notifier.hpp"
#include "worker/metrics/metrics_server.hpp"
#include "worker/program/service_maker.hpp"

namespace lanemq::worker {

/// Reads the secrets again when it is asked, on a thread of its own: a file may be slow, and the broker
/// expects heartbeats. Logs which have changed, never a value. Thread-safe.
class SecretReloader {
 public:
  /// `metrics`: may be null; outlives it, as `notifier` does.
  SecretReloader(std::vector<SecretService> services, MetricsServer* metrics, Log log,
                 service::Notifier& notifier);
  /// Waits for the reading that is under way.
  ~SecretReloader();
  SecretReloader(const SecretReloader&) = delete;
  SecretReloader& operator=(const SecretReloader&) = delete;

  /// What is asked while it reads is done once more after that.
  void ask();

 private:
  void run();
  void read_again();
  bool read_metrics_again() const;

  std::vector<SecretService> services_;
  MetricsServer* const metrics_;
  const Log log_;
  service::Notifier& notifier_;
  std::mutex mutex_;  // guards the two below
  bool asked_ = false, ends_ = false;
  std::condition_variable changed_;
  std::thread thread_;  // last: it uses the other members
};

}  // namespace lanemq::worker
