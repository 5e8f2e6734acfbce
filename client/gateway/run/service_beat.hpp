// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "client/gateway/apis/http_words.hpp"
#include "client/gateway/run/health.hpp"
#include "common/http/server/server.hpp"
#include "common/service/notifier.hpp"

namespace lanemq::gateway {

/// Tells the service manager, from the loop, how the gateway is and that it lives. Belongs to the loop's
/// thread.
class ServiceBeat {
 public:
  /// All outlive it. `url`: where the gateway listens.
  ServiceBeat(service::Notifier& notifier, HttpServer& server, const Health& health, std::string url);

  /// The gateway listens. Whether its broker answers is no part of that: callers are told so, and /readyz.
  void ready();
  /// The gateway was told to stop, and ends `within` that time.
  void stopping(std::chrono::milliseconds within);

 private:
  void beat();
  std::string status() const;

  service::Notifier& notifier_;
  const HttpServer& server_;
  const Health& health_;
  const std::string url_;
  bool stops_ = false;
  const std::unique_ptr<Loop::Timer> timer_;
};

}  // namespace lanemq::gateway
