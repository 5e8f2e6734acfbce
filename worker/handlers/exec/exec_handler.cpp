// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/exec/exec_handler.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <string_view>

#include "common/settings/values.hpp"
#include "worker/base/shard_lease.hpp"
#include "worker/handlers/exec/progress_lines.hpp"

namespace lanemq::worker {

using std::chrono::milliseconds;

/// A job whose program runs.
struct ExecHandler::Run final : ChildOwner {
  Run(ExecHandler& owner, Waiting from) : handler(owner), job(std::move(from)) {}

  bool on_output(Child&, std::string_view bytes) override { return handler.on_output(*this, bytes); }
  void on_errors(Child&, std::string_view bytes) override {
    for (JobProgress& said : words.read(bytes)) {
      said.note = handler.program_.secrets.redacted(std::move(said.note));
      job.done.progress(std::move(said));
    }
  }
  void on_end(Child&, ChildEnd end) override { handler.on_end(*this, std::move(end)); }

  ExecHandler& handler;
  Waiting job;
  std::unique_ptr<Child> child{};
  ProgressLines words{};
  std::string output{};  ///< of a job without `stream`
  std::size_t came = 0;  ///< bytes of output
  ExecStop why = ExecStop::none;
  std::optional<TimePoint> due{};  ///< of its timer: the end of its time, or of its grace
};

std::vector<std::string> job_variables(const JobCall& job) {
  std::vector<std::string> variables{"LANEMQ_JOB=" + std::to_string(number_of(job.lease)),
                                     "LANEMQ_ATTEMPT=" + std::to_string(job.lease.attempt)};
  const std::pair<std::string_view, std::string_view> texts[] = {
      {"LANEMQ_ID=", job.id},       {"LANEMQ_SERVICE=", job.service}, {"LANEMQ_LANE=", job.lane},
      {"LANEMQ_MODEL=", job.model}, {"LANEMQ_CLIENT=", job.client},   {"LANEMQ_KEY=", job.key}};
  for (const auto& [name, value] : texts) {
    if (value.find('\0') != std::string_view::npos) return {};
    if (!value.empty()) variables.push_back(std::string(name).append(value));
  }
  if (job.stream) variables.emplace_back("LANEMQ_STREAM=1");
  return variables;
}

ExecHandler::ExecHandler(std::shared_ptr<ProcessHost> host, Program program, ExecOptions options)
    : HostedHandler(std::move(host)),
      program_(std::move(program)),
      options_(std::move(options)),
      rate_(options_.starts_per_second) {}

ExecHandler::~ExecHandler() = default;

void ExecHandler::start(const JobCall& job, Completion done) {
  Waiting waiting{.lease = job.lease,
                  .body = job.body,
                  .variables = job_variables(job),
                  .deadline = job.deadline,
                  .answer_max = std::min(options_.output_max, job.answer_bytes_max),
                  .stream = job.stream,
                  .done = std::move(done)};
  if (waiting.variables.empty())
    return waiting.done.failure({.error_class = ErrorClass::permanent,
                                 .code = "bad_name",
                                 .message = "the job's id, lane, model or client holds a NUL byte, which no "
                                            "variable of a program can"});
  waiting_.push_back(std::move(waiting));
}

void ExecHandler::cancel(wire::Lease lease) {
  const auto waiting =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& job) { return job.lease == lease; });
  if (waiting != waiting_.end()) {
    waiting->done.failure({.code = "cancelled", .message = "cancelled before it was started"});
    waiting_.erase(waiting);
    return;
  }
  if (const auto run = running_.find(lease); run != running_.end())
    stop(*run->second, ExecStop::cancelled, std::chrono::steady_clock::now());
}

void ExecHandler::resume(wire::Lease lease) {
  if (const auto run = running_.find(lease); run != running_.end()) run->second->child->resume();
}

std::optional<TimePoint> ExecHandler::next_wakeup() const {
  if (host().is_due()) return TimePoint{};
  std::optional<TimePoint> due;
  if (!timers_.empty()) due = timers_.begin()->first;
  if (!waiting_.empty()) due = due ? std::min(*due, rate_.next()) : rate_.next();
  return due;
}

void ExecHandler::advance(TimePoint now) {
  host().advance();
  while (!timers_.empty() && timers_.begin()->first <= now) {
    Run& run = *timers_.begin()->second;
    if (run.why != ExecStop::none) {
      kill(run);
      continue;
    }
    const bool job_over = run.job.deadline && *run.job.deadline <= now;
    stop(run, job_over ? ExecStop::deadline : ExecStop::timeout, now);
  }
  for (std::size_t i = 0; i < kStartsPerTurn && !waiting_.empty() && rate_.take(now); ++i) {
    Waiting job = std::move(waiting_.front());
    waiting_.pop_front();
    begin(std::move(job), now);
  }
}

void ExecHandler::begin(Waiting job, TimePoint now) {
  if (job.deadline && *job.deadline <= now)
    return job.done.failure({.error_class = ErrorClass::deadline,
                             .code = "timeout",
                             .message = "the job's own time was over before its program was started"});
  TimePoint due = now + options_.timeout;
  if (job.deadline) due = std::min(due, *job.deadline);
  job.variables.push_back("LANEMQ_TIMEOUT_MS=" +
                          std::to_string(std::chrono::duration_cast<milliseconds>(due - now).count()));
  auto run = std::make_unique<Run>(*this, std::move(job));
  std::string problem;
  run->child = host().start(program_, run->job.variables, *run, problem);
  if (!run->child)
    return run->job.done.failure({.error_class = ErrorClass::overloaded,
                                  .code = "not_started",
                                  .message = "the worker has no room for another program: " + problem});
  run->child->write(std::move(run->job.body));
  run->child->close_input();
  run->child->flush();
  Run& started = *run;
  running_[started.job.lease] = std::move(run);
  set_timer(started, due);
}

/// Ends the run: asks it to by SIGTERM, then kills it. Of several causes the first one counts.
void ExecHandler::stop(Run& run, ExecStop why, TimePoint now) {
  if (run.why != ExecStop::none) return;
  run.why = why;
  run.output = {};
  run.child->discard_output();
  if (why == ExecStop::output || options_.grace == milliseconds(0)) return kill(run);
  run.child->signal(SIGTERM);
  set_timer(run, now + options_.grace);
}

void ExecHandler::kill(Run& run) {
  set_timer(run, std::nullopt);
  run.child->signal(SIGKILL);
}

void ExecHandler::set_timer(Run& run, std::optional<TimePoint> due) {
  if (run.due) timers_.erase({*run.due, &run});
  run.due = due;
  if (due) timers_.emplace(*due, &run);
}

bool ExecHandler::on_output(Run& run, std::string_view bytes) {
  run.came += bytes.size();
  if (run.came > run.job.answer_max) {
    stop(run, ExecStop::output, {});
    return true;
  }
  if (run.job.stream) return run.job.done.chunk(Blob::copy(bytes));
  run.output += bytes;
  return true;
}

void ExecHandler::on_end(Run& run, ChildEnd end) {
  set_timer(run, std::nullopt);
  end.last_words = program_.secrets.redacted(without_progress(end.last_words));
  const auto output = std::make_shared<const std::string>(std::move(run.output));
  const auto answer = Blob::own(output, *output);
  if (run.why != ExecStop::none) {
    const std::string bound = run.why == ExecStop::output ? settings::show_size(run.job.answer_max)
                                                          : settings::show(options_.timeout);
    run.job.done.failure(failure_of(run.why, end, bound));
  } else if (auto failure = failure_of(end, program_.path)) {
    failure->body =
        program_.secrets.betrayed_by(*output) ? Blob::copy(program_.secrets.redacted(*output)) : answer;
    run.job.done.failure(std::move(*failure));
  } else {
    run.job.done.success(answer);
  }
  const wire::Lease lease = run.job.lease;
  running_.erase(lease);
}

}  // namespace lanemq::worker
