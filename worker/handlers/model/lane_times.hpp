// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "worker/handlers/http/http_client.hpp"

namespace lanemq::worker {

/// Time limits of a model's answer by the job's lane: a caller in a critical lane gives up sooner than a
/// batch. An unknown lane has the limits of `normal`.
class LaneTimes {
 public:
  LaneTimes();

  const CallTimes& of(std::string_view lane) const;
  /// The limits of a lane, to be changed; a new lane begins with those of `normal`.
  CallTimes& at(std::string_view lane);
  const std::map<std::string, CallTimes, std::less<>>& by_lane() const { return by_lane_; }

 private:
  std::map<std::string, CallTimes, std::less<>> by_lane_;
};

}  // namespace lanemq::worker
