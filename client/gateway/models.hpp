// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <lanemq/client.hpp>

#include "client/gateway/api.hpp"

namespace lanemq::gateway {

/// Why a route's next step is taken.
enum class FallBackOn : unsigned char { rate, timeout, server_error, context, quota };
inline constexpr std::size_t kFallBackReasons = 5;

/// Where a request can go.
struct RouteStep {
  std::string service{};  ///< empty: that of the API
  std::string model{};    ///< the upstream's name
  /// The next step is taken when there is no content by then; 0: this one may wait for as long as it wants.
  std::chrono::milliseconds max_wait{0};

  bool operator==(const RouteStep&) const = default;
};

/// A name that callers use, and what is behind it.
struct ModelSettings {
  std::string name{};
  std::vector<RouteStep> steps{};  ///< at least one; of one API all
  Api api = Api::openai;
  bool falls_back_on[kFallBackReasons] = {true, true, true, true, true};

  static constexpr std::size_t kStepsMax = 8;

  bool operator==(const ModelSettings&) const = default;
};

/// The reason for a fall-back that an error is, if it is one.
bool is_reason(const ClientError& error, FallBackOn reason);
/// Whether the route goes on to its next step after that error.
bool falls_back(const ModelSettings& route, const ClientError& error);

/// The route of that name; null: there is none, and the name is the upstream's own.
const ModelSettings* find_route(const std::vector<ModelSettings>& models, std::string_view name);

}  // namespace lanemq::gateway
