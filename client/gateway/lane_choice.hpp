// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "client/gateway/api_error.hpp"

namespace lanemq::gateway {

/// What a caller may use of lanes.
struct LaneRules {
  std::string fallback{};              ///< where a request names none; empty: the broker's default
  std::vector<std::string> allowed{};  ///< empty: all

  bool operator==(const LaneRules&) const = default;
};

/// What a request says of its lane, in the order of what counts first.
struct LaneWish {
  std::string_view header{};        ///< x-lanemq-lane, else x-priority
  std::string_view prefix{};        ///< of the URL
  std::string_view suffix{};        ///< of the model
  std::string_view service_tier{};  ///< of the body
};

/// The lane of a request; empty: the broker's default. A lane that is named must be allowed; one that is only
/// meant (a tier, a default) is lowered to one that is. `ranking`: the lanes, the highest first.
tl::expected<std::string, ApiError> choose_lane(const LaneWish& wish, const LaneRules& rules,
                                                const std::vector<std::string>& ranking);

/// `gpt-x@batch` as `gpt-x` and `batch`. What follows the last @ counts only where it is a lane: models may
/// have an @ of their own.
struct ModelAndLane {
  std::string_view model, lane;
};
ModelAndLane split_model(std::string_view text, const std::vector<std::string>& ranking);

}  // namespace lanemq::gateway
