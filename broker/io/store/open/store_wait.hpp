// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "broker/io/base/options.hpp"
#include "common/service/host.hpp"

namespace lanemq::io {

/// The broker's work while it waits for its store: tells the log, the service manager and other listeners
/// why, and hears commands. Not thread-safe.
class StoreWait {
 public:
  /// A candidate looks again after this pause.
  static constexpr std::chrono::milliseconds kPause{500};
  /// A database that cannot be used is told of so often: a name that is wrong would else be waited for in
  /// silence.
  static constexpr std::chrono::minutes kWarnEvery{5};

  /// `host` outlives it. `tell` is called at each look with what it
  /// saw, `reload` for that command.
  StoreWait(service::Host host, std::function<void(const StoreWaiting&)> tell, std::function<void()> reload)
      : host_(host), tell_(std::move(tell)), reload_(std::move(reload)) {}

  /// For StoreOptions::waiting. False: it was told to stop.
  bool go_on(const StoreWaiting& waiting);

 private:
  using Clock = std::chrono::steady_clock;

  void log(const StoreWaiting& waiting);

  const service::Host host_;
  const std::function<void(const StoreWaiting&)> tell_;
  const std::function<void()> reload_;
  std::string logged_;  ///< the last reason in the log
  Clock::time_point logged_at_{};
};

}  // namespace lanemq::io
