// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "broker/core/base/time.hpp"
#include "broker/core/base/timer_wheel.hpp"

namespace lanemq::core {

struct Job;

/// The last progress report from the worker of a running job: for one attempt, from its first report on.
struct Progress {
  explicit Progress(Job& of) : job(of) {}

  Timer timer{TimerOwner::progress, this};  ///< when a word is told to watchers, or silence is judged
  Job& job;
  std::optional<std::int64_t> pct;
  std::string note;
  TimePoint heard_at{};                ///< the last sign of life: progress, a chunk, or room for one
  std::optional<TimePoint> told_at{};  ///< to watchers; none: not yet
  bool untold = false;                 ///< the last word is for watchers, but came too soon

  /// Its share of the byte bounds: what the worker chose. The rest only running jobs have, as an Away.
  std::size_t bytes() const { return note.size(); }
};

}  // namespace lanemq::core
