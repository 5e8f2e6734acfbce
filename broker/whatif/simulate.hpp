// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "broker/core/base/options.hpp"
#include "broker/core/base/time.hpp"

namespace lanemq::whatif {

/// The most tokens that a request may ask for or be answered with.
inline constexpr std::int64_t kTokensMax = 1'000'000'000;
/// The longest time from the first request to the last.
inline constexpr core::Duration kSpanMax = std::chrono::hours(24 * 366);
/// The most places of all workers of one service.
inline constexpr std::size_t kPlacesMax = 100'000;

/// One request of a trace. The views are the caller's.
struct Request {
  core::Duration at{};  ///< since the trace began
  std::int64_t input_tokens = 0, output_tokens = 0;
  std::string_view lane;  ///< empty: the default lane
  std::string_view service = "trace", client = "trace";
  std::string_view model;  ///< empty: none
};

/// How the workers of the model do their work: each service has so many general places, and a job holds one
/// until its first token and all others have come.
struct WorkerModel {
  std::size_t places = 256;  ///< of each service
  core::Duration first_token = std::chrono::milliseconds(500);
  double tokens_per_second = 50;  ///< of the answer; 0: they take no time
};

/// What became of the jobs of one lane.
struct LaneReport {
  std::string name;
  std::size_t jobs = 0, succeeded = 0;
  std::size_t refused = 0;  ///< never taken
  std::size_t expired = 0;  ///< did not end within their time
  /// From the submit to the hand-over, of the jobs that were handed over.
  core::Duration wait_p50{}, wait_p99{}, wait_max{};
};

/// What was sent under one limit of a budget.
struct LimitReport {
  std::string budget;
  std::string name;        ///< as configured: requests_per_minute, concurrency, ...
  std::int64_t limit = 0;  ///< in a period; of concurrency: at once
  bool concurrency = false;
  double used = 0;        ///< in all; of concurrency: at once, in the mean
  double allowed = 0;     ///< by the limit over the time it ran, at least a period's; likewise
  std::int64_t peak = 0;  ///< the most in any window of a period; of concurrency: at once

  /// Of a rate: in how many whole periods jobs waited all the time although a place was free for them, and
  /// what was used in these; see WaitedUse.
  std::int64_t waited_periods = 0;
  double waited_used = 0;

  double percent() const { return 100 * used / allowed; }
  /// Requires: waited_periods > 0.
  double waited_percent() const {
    return 100 * waited_used / (static_cast<double>(limit) * static_cast<double>(waited_periods));
  }
};

/// Why requests were refused.
struct RefusalReport {
  std::string code;
  std::size_t count = 0;
  std::string example;  ///< what the first was told
};

/// What a trace brought, in virtual time.
struct Report {
  std::size_t requests = 0;
  core::Duration arrivals{};           ///< from the first request to the last
  core::Duration ran{};                ///< from the first request to the end of the last job
  std::vector<LaneReport> lanes;       ///< those that had jobs, highest first
  std::vector<LimitReport> limits;     ///< in the order of the configuration
  std::vector<RefusalReport> refused;  ///< by code
  std::size_t clients = 0;
  /// Jain's index over the clients of what each was given by the last arrival, relative to its max-min fair
  /// share of all that was given by then. Counted in tokens, at least one for a request; what can never run
  /// is not counted.
  double fairness = 1;
};

/// Told of each hand-over: the place of its request in the trace, and when it was.
using Watch = std::function<void(std::size_t request, core::Duration at)>;

/// Runs the broker's core over a trace, in virtual time, until every job has ended. Equal arguments give
/// equal reports. Each job states what it will cost, and costs that; a job that expires while it runs is
/// broken off, and what it was to cost stays spent. Heartbeats, the network and the time that messages take
/// are left out.
///
/// Requires: options that the broker would start with; at least one request; requests in the order of their
/// times, the first at 0 and none after kSpanMax; lanes that there are; tokens within kTokensMax; names as on
/// the wire; 1 to kPlacesMax places; no time and no rate below 0.
Report simulate(const core::Options& options, std::span<const Request> requests, const WorkerModel& model,
                const Watch& watch = {});

}  // namespace lanemq::whatif
