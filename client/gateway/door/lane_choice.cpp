// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/door/lane_choice.hpp"

#include <algorithm>

#include <lanemq/text.hpp>

#include "common/settings/values.hpp"

namespace lanemq::gateway {
namespace {

using Names = std::vector<std::string>;

constexpr std::string_view kOrdinaryLane = "normal";

bool has(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string joined(const Names& names) {
  std::string text;
  for (const std::string& name : names)
    text += (text.empty() ? "" : ", ") + name;
  return text;
}

/// The lane that a provider's tier stands for; empty: none.
std::string_view lane_of_tier(std::string_view tier) {
  if (tier == "priority" || tier == "fast") return "high";
  if (tier == "flex") return "low";
  if (tier == "default" || tier == "auto" || tier == "standard_only") return kOrdinaryLane;
  return {};
}

/// The lane if it is allowed, else the next lower allowed one, else the highest allowed one.
std::string lowered(std::string_view lane, const Names& allowed, const Names& ranking) {
  if (allowed.empty() || has(allowed, lane)) return std::string(lane);
  auto at = std::find(ranking.begin(), ranking.end(), lane);
  for (; at != ranking.end(); ++at)
    if (has(allowed, *at)) return *at;
  for (const std::string& candidate : ranking)
    if (has(allowed, candidate)) return candidate;
  return allowed.front();
}

ApiError bad_lane(std::string name, const std::string& message) {
  return {.name = std::move(name), .message = message, .param = "x-lanemq-lane"};
}

}  // namespace

tl::expected<std::string, ApiError> choose_lane(const LaneWish& wish, const LaneRules& rules,
                                                const Names& ranking) {
  for (const std::string_view named : {wish.header, wish.prefix, wish.suffix}) {
    if (named.empty()) continue;
    const std::string shown = "lane \"" + printable(named, 64) + "\"";
    if (!has(ranking, named))
      return tl::unexpected(bad_lane("bad_request", shown + " does not exist; there are " + joined(ranking)));
    if (!rules.allows(named))
      return tl::unexpected(bad_lane(
          "forbidden", shown + " is not allowed with this key; it may use " + joined(rules.allowed)));
    return std::string(named);
  }
  const std::string_view meant = lane_of_tier(wish.service_tier);
  if (!meant.empty() && has(ranking, meant)) return lowered(meant, rules.allowed, ranking);
  if (!rules.fallback.empty()) return rules.fallback;
  if (has(ranking, kOrdinaryLane) || !rules.allowed.empty())
    return lowered(kOrdinaryLane, rules.allowed, ranking);
  return std::string();
}

LanesMissing missing_lanes(const std::vector<LaneRules>& rules, const Names& ranking, const Names& there) {
  LanesMissing missing;
  for (const LaneRules& rule : rules)
    if (const auto lane = choose_lane({}, rule, ranking);
        lane && !lane->empty() && !has(there, *lane) && !has(missing.unasked, *lane))
      missing.unasked.push_back(*lane);
  for (const std::string& lane : ranking)
    if (!has(there, lane) && !has(missing.unasked, lane)) missing.named.push_back(lane);
  return missing;
}

ModelAndLane split_model(std::string_view text, const Names& ranking) {
  const std::size_t at = text.rfind('@');
  if (at == std::string_view::npos || at == 0 || !has(ranking, text.substr(at + 1)))
    return {.model = text, .lane = {}};
  return {.model = text.substr(0, at), .lane = text.substr(at + 1)};
}

std::optional<ApiError> why_no_lane_of_model(std::string_view text, const Names& ranking,
                                             const std::vector<ModelSettings>& models,
                                             std::string_view param) {
  const std::size_t at = text.rfind('@');
  if (at == std::string_view::npos || at == 0 || has(ranking, text.substr(at + 1))) return std::nullopt;
  const std::string_view named = text.substr(at + 1);
  const std::string meant = settings::nearest(named, ranking);
  if (meant.empty() || find_route(models, text) != nullptr) return std::nullopt;
  return ApiError{.name = "bad_request",
                  .message = "model \"" + printable(text, 64) + "\": lane \"" + printable(named, 64) +
                             "\" does not exist; did you mean \"" + meant + "\"? There are " +
                             joined(ranking) + ". A model that is called so needs a [[model]] of that name",
                  .param = std::string(param)};
}

}  // namespace lanemq::gateway
