// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "broker/http/access/operator_link.hpp"

namespace lanemq::admin {

/// Series that one answer has at most, whatever clients name.
inline constexpr std::size_t kSeriesMax = 500;
/// Services, budgets and keys that have series: those with the most jobs, or the first configured.
inline constexpr std::size_t kServicesShown = 16, kBudgetsShown = 16, kKeysShown = 32;

/// The rows that the metrics need besides a sample, from the verbs of those names.
struct MetricsRows {
  std::vector<Json> services;
  std::vector<Json> clients;  ///< that have series, those with the most tokens first
};

/// The broker's metrics in Prometheus' text format. Only the clients in `rows` have series of their own, and
/// no figure of another client is lost: it counts in its lane. `stats`: of a sample.
std::string metrics_text(const Json& stats, const MetricsRows& rows);

}  // namespace lanemq::admin
