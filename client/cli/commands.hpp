// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <lanemq/client.hpp>

#include "client/cli/run/json_lines.hpp"
#include "client/cli/run/output_file.hpp"

namespace lanemq::cli {

// The commands of `lanemq`, each a function from its options to an exit code. They say what is wrong
// themselves.

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;       ///< the job failed, or some of the jobs
inline constexpr int kExitUsage = 2;        ///< the command or its files cannot be used as they are
inline constexpr int kExitUnreachable = 3;  ///< no broker answers
inline constexpr int kExitSignal = 128;     ///< and the number of the signal

/// What all commands share.
struct Common {
  std::string broker;
  std::string named_by = "--broker or LANEMQ_BROKER";  ///< how people name another
  std::chrono::milliseconds connect_timeout{3'000};
};

/// What jobs are made of.
struct JobOptions {
  std::string service, lane, model, id;
  std::optional<std::int64_t> timeout_ms;
};

struct SubmitOptions {
  JobOptions job;
  std::string body;  ///< as it was given: text, @FILE or -
  std::optional<std::int64_t> delay_ms, retain_ms;
  bool leave = false;   ///< do not wait for the answer
  bool stream = false;  ///< piece by piece
  bool json = false;    ///< the answer with what is known of its job; not piece by piece
  std::string meta{};   ///< JSON
};

struct RunOptions {
  JobOptions job;
  std::string file, out;  ///< out empty: beside the file
  std::optional<LineFormat> format;
  OutputOrder order = OutputOrder::completion;
  std::size_t window = 64;
  int retries = 0;
  bool quiet = false;
  bool json = false;  ///< how it ended
};

struct StatsOptions {
  bool json = false;
  std::optional<double> watch_seconds;
};

struct PingOptions {
  int count = 1;
  bool json = false;
};

struct BenchOptions {
  JobOptions job;
  std::size_t count = 100'000, window = 1'000, body_bytes = 128;
  bool json = false;
};

struct JobQuery {
  std::string id;
  std::int64_t wait_ms = 0;                ///< of fetch
  std::optional<std::int64_t> from_seq{};  ///< of fetch: piece by piece from there on
  bool json = false;
};

struct LimitsOptions {
  bool json = false;
  std::optional<AdminRequest> filter;  ///< none: all of them
};

/// What an operator asks for.
struct AdminOptions {
  AdminRequest request;
  std::size_t rows_max = 0;  ///< of a list; 0: all; kNoList: it is none
  bool json = false;
  bool all_dead = false;  ///< redrive, purge: no filter is meant
};
inline constexpr std::size_t kNoList = static_cast<std::size_t>(-1);

struct SimulateOptions {
  std::string config;  ///< the broker's file; empty: its defaults
  std::vector<std::string> assignments;
  std::string trace;  ///< a file, or -
  double speed = 1;
  std::size_t places = 256;
  std::int64_t first_token_ms = 500;
  double tokens_per_second = 50;
  bool json = false;
};

int submit(const Common& common, const SubmitOptions& options);
int run(const Common& common, const RunOptions& options);
int stats(const Common& common, const StatsOptions& options);
int ping(const Common& common, const PingOptions& options);
int bench(const Common& common, const BenchOptions& options);
int status(const Common& common, const JobQuery& query);
int cancel(const Common& common, const JobQuery& query);
int fetch(const Common& common, const JobQuery& query);
int explain(const Common& common, const JobQuery& query);
int limits(const Common& common, const LimitsOptions& options);
int admin(const Common& common, const AdminOptions& options);
int top(const Common& common);
int simulate(const SimulateOptions& options);

}  // namespace lanemq::cli
