// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <utility>

#include "client/gateway/door/gateway.hpp"
#include "client/gateway/run/service_beat.hpp"
#include "common/http/server/server.hpp"

namespace lanemq::gateway {

/// Stops the server in steps: first /readyz refuses, for load balancers; then new work is refused, until
/// nothing runs or the time is over.
class Drain {
 public:
  Drain(Gateway& gateway, HttpServer& server, ServiceBeat& beat)
      : gateway_(gateway), server_(server), beat_(beat), timer_(server.timer()) {}

  void begin() {
    if (std::exchange(gateway_.leaving, true)) return server_.stop();  // a second signal ends at once
    beat_.stopping(gateway_.settings.drain_delay + gateway_.settings.drain_timeout);
    timer_->after(gateway_.settings.drain_delay, [this] { refuse(); });
  }

 private:
  static constexpr std::chrono::milliseconds kLookEvery{20};

  void refuse() {
    gateway_.draining = true;
    until_ = server_.now() + gateway_.settings.drain_timeout;
    server_.drain();
    look();
  }
  void look() {
    if (server_.busy() == 0 || server_.now() >= until_) return server_.stop();
    timer_->after(kLookEvery, [this] { look(); });
  }

  Gateway& gateway_;
  HttpServer& server_;
  ServiceBeat& beat_;
  std::unique_ptr<Loop::Timer> timer_;
  Loop::TimePoint until_{};
};

}  // namespace lanemq::gateway
