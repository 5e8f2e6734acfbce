// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lanemq::gateway {

/// Figures of files and batches, for metrics.
struct BatchFigures {
  static constexpr std::size_t kStates = 7;  ///< of BatchState, in its order
  static constexpr std::string_view kStateNames[kStates] = {
      "validating", "in_progress", "finalizing", "completed", "failed", "expired", "cancelled"};

  std::array<std::int64_t, kStates> batches{};  ///< kept ones, by state
  std::int64_t lines_waiting = 0;               ///< of running batches: without answer and not at the broker
  std::int64_t lines_running = 0;               ///< at the broker
  std::int64_t files = 0, file_bytes = 0;
  std::int64_t database_bytes = 0;  ///< of gateway.db, with its log
  std::uint64_t commits_failed = 0;
  std::int64_t commit_failed_at = 0;  ///< last failed commit, in ms since 1970; 0: none
  bool disk_refuses = false;          ///< now: batches wait for the disk
};

}  // namespace lanemq::gateway
