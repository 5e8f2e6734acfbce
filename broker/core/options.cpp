// SPDX-License-Identifier: Apache-2.0
#include "broker/core/options.hpp"

namespace lanemq::core {

using std::chrono::hours;
using std::chrono::seconds;

std::vector<LaneOptions> default_lanes() {
  return {
      {.name = "critical", .timeout = seconds(30), .depth_max = 1000, .reserve = 200},
      {.name = "high", .timeout = seconds(60), .depth_max = 5000, .reserve = 100, .share_min = 50},
      {.name = "normal",
       .timeout = seconds(300),
       .depth_max = 20000,
       .is_default = true,
       .share_min = 50,
       .boost_after = seconds(60)},
      {.name = "low",
       .timeout = seconds(900),
       .depth_max = 50000,
       .share_min = 50,
       .boost_after = seconds(300)},
      {.name = "batch", .timeout = hours(24), .depth_max = 1000000, .share_min = 20},
  };
}

Options default_options() {
  Options options;
  options.lanes = default_lanes();
  return options;
}

}  // namespace lanemq::core
