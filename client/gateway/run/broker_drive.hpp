// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include <lanemq/loop_client.hpp>

#include "client/gateway/apis/http_words.hpp"
#include "common/http/server/base/loop.hpp"

namespace lanemq::gateway {

/// Drives the client of the broker in the gateway's loop. Belongs to the loop's thread; the loop outlives it.
class BrokerDrive {
 public:
  /// Throws as LoopClient does.
  BrokerDrive(Loop& loop, ClientOptions options);
  BrokerDrive(const BrokerDrive&) = delete;
  BrokerDrive& operator=(const BrokerDrive&) = delete;

  LoopClient& client() { return client_; }

 private:
  void turn();
  void wait();

  Loop& loop_;
  /// Posted work may run after this is destroyed, and checks that here.
  const std::shared_ptr<BrokerDrive*> alive_ = std::make_shared<BrokerDrive*>(this);
  LoopClient client_;
  const std::unique_ptr<Loop::Timer> timer_;
  std::optional<Loop::TimePoint> set_for_;  ///< the timer's time; empty: not set
  const std::unique_ptr<Loop::Watch> watch_;
};

}  // namespace lanemq::gateway
