// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <lanemq/worker.hpp>

namespace lanemq::worker {

// What a worker and a process of a pool tell each other: one JSON object a line, its `op` and fields as on
// the protocol's page, its body as text (`body`) or in base64 (`body_base64`).

/// A job without the end of its line, which job_line_end() is: how much time it has shows when it is handed
/// over.
std::string job_line(const JobCall& job);
std::string job_line_end(std::chrono::milliseconds left);
/// Stop working on the job. The process still ends it.
std::string cancel_line(wire::Lease lease, std::string_view reason);
/// The job's chunks up to `seq` have been taken.
std::string window_line(wire::Lease lease, std::int64_t seq);

/// What a process says of a job.
struct PoolAnswer {
  enum class What : unsigned char { chunk, progress, result, error };
  What what = What::result;
  std::uint64_t job = 0;
  std::optional<std::int64_t> attempt{};  ///< none: of the one that the process has
  std::optional<std::int64_t> seq{};      ///< of a chunk
  JobProgress progress{};                 ///< of a progress
  std::string body{};                     ///< of an error, too
  std::optional<wire::Usage> usage{};
  std::optional<wire::UpstreamLimits> limits{};
  JobFailure failure{};  ///< of an error, without body, usage and limits
};

/// Reads a line. None: it is no answer, and `problem` says what is wrong with it.
std::optional<PoolAnswer> read_pool_line(std::string_view line, std::string& problem);

}  // namespace lanemq::worker
