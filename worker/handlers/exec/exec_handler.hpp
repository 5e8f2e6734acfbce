// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <lanemq/worker.hpp>

#include "worker/handlers/exec/child.hpp"
#include "worker/handlers/exec/exec_options.hpp"
#include "worker/handlers/exec/exec_outcome.hpp"
#include "worker/handlers/exec/process_host.hpp"
#include "worker/handlers/exec/start_rate.hpp"

namespace lanemq::worker {

/// Leases in order.
struct ByLease {
  bool operator()(const wire::Lease& a, const wire::Lease& b) const {
    return a.job != b.job ? a.job < b.job : a.attempt < b.attempt;
  }
};

/// What a handler shares with all others that run programs: the host, and the loop's calls for it.
class HostedHandler : public Handler {
 public:
  int descriptor() const override { return host_->descriptor(); }
  void on_readable(TimePoint) override { host_->on_readable(); }

 protected:
  explicit HostedHandler(std::shared_ptr<ProcessHost> host) : host_(std::move(host)) {}
  ProcessHost& host() const { return *host_; }

 private:
  std::shared_ptr<ProcessHost> host_;
};

/// The variables that tell a program of its job: LANEMQ_ID, LANEMQ_LANE and so on; those of fields that the
/// job has not are left out. LANEMQ_TIMEOUT_MS is not among them. Empty: a field holds a NUL byte, which no
/// variable can.
std::vector<std::string> job_variables(const JobCall& job);

/// Runs a program for each job: the body is its stdin, the answer its stdout, with `stream` in pieces as they
/// come. Lines of its stderr may say how far it is (progress_lines.hpp). exec_outcome.hpp has what its end
/// means. What the program has started ends with it.
///
/// A job that is cancelled, or whose time is over, gets SIGTERM, and SIGKILL after ExecOptions::grace; its
/// outcome is handed in when all of its processes are gone. A program that writes too much is killed.
class ExecHandler final : public HostedHandler {
 public:
  /// One turn starts so many programs at most.
  static constexpr std::size_t kStartsPerTurn = 32;

  ExecHandler(std::shared_ptr<ProcessHost> host, Program program, ExecOptions options);
  ~ExecHandler() override;

  void start(const JobCall& job, Completion done) override;
  void cancel(wire::Lease lease) override;
  void resume(wire::Lease lease) override;
  std::optional<TimePoint> next_wakeup() const override;
  void advance(TimePoint now) override;

 private:
  /// A job that waits for its start.
  struct Waiting {
    wire::Lease lease;
    Blob body;
    std::vector<std::string> variables;
    std::optional<TimePoint> deadline;
    std::size_t answer_max = 0;
    bool stream = false;
    Completion done;
  };
  struct Run;

  void begin(Waiting job, TimePoint now);
  void stop(Run& run, ExecStop why, TimePoint now);
  void kill(Run& run);
  void set_timer(Run& run, std::optional<TimePoint> due);
  bool on_output(Run& run, std::string_view bytes);
  void on_end(Run& run, ChildEnd end);

  const Program program_;
  const ExecOptions options_;
  StartRate rate_;
  std::deque<Waiting> waiting_;  ///< with running_ at most the worker's capacity
  std::map<wire::Lease, std::unique_ptr<Run>, ByLease> running_;
  std::set<std::pair<TimePoint, Run*>> timers_;  ///< at most one a run
};

}  // namespace lanemq::worker
