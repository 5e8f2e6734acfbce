// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "tests/support/upstream/limiter.hpp"

namespace lanemq::upstream {

/// What GET /stats tells of one key.
struct KeyStats {
  std::uint64_t accepted = 0;
  std::uint64_t rejected_429 = 0;  ///< By its limits.
  std::uint64_t refused_dead = 0;  ///< After it was declared dead.
  std::uint64_t peak_calls = 0;    ///< Of a period, as PeakMeter counts.
  std::uint64_t peak_tokens = 0;
};

/// What GET /stats tells: counters since the start, and the state now. See Upstream for what each counts.
struct Stats {
  std::uint64_t calls = 0;
  std::uint64_t ended = 0;  ///< Calls that the log was told of; it is written a little later.
  std::uint64_t accepted = 0;
  std::uint64_t ok = 0;
  std::uint64_t rejected_429 = 0;
  std::uint64_t bad_requests = 0;
  std::uint64_t violations =
      0;  ///< Of the bad requests: those with something that a gateway must not pass on.
  std::uint64_t unauthorized = 0;
  std::uint64_t malformed = 0;
  std::uint64_t hung_up = 0;
  std::uint64_t deltas = 0;                       ///< Sent, of streams.
  std::map<std::string, std::uint64_t> faults{};  ///< By name_of(Fault).
  std::map<std::string, std::uint64_t> paths{};   ///< Calls, by path.
  std::uint64_t duplicate_jobs = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t completion_tokens = 0;
  std::uint64_t charged_tokens = 0;
  std::uint64_t in_flight = 0;
  std::uint64_t in_flight_peak = 0;
  std::uint64_t connections = 0;
  std::uint64_t connections_peak = 0;
  std::uint64_t connections_refused = 0;
  std::map<std::string, KeyStats> keys{};  ///< By name; empty where any key is welcome.
};

/// What limits there are at the moment, and what is seen beside the calls.
struct Limits {
  WindowKind window = WindowKind::sliding;
  Duration period = kPeriodDefault;
  std::optional<std::uint64_t> requests{};
  std::optional<std::uint64_t> tokens{};
  std::optional<std::uint64_t> at_once{};
  std::uint64_t peak_calls = 0;
  std::uint64_t peak_tokens = 0;
  OthersTally others{};
};

/// The body of GET /stats. A limit that is not set is null.
std::string stats_body(const Stats& stats, const Limits& limits, Duration uptime);

}  // namespace lanemq::upstream
