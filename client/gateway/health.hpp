// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "client/gateway/gateway.hpp"
#include "client/gateway/http/server.hpp"

namespace lanemq::gateway {

class BatchService;

/// Whether the broker answers, asked every second; `/healthz`, `/readyz` and `/metrics`.
class Health {
 public:
  Health(Gateway& gateway, const HttpServer& server);

  void add_routes(Router& router);
  /// Whose figures are among the metrics; must outlive this.
  void watch_batches(const BatchService& batches) { batches_ = &batches; }
  /// It has not answered for five seconds, or never since this was made so long ago.
  bool broker_is_away() const;
  void watch();

 private:
  bool broker_answers() const;
  HttpAnswer ready() const;

  Gateway& gateway_;
  const HttpServer& server_;
  const BatchService* batches_ = nullptr;
  std::unique_ptr<Loop::Timer> timer_;
  bool asked_ = false;
  const Loop::TimePoint began_;
  std::optional<Loop::TimePoint> answered_;
};

}  // namespace lanemq::gateway
