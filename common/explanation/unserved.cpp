// SPDX-License-Identifier: Apache-2.0
#include "common/explanation/unserved.hpp"

#include <lanemq/text.hpp>

namespace lanemq {

std::optional<Unserved> unserved_of(std::string_view blocked_by) {
  constexpr std::string_view kLane = " lane=", kDraining = " draining";
  constexpr std::string_view kNoWorker = "no worker ";
  if (!blocked_by.starts_with(kNoWorker)) return std::nullopt;
  const std::string_view service = blocked_by.substr(kNoWorker.size());
  const std::size_t at = service.rfind(kLane);
  if (at == std::string_view::npos) return Unserved{.service = std::string(service)};
  std::string_view lane = service.substr(at + kLane.size());
  const bool draining = lane.ends_with(kDraining);
  if (draining) lane.remove_suffix(kDraining.size());
  return Unserved{
      .service = std::string(service.substr(0, at)), .lane = std::string(lane), .draining = draining};
}

std::string name_of(const Unserved& unserved, std::string_view quote) {
  std::string name;
  name.append(quote).append(printable(unserved.service)).append(quote);
  if (!unserved.lane.empty())
    name.append(" in lane ").append(quote).append(printable(unserved.lane)).append(quote);
  return unserved.draining ? name + " (all that do drain)" : name;
}

std::string help_of(const Unserved& unserved) {
  const std::string start = "lanemq-worker --service " + printable(unserved.service) + "=HANDLER";
  if (unserved.lane.empty())
    return "Start one: " + start + "; or check the job's service for a slip of the pen.";
  if (unserved.draining)
    return "lanemq resume worker NAME ends an operator's drain (lanemq workers shows who drains); or start "
           "one: " +
           start + ".";
  return "Start one that takes the lane: " + start +
         ", without --lanes; lanemq workers shows who takes which. The reserved_slots of higher lanes are "
         "places for these alone.";
}

}  // namespace lanemq
