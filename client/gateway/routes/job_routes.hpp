// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "client/gateway/apis/body_fields.hpp"
#include "client/gateway/apis/http_words.hpp"
#include "client/gateway/calls/flights.hpp"
#include "client/gateway/door/gateway.hpp"
#include "client/gateway/limits/caller_limits.hpp"
#include "client/gateway/limits/key_shares.hpp"
#include "common/http/server/router.hpp"

namespace lanemq::gateway {

/// The paths of the APIs that callers wait for: each request becomes a job of its API's
/// service.
class JobRoutes {
 public:
  explicit JobRoutes(Gateway& gateway) : gateway_(gateway), flights_(gateway, limits_) {}

  void add_to(Router& router);
  /// The limits of callers' keys, also for other routes.
  CallerLimits& limits() { return limits_; }
  /// From now on the broker shares the limits out among gateways.
  KeyShares* share_limits() {
    shares_ = std::make_unique<KeyShares>(gateway_, limits_);
    return shares_.get();
  }
  /// The broker is away, or that shard: ends the calls without content that wait for it.
  void end_waiting(const std::string& shard = {}) { flights_.end_waiting(shard); }
  /// See Flights.
  std::size_t end_calls_of(std::string_view caller) { return flights_.end_calls_of(caller); }
  std::size_t stop_background_of(std::string_view caller) { return flights_.stop_background_of(caller); }

 private:
  tl::expected<std::string, HttpAnswer> admit(const HttpRequest& head, const Api& api);
  HttpAnswer refusal_of(const Caller& caller, const HttpRequest& request, const ApiError& error);
  void post(HttpRequest request, const ResponderPtr& responder, const Api& api, Takes takes);
  void models(HttpRequest request, const ResponderPtr& responder);
  void run(const HttpRequest& request, const ResponderPtr& responder, tl::expected<JobPlan, ApiError> plan,
           Caller caller);
  void board(const HttpRequest& request, const ResponderPtr& responder, JobPlan plan, const Caller& caller);
  tl::expected<JobPlan, ApiError> plan_of(const HttpRequest& request, const Caller& caller, Takes takes,
                                          tl::expected<BodyFields, ApiError> read) const;

  Gateway& gateway_;
  CallerLimits limits_;
  Flights flights_;
  std::unique_ptr<KeyShares> shares_;
};

/// How long the caller waits: by `x-lanemq-timeout-ms`, else a second less than its SDK's timeout.
struct CallerPatience {
  std::optional<std::chrono::milliseconds> asked{};  ///< from x-lanemq-timeout-ms
  std::optional<std::chrono::milliseconds> sdk{};
};
tl::expected<CallerPatience, ApiError> patience_of(const Headers& headers);

}  // namespace lanemq::gateway
