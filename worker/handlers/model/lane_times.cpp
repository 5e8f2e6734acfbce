// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/model/lane_times.hpp"

namespace lanemq::worker {
namespace {

using std::chrono::seconds;

constexpr std::string_view kOtherLanes = "normal";

CallTimes times(seconds connect, seconds first_token, seconds between_tokens, seconds total) {
  return {.connect = connect, .first_token = first_token, .between_tokens = between_tokens, .total = total};
}

}  // namespace

LaneTimes::LaneTimes()
    : by_lane_{{"critical", times(seconds(2), seconds(20), seconds(15), seconds(120))},
               {"high", times(seconds(3), seconds(30), seconds(20), seconds(180))},
               {"normal", times(seconds(5), seconds(60), seconds(30), seconds(600))},
               {"low", times(seconds(5), seconds(120), seconds(60), seconds(900))},
               {"batch", times(seconds(10), seconds(300), seconds(120), seconds(1800))}} {}

const CallTimes& LaneTimes::of(std::string_view lane) const {
  const auto place = by_lane_.find(lane);
  return place == by_lane_.end() ? by_lane_.find(kOtherLanes)->second : place->second;
}

CallTimes& LaneTimes::at(std::string_view lane) {
  return by_lane_.try_emplace(std::string(lane), of(lane)).first->second;
}

}  // namespace lanemq::worker
