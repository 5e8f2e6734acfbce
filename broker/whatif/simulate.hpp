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

/// Bound of a request's tokens, and of its answer's.
inline constexpr std::int64_t kTokensMax = 1'000'000'000;
/// Bound of the time from the first request to the last.
inline constexpr core::Duration kSpanMax = std::chrono::hours(24 * 366);
/// Bound of the places of a service.
inline constexpr std::size_t kPlacesMax = 100'000;

/// One request of a trace. The caller owns what the views show.
struct Request {
  core::Duration at{};  ///< since the trace began
  std::int64_t input_tokens = 0, output_tokens = 0;
  std::string_view lane;  ///< empty: the default lane
  std::string_view service = "trace", client = "trace";
  std::string_view model;  ///< empty: none
};

/// The model's workers: each service has a number of places, all for any lane. A job holds a place until its
/// first token and all others have come.
struct WorkerModel {
  std::size_t places = 256;  ///< of each service
  core::Duration first_token = std::chrono::milliseconds(500);
  double tokens_per_second = 50;  ///< of an answer; 0: tokens take no time
};

/// The outcome of one lane's jobs.
struct LaneReport {
  std::string name;
  std::size_t jobs = 0, succeeded = 0;
  std::size_t refused = 0;  ///< never taken
  std::size_t expired = 0;  ///< not ended by their deadline
  /// From submit to hand-over, of jobs that were handed over.
  core::Duration wait_p50{}, wait_p99{}, wait_max{};
};

/// The amounts sent under one limit of a budget.
struct LimitReport {
  std::string budget;
  std::string name;        ///< as configured: requests_per_minute, concurrency, ...
  std::int64_t limit = 0;  ///< per period; of a concurrency: at once
  bool concurrency = false;
  double used = 0;        ///< in total; of a concurrency: the mean
  double allowed = 0;     ///< by the limit in that time, at least one period; likewise
  std::int64_t peak = 0;  ///< in any window of a period; of a concurrency: at once

  /// For a rate: whole periods in which jobs waited all the time although a place was free, and the use in
  /// them; see WaitedUse.
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
  std::string example;  ///< the first refusal's message
};

/// The outcome of a trace, in virtual time.
struct Report {
  std::size_t requests = 0;
  core::Duration arrivals{};           ///< from first to last request
  core::Duration ran{};                ///< from the first request to the end of the last job
  std::vector<LaneReport> lanes;       ///< lanes with jobs, highest first
  std::vector<LimitReport> limits;     ///< in configured order
  std::vector<RefusalReport> refused;  ///< by code
  std::size_t clients = 0;
  /// Jain's index over the clients: what each had got at the last arrival, relative to its max-min fair
  /// share. In tokens, at least one for a request; requests that can never run do not count.
  double fairness = 1;
};

/// Called at each hand-over with the request's index in the trace and the time.
using Watch = std::function<void(std::size_t request, core::Duration at)>;

/// Runs the broker's core over a trace, in virtual time, until every job has ended. Equal arguments give
/// equal reports. Each job states its cost and costs that. A job that expires while it runs is stopped, and
/// its cost stays spent. Heartbeats, the network and transfer times are left out.
///
/// Requires: options that the broker would accept; at least one request; requests sorted by time, the first
/// at 0 and none after kSpanMax; configured lanes; tokens within kTokensMax; names as on the wire; 1 to
/// kPlacesMax places; no negative time or rate.
Report simulate(const core::Options& options, std::span<const Request> requests, const WorkerModel& model,
                const Watch& watch = {});

}  // namespace lanemq::whatif
