// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "client/gateway/apis/api_error.hpp"
#include "client/gateway/door/models.hpp"

namespace lanemq::gateway {

/// The lanes that a caller may use.
struct LaneRules {
  std::string fallback{};              ///< of requests that name none; empty: the broker's default
  std::vector<std::string> allowed{};  ///< empty: all

  bool allows(std::string_view lane) const {
    return allowed.empty() || std::find(allowed.begin(), allowed.end(), lane) != allowed.end();
  }
  bool operator==(const LaneRules&) const = default;
};

/// Where a request may name its lane; an earlier one wins.
struct LaneWish {
  std::string_view header{};        ///< x-lanemq-lane, else x-priority
  std::string_view prefix{};        ///< of the URL
  std::string_view suffix{};        ///< of the model
  std::string_view service_tier{};  ///< of the body
};

/// The lane of a request; empty: the broker's default. A named lane must be allowed; one from a tier or a
/// default is lowered to an allowed one. `ranking`: all lanes, the highest first.
tl::expected<std::string, ApiError> choose_lane(const LaneWish& wish, const LaneRules& rules,
                                                const std::vector<std::string>& ranking);

/// Lanes that callers are given by these rules, and that a broker has not.
struct LanesMissing {
  std::vector<std::string> unasked;  ///< of requests that name none: each of these is refused
  std::vector<std::string> named;    ///< all others that may be named

  bool any() const { return !unasked.empty() || !named.empty(); }
  bool operator==(const LanesMissing&) const = default;
};
/// `rules`: of each key, or the one of all callers. `there`: the broker's lanes.
LanesMissing missing_lanes(const std::vector<LaneRules>& rules, const std::vector<std::string>& ranking,
                           const std::vector<std::string>& there);

/// Splits `gpt-x@batch` into `gpt-x` and `batch`. The text behind the last @ counts only if it is a lane:
/// models may have an @ in their names.
struct ModelAndLane {
  std::string_view model, lane;
};
ModelAndLane split_model(std::string_view text, const std::vector<std::string>& ranking);

/// The error of a model that says a lane with a slip in it, `gpt-x@hihg`; none: what stands behind its @ is a
/// lane, or resembles none, as models' versions do, or one of `models` has that name.
std::optional<ApiError> why_no_lane_of_model(std::string_view text, const std::vector<std::string>& ranking,
                                             const std::vector<ModelSettings>& models,
                                             std::string_view param);

}  // namespace lanemq::gateway
