// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <lanemq/worker.hpp>

#include "worker/handlers/exec/exec_handler.hpp"
#include "worker/handlers/exec/pool_lines.hpp"

namespace lanemq::worker {

/// Runs jobs in processes that live on: each takes jobs as lines of JSON from its stdin and answers them by
/// lines on its stdout (pool_lines.hpp). For programs that are slow to start, such as those that load a
/// model.
///
/// A process has ExecOptions::jobs_per_process jobs at most; others wait here. One that ends fails its jobs
/// as `retry` and is replaced: at once where it has answered since its start, else after a pause that grows
/// up to kPauseMax. While no process can be started, jobs fail as `retry` with the code `no_process`.
///
/// A job that is cancelled, or whose time is over, is told by `cancel`. Its process ends it, with any
/// outcome, or is killed after ExecOptions::grace, and takes its other jobs along. A line that is no answer,
/// or is longer than ExecOptions::output_max, ends its process as well; an answer to a job that the process
/// does not have is ignored.
class PoolHandler final : public HostedHandler {
 public:
  static constexpr std::chrono::milliseconds kPauseMin{100}, kPauseMax{30'000};
  /// A stream's process is told so often that its chunks have been taken, where its reader keeps up.
  static constexpr std::int64_t kChunksPerWindow = limits::stream_chunks_max / 2;

  /// Requires: options.processes > 0. `service` is for the log.
  PoolHandler(std::shared_ptr<ProcessHost> host, Program program, ExecOptions options, std::string service,
              Log log);
  ~PoolHandler() override;

  void start(const JobCall& job, Completion done) override;
  void cancel(wire::Lease lease) override;
  void resume(wire::Lease lease) override;
  std::optional<TimePoint> next_wakeup() const override;
  void advance(TimePoint now) override;

  /// Processes that run; for tests.
  std::size_t running() const;

 private:
  /// A job that waits for a place.
  struct Waiting {
    wire::Lease lease;
    std::uint64_t number = 0;  ///< as processes know it
    std::string line;          ///< without its end
    std::optional<TimePoint> deadline;
    bool stream = false;
    Completion done;
  };
  /// A job that a process has.
  struct Held {
    wire::Lease lease;
    wire::Lease told_as;  ///< as the process knows it
    Completion done;
    bool stream = false;
    bool waits = false;       ///< its reader is behind
    std::int64_t chunks = 0;  ///< that came
    std::int64_t told = 0;    ///< of them, in a window
    ExecStop why = ExecStop::none;
    bool job_over = false;  ///< at `due` the job's own time is over
    TimePoint due{};        ///< the end of its time, or of its grace
  };
  struct Process;
  /// When, of which process, and which job: kProcess stands for the process itself.
  using Timer = std::tuple<TimePoint, Process*, std::uint64_t>;
  static constexpr std::uint64_t kProcess = UINT64_MAX;

  void launch(Process& process, TimePoint now);
  void pause(Process& process, TimePoint now, const std::string& problem);
  bool has_room(const Process& process) const;
  std::uint64_t number_for(wire::Lease lease);
  static Held* held_by(Process& process, wire::Lease lease);
  Process* free_process(std::uint64_t number) const;
  void hand_over(TimePoint now);
  void give(Process& process, Waiting job, TimePoint now);
  void on_timer(Process& process, std::uint64_t job, TimePoint now);
  void stop(Process& process, Held& held, ExecStop why, TimePoint now);
  void kill(Process& process, const std::string& why);
  void retire(Process& process, TimePoint now);
  void set_process_timer(Process& process, std::optional<TimePoint> due);
  bool on_output(Process& process, std::string_view bytes);
  void on_line(Process& process, std::string_view line);
  void on_chunk(Process& process, Held& held, PoolAnswer& answer);
  void on_end(Process& process, ChildEnd end);
  void fail_held(Held& held, const ChildEnd& end, const Process& process) const;
  void finish(Held& held, PoolAnswer& answer) const;
  void tell(Process& process, const std::string& line);

  const Program program_;
  const ExecOptions options_;
  const std::string service_;
  const Log log_;
  StartRate rate_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::deque<Waiting> waiting_;  ///< with those that the processes have at most the worker's capacity
  std::set<Timer> timers_;
  std::uint64_t numbered_ = 0;  ///< jobs that got another number for their process
};

}  // namespace lanemq::worker
