// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "client/gateway/gateway.hpp"
#include "client/gateway/http/server.hpp"

namespace lanemq::gateway {

/// Whether the broker answers, asked every second; `/healthz`, `/readyz` and `/metrics`.
class Health {
 public:
  Health(Gateway& gateway, const HttpServer& server);

  void add_routes(Router& router);
  void watch();

 private:
  bool broker_answers() const;
  HttpAnswer ready() const;

  Gateway& gateway_;
  const HttpServer& server_;
  std::unique_ptr<Loop::Timer> timer_;
  bool asked_ = false;
  std::optional<Loop::TimePoint> answered_;
};

}  // namespace lanemq::gateway
