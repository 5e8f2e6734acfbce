// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "worker/handlers/http/http_client.hpp"

namespace lanemq::worker {

/// How long the parts of a model's answer may take, by the lane of its job: who waits in a critical lane
/// gives up sooner than a batch. A lane that is not known here has the times of `normal`.
class LaneTimes {
 public:
  LaneTimes();

  const CallTimes& of(std::string_view lane) const;
  /// Those of a lane, to be changed; a new one has those of `normal` at first.
  CallTimes& at(std::string_view lane);
  const std::map<std::string, CallTimes, std::less<>>& by_lane() const { return by_lane_; }

 private:
  std::map<std::string, CallTimes, std::less<>> by_lane_;
};

}  // namespace lanemq::worker
