// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "broker/http/operator_link.hpp"

namespace lanemq::admin {

/// Series that one answer has at most, whatever clients name.
inline constexpr std::size_t kSeriesMax = 500;
/// Services, budgets and keys that have series: those with the most jobs, or the first configured.
inline constexpr std::size_t kServicesShown = 16, kBudgetsShown = 16, kKeysShown = 32;

/// The broker's metrics in Prometheus' text format. Clients make no series, and no figure of theirs is lost:
/// it counts in its lane. `stats`: of a sample. `services`: rows of that verb.
std::string metrics_text(const Json& stats, const std::vector<Json>& services);

}  // namespace lanemq::admin
