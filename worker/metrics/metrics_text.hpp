// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <lanemq/worker.hpp>

#include "worker/metrics/call_figures.hpp"

namespace lanemq::worker {

/// Series that one answer has at most, whatever services and codes there are.
inline constexpr std::size_t kSeriesMax = 2'000;

/// What a worker says of itself.
struct WorkerFigures {
  std::size_t capacity = 0;
  WorkerBeat beat{};  ///< the last one
  std::vector<ServiceFigures> services{};
};

/// A worker's metrics in Prometheus' text format.
std::string metrics_text(const WorkerFigures& figures);

}  // namespace lanemq::worker
