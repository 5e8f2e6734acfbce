// SPDX-License-Identifier: Apache-2.0
#include "worker/program/secret_reloader.hpp"

#include <cstddef>
#include <string>
#include <utility>

#include "common/settings/usage_error.hpp"
#include "worker/base/log_line.hpp"

namespace lanemq::worker {

SecretReloader::SecretReloader(std::vector<SecretService> services, MetricsServer* metrics, Log log,
                               service::Notifier& notifier)
    : services_(std::move(services)),
      metrics_(metrics),
      log_(std::move(log)),
      notifier_(notifier),
      thread_([this] { run(); }) {}

SecretReloader::~SecretReloader() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void SecretReloader::ask() {
  {
    const std::lock_guard lock(mutex_);
    asked_ = true;
  }
  changed_.notify_one();
}

void SecretReloader::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return asked_ || ends_; });
    if (ends_) return;
    asked_ = false;
    lock.unlock();
    read_again();
    lock.lock();
  }
}

void SecretReloader::read_again() {
  const service::Reloading told(notifier_);
  std::size_t changed = 0, kept = 0;
  for (const SecretService& service : services_)
    for (const SecretChange& change : service.read_again()) {
      const bool failed = !change.problem.empty();
      ++(failed ? kept : changed);
      LogLine line(log_, failed ? LogLevel::warning : LogLevel::info,
                   failed ? "secret.kept" : "secret.changed");
      line.field("service", service.name).field("secret", change.use);
      if (failed) line.field("reason", change.problem + "; the one read before stays in use");
    }
  if (!read_metrics_again()) ++kept;
  LogLine(log_, LogLevel::info, "secrets.read_again").field("changed", changed).field("kept", kept);
}

/// The key of the metrics, and their certificate.
bool SecretReloader::read_metrics_again() const try {
  if (metrics_ != nullptr) metrics_->read_again();
  return true;
} catch (const UsageError& error) {
  LogLine(log_, LogLevel::warning, "secret.kept")
      .field("secret", "metrics")
      .field("reason", std::string(error.what()) + "; what was read before stays in use");
  return false;
}

}  // namespace lanemq::worker
