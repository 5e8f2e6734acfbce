// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lanemq/worker.hpp>

#include "common/metrics/durations.hpp"

namespace lanemq::worker {

/// Of a call, and of what comes first of its answer.
inline constexpr std::array<double, 14> kCallBounds{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                                                    1,     2.5,  5,     10,   30,  120,  600};
using DurationFigures = metrics::Durations<kCallBounds>;

/// What a service's calls came to, since the worker's start.
struct ServiceFigures {
  /// Different codes and statuses that are told apart; further ones count as `other`. A plugin or a program
  /// may make up any number of them.
  static constexpr std::size_t kCodesMax = 16, kStatusesMax = 16;

  std::string name{};
  std::uint64_t started = 0, succeeded = 0;
  std::size_t running = 0;
  std::uint64_t input_tokens = 0, output_tokens = 0;             ///< as handlers report them
  std::map<std::string, std::uint64_t, std::less<>> failed{};    ///< by code
  std::map<std::string, std::uint64_t, std::less<>> statuses{};  ///< by what the upstream answered
  DurationFigures calls{};                                       ///< from a call's begin to its end
  DurationFigures first_pieces{};                                ///< of streams: to their first piece
};

/// Counts the worker's calls, and passes what it hears on. Told on the thread of Worker::run(), asked by any.
/// Holds as much as the worker has jobs and services.
class CallFigures final : public CallWatcher {
 public:
  /// `services`: all names that calls can have. `next`: is told the same, and makes the trace of a call;
  /// null: nobody.
  CallFigures(const std::vector<std::string>& services, std::shared_ptr<CallWatcher> next);

  std::string began(const JobCall& job) override;
  void streams(wire::Lease lease, TimePoint now) override;
  void ended(wire::Lease lease, const CallEnd& end, TimePoint now) override;

  /// In the order of the services.
  std::vector<ServiceFigures> now() const;

 private:
  struct Running {
    std::size_t service;
    TimePoint began;
    bool streams = false;
  };

  const std::shared_ptr<CallWatcher> next_;
  std::map<std::pair<std::uint64_t, std::int64_t>, Running> running_;  // by job and attempt; the loop's own
  mutable std::mutex mutex_;
  std::vector<ServiceFigures> services_;  // under mutex_
};

}  // namespace lanemq::worker
