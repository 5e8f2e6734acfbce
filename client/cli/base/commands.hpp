// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <lanemq/curve_keys.hpp>

namespace lanemq::cli {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;       ///< the job, or one of the jobs, failed
inline constexpr int kExitUsage = 2;        ///< the command or its files are invalid
inline constexpr int kExitUnreachable = 3;  ///< no broker answers
inline constexpr int kExitSignal = 128;     ///< plus the signal's number

/// The options of all commands.
struct Common {
  std::string broker;
  std::string admin;                                   ///< the operators' endpoint, whatever `broker` is
  std::string named_by = "--broker or LANEMQ_BROKER";  ///< for messages: how to name another endpoint
  CurveKeys keys{};                                    ///< for the clients' endpoint; operators need none
  bool lacks_keys = false;  ///< Asks::both: the clients' endpoint asks for keys, and there are none
  std::chrono::milliseconds connect_timeout{2'000};
};

/// The options of a job.
struct JobOptions {
  std::string service, lane, model, id, client, group, notify;
  std::optional<std::int64_t> timeout_ms;
  std::optional<int> attempts_max;
  std::optional<bool> durable, cancel_when_gone;
  std::optional<std::int64_t> cost_input, cost_output, group_size;
};

class CommandLine;

// The commands of `lanemq`: each adds itself, and prints its own errors.
void add_submit(CommandLine& line);
void add_run(CommandLine& line);
void add_stats(CommandLine& line);
void add_ping(CommandLine& line);
void add_bench(CommandLine& line);
void add_job_queries(CommandLine& line);  ///< status, fetch
void add_cancel(CommandLine& line);
void add_explain(CommandLine& line);
void add_watch(CommandLine& line);
void add_limits(CommandLine& line);
void add_cluster(CommandLine& line);            ///< before the operators' commands, of which it has one
void add_operator_commands(CommandLine& line);  ///< one for each of the operators' verbs
void add_check(CommandLine& line);
void add_top(CommandLine& line);
void add_simulate(CommandLine& line);
void add_keygen(CommandLine& line);
void add_completion(CommandLine& line);
void add_help(CommandLine& line);

/// Cancels a job, and prints its status. Returns the exit code.
int cancel_one(const Common& common, const std::string& id, bool json);

}  // namespace lanemq::cli
