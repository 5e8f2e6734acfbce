// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "tests/sim/crashing_host.hpp"

namespace lanemq::sim {

struct Stage;

/// What befalls a broker with a store: it dies, now and then while it starts or after a drain, comes back
/// after a while under clocks that were set, and its disk fills up.
class Disasters {
 public:
  /// `back` is called at each start.
  Disasters(Stage& stage, CrashingHost& host, const Crashes& crashes, std::function<void()> back);
  /// The broker is up, the disk is good, and nothing befalls them any more.
  void settle();

 private:
  void plan_end();
  void end();
  void stop_in_order(core::TimePoint give_up_at);
  void die();
  void start();
  void plan_fill();

  Stage& stage_;
  CrashingHost& host_;
  const Crashes& crashes_;
  std::function<void()> back_;
  std::uint64_t life_ = 0;  // what was planned in an earlier one is void
};

}  // namespace lanemq::sim
