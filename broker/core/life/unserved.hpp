// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "broker/core/base/time.hpp"
#include "broker/core/base/timer_wheel.hpp"

namespace lanemq::core {

struct State;

/// Says which services have queued jobs and no worker: a notice for each (service_without_worker) when two
/// looks in a row have found it so, and one a minute from then on.
class Unserved {
 public:
  /// While a worker is started again its service has none: that alone is not worth a word.
  static constexpr Duration kLookEvery = std::chrono::seconds(2);
  /// How many looks are a minute.
  static constexpr std::uint32_t kLooksApart = 30;
  /// Bound on the services looked at, so that a client that names thousands that nobody serves fills no log.
  static constexpr std::size_t kWatchedMax = 16;

  explicit Unserved(State& state) : state_(state) {}
  Unserved(const Unserved&) = delete;
  Unserved& operator=(const Unserved&) = delete;

  void begin_turn(TimePoint now);
  /// The time has come that begin_turn() has set.
  void look(TimePoint now);

 private:
  State& state_;
  Timer timer_{TimerOwner::unserved, this};  ///< set while there are such services
};

}  // namespace lanemq::core
