// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace lanemq::worker {

/// What a service of the exec handler runs, and within which bounds.
struct ExecOptions {
  std::vector<std::string> argv{};   ///< the program and its arguments, as written
  std::size_t processes = 0;         ///< of a pool; 0: a process for each job
  std::size_t jobs_per_process = 1;  ///< of a pool: at once
  std::size_t recycle_after = 0;     ///< of a pool: jobs, then the process is replaced; 0: never
  std::vector<std::string>
      environment{};        ///< `NAME`, `NAME=VALUE` or `NAME=SECRET-SOURCE`, besides kPassedOn
  std::string directory{};  ///< empty: the worker's
  std::chrono::milliseconds timeout{600'000};  ///< of a job, from its start; or less, where it has less left
  std::chrono::milliseconds grace{5'000};      ///< from SIGTERM, or `cancel` in a pool, to SIGKILL
  std::size_t output_max = std::size_t{64} * 1024 * 1024;  ///< bytes of an answer; of a pool, of a line
  std::size_t memory_max = 0;                              ///< bytes of data of each process; 0: no limit
  std::size_t files_max = 1024;                            ///< open files of each process
  std::size_t starts_per_second = 1000;

  static constexpr std::size_t kProcessesMax = 1024;
  static constexpr std::size_t kJobsPerProcessMax = 1024;
  static constexpr std::size_t kArgumentsMax = 256;
  static constexpr std::size_t kEnvironmentMax = 128;
  /// Variables of the worker that every program gets, where they are set.
  static constexpr const char* kPassedOn[] = {"PATH", "HOME",   "USER",     "LOGNAME", "SHELL",
                                              "LANG", "LC_ALL", "LC_CTYPE", "TZ",      "TMPDIR"};
};

}  // namespace lanemq::worker
