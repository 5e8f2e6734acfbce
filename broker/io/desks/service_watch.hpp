// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "broker/core/broker.hpp"
#include "broker/io/commits/store_watch.hpp"
#include "broker/io/store/store.hpp"
#include "common/service/notifier.hpp"

namespace lanemq::io {

/// Tells the service manager how the broker is: its figures once a second, and that it lives. It does as long
/// as the loop calls look() and the store's thread is not held up by the disk. Not thread-safe; belongs to
/// the loop.
class ServiceWatch {
 public:
  /// All outlive it.
  ServiceWatch(service::Notifier& notifier, const core::Broker& broker, const Store& store,
               const StoreWatch& store_watch)
      : notifier_(notifier),
        broker_(broker),
        store_(store),
        store_watch_(store_watch),
        every_(notifier.beat_every()) {}

  /// A restore goes on, with `rows` jobs and results read.
  void restoring(core::TimePoint now, std::size_t rows);
  void ready() { notifier_.ready(status()); }
  /// The broker drains, and ends `within` that time.
  void stopping(core::Duration within);
  /// The configuration was read again; not `good`: it cannot be used.
  void reloaded(bool good) { reload_refused_ = !good; }
  /// To be called in every turn, and every() at the latest.
  void look(core::TimePoint now) {
    if (every_ && now >= due_) tell(now);
  }
  /// How often look() is wanted; none: nobody listens.
  std::optional<std::chrono::milliseconds> every() const { return every_; }
  service::Notifier& notifier() { return notifier_; }

 private:
  void tell(core::TimePoint now);
  bool store_goes_on(core::TimePoint now);
  std::string status() const;

  service::Notifier& notifier_;
  const core::Broker& broker_;
  const Store& store_;
  const StoreWatch& store_watch_;
  const std::optional<std::chrono::milliseconds> every_;
  core::TimePoint due_{};
  std::uint64_t pulse_ = 0;       ///< of the store, as it was last seen
  core::TimePoint went_on_at_{};  ///< when the store was last seen to go on
  bool withholds_ = false;        ///< the watchdog is not fed any more, and the log says so
  bool reload_refused_ = false, stops_ = false;
};

}  // namespace lanemq::io
