// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <lanemq/client.hpp>

#include "client/gateway/apis/api.hpp"

namespace lanemq::gateway {

/// Errors after which a route's next step is taken.
enum class FallBackOn : unsigned char { rate, timeout, server_error, context, quota };
inline constexpr std::size_t kFallBackReasons = 5;

/// A step of a route: a service and a model.
struct RouteStep {
  std::string service{};  ///< empty: the API's service
  std::string model{};    ///< the upstream's name
  /// The next step is taken if this one has no content by then; 0: it may wait without a bound.
  std::chrono::milliseconds max_wait{0};

  bool operator==(const RouteStep&) const = default;
};

/// A model's name for callers, and its route.
struct ModelSettings {
  std::string name{};
  std::vector<RouteStep> steps{};  ///< at least one; all of one API
  const Api* api = &kOpenai;
  bool falls_back_on[kFallBackReasons] = {true, true, true, true, true};

  static constexpr std::size_t kStepsMax = 8;

  bool operator==(const ModelSettings&) const = default;
};

/// Whether an error is this reason for a fall-back.
bool is_reason(const ClientError& error, FallBackOn reason);
/// Whether the route goes on to its next step after the error.
bool falls_back(const ModelSettings& route, const ClientError& error);

/// The route of that name; null: there is none, and the upstream knows the name.
const ModelSettings* find_route(const std::vector<ModelSettings>& models, std::string_view name);

}  // namespace lanemq::gateway
