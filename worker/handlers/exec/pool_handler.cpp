// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/exec/pool_handler.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <utility>

#include <lanemq/text.hpp>

#include "common/settings/values.hpp"
#include "worker/base/log_line.hpp"
#include "worker/base/shard_lease.hpp"

namespace lanemq::worker {

using std::chrono::milliseconds;

/// A place for a process, and the process, if it runs.
struct PoolHandler::Process final : ChildOwner {
  explicit Process(PoolHandler& owner) : pool(owner) {}

  bool on_output(Child&, std::string_view bytes) override { return pool.on_output(*this, bytes); }
  void on_end(Child&, ChildEnd end) override { pool.on_end(*this, std::move(end)); }

  PoolHandler& pool;
  std::unique_ptr<Child> child{};  ///< null: it waits for its start
  std::map<std::uint64_t, Held> jobs{};
  std::string unsaid{};            ///< lines for its stdin, sent together
  std::string begun{};             ///< a line of its stdout without its end
  std::size_t taken = 0;           ///< jobs it was given
  bool answered = false;           ///< any job
  bool leaving = false;            ///< it gets no more jobs
  bool retires = false;            ///< its stdin was closed, since it has had its share of jobs
  std::string broken{};            ///< why it was killed
  unsigned failures = 0;           ///< starts in a row that came to nothing
  TimePoint start_at{};            ///< no start before
  std::optional<TimePoint> due{};  ///< of its own timer: then it is killed
};

PoolHandler::PoolHandler(std::shared_ptr<ProcessHost> host, Program program, ExecOptions options,
                         std::string service, Log log)
    : HostedHandler(std::move(host)),
      program_(std::move(program)),
      options_(std::move(options)),
      service_(std::move(service)),
      log_(std::move(log)),
      rate_(options_.starts_per_second) {
  for (std::size_t i = 0; i < options_.processes; ++i)
    processes_.push_back(std::make_unique<Process>(*this));
}

PoolHandler::~PoolHandler() = default;

std::size_t PoolHandler::running() const {
  return static_cast<std::size_t>(std::count_if(
      processes_.begin(), processes_.end(), [](const auto& process) { return process->child != nullptr; }));
}

// ---- the loop's calls ---------------------------------------------------------------------------------

void PoolHandler::start(const JobCall& job, Completion done) {
  JobCall told = job;
  told.lease.job = number_for(job.lease);
  waiting_.push_back({.lease = job.lease,
                      .number = told.lease.job,
                      .line = job_line(told),
                      .deadline = job.deadline,
                      .stream = job.stream,
                      .done = std::move(done)});
}

void PoolHandler::cancel(wire::Lease lease) {
  const auto waiting =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& job) { return job.lease == lease; });
  if (waiting != waiting_.end()) {
    waiting->done.failure({.code = "cancelled", .message = "cancelled before it was started"});
    waiting_.erase(waiting);
    return;
  }
  for (const auto& process : processes_)
    if (Held* const held = held_by(*process, lease))
      return stop(*process, *held, ExecStop::cancelled, std::chrono::steady_clock::now());
}

void PoolHandler::resume(wire::Lease lease) {
  for (const auto& process : processes_) {
    Held* const held = held_by(*process, lease);
    if (!held) continue;
    held->waits = false;
    held->told = held->chunks;
    tell(*process, window_line(held->told_as, held->chunks - 1));
    process->child->resume();
  }
}

std::optional<TimePoint> PoolHandler::next_wakeup() const {
  if (host().is_due()) return TimePoint{};
  std::optional<TimePoint> due;
  const auto sooner = [&](TimePoint time) { due = due ? std::min(*due, time) : time; };
  if (!timers_.empty()) sooner(std::get<TimePoint>(*timers_.begin()));
  for (const auto& process : processes_) {
    if (!process->child) sooner(std::max(process->start_at, rate_.next()));
    if (!process->unsaid.empty()) return TimePoint{};
  }
  if (!waiting_.empty() && free_process(waiting_.front().number)) return TimePoint{};
  return due;
}

void PoolHandler::advance(TimePoint now) {
  host().advance();
  while (!timers_.empty() && std::get<TimePoint>(*timers_.begin()) <= now) {
    const auto [due, process, job] = *timers_.begin();
    timers_.erase(timers_.begin());
    on_timer(*process, job, now);
  }
  for (const auto& process : processes_)
    if (!process->child && process->start_at <= now && rate_.take(now)) launch(*process, now);
  hand_over(now);
  // What one turn has to say to a process is one write.
  for (const auto& process : processes_) {
    if (process->unsaid.empty() || !process->child) continue;
    auto lines = std::make_shared<const std::string>(std::exchange(process->unsaid, {}));
    process->child->write(Blob::own(lines, *lines));
    process->child->flush();
  }
}

// ---- processes ----------------------------------------------------------------------------------------

void PoolHandler::launch(Process& process, TimePoint now) {
  process.taken = 0;
  process.answered = process.leaving = process.retires = false;
  process.unsaid.clear();
  process.begun.clear();
  process.broken.clear();
  std::string problem;
  process.child = host().start(program_, {"LANEMQ_SERVICE=" + service_}, process, problem);
  if (!process.child) pause(process, now, "the worker has no room for another program: " + problem);
}

/// The process has ended without an answer, or was not started. Where no other one runs, nobody knows when
/// one will: the jobs that wait go back to the broker.
void PoolHandler::pause(Process& process, TimePoint now, const std::string& problem) {
  const unsigned doublings = std::min(process.failures++, 16u);
  process.start_at = now + std::min(kPauseMax, kPauseMin * (1u << doublings));
  if (running() > 0) return;
  for (Waiting& job : std::exchange(waiting_, {}))
    job.done.failure({.code = "no_process", .message = "no process of the pool runs: " + problem});
}

void PoolHandler::set_process_timer(Process& process, std::optional<TimePoint> due) {
  if (process.due) timers_.erase({*process.due, &process, kProcess});
  process.due = due;
  if (due) timers_.emplace(*due, &process, kProcess);
}

/// Kills the process; its jobs fail when it has ended.
void PoolHandler::kill(Process& process, const std::string& why) {
  process.leaving = true;
  if (process.broken.empty()) process.broken = why;
  process.child->discard_output();
  process.child->signal(SIGKILL);
}

/// It has had its share of jobs: closes its stdin, and replaces it when it has ended.
void PoolHandler::retire(Process& process, TimePoint now) {
  process.retires = true;
  process.child->close_input();
  set_process_timer(process, now + options_.grace);
}

void PoolHandler::on_end(Process& process, ChildEnd end) {
  const TimePoint now = std::chrono::steady_clock::now();
  end.last_words = program_.secrets.redacted(std::move(end.last_words));
  process.broken = program_.secrets.redacted(std::move(process.broken));
  set_process_timer(process, std::nullopt);
  const std::string how = process.broken.empty() ? description_of(end) : "was killed: " + process.broken;
  if (!process.retires)
    LogLine(log_, LogLevel::warning, "exec.process_ended")
        .field("service", service_)
        .field("program", program_.path)
        .field("how", how)
        .field("jobs", process.jobs.size())
        .field("said", last_words_of(end, 1024));
  auto jobs = std::exchange(process.jobs, {});
  process.child.reset();
  process.unsaid.clear();
  for (auto& [number, held] : jobs) {
    timers_.erase({held.due, &process, number});
    fail_held(held, end, process);
  }
  if (process.answered || process.retires) {
    process.failures = 0;
    process.start_at = now;
    return;
  }
  const std::string words = last_words_of(end, 1024);
  pause(process, now, program_.path + " " + how + (words.empty() ? "" : "; " + words));
}

/// The outcome of a job whose process has ended under it.
void PoolHandler::fail_held(Held& held, const ChildEnd& end, const Process& process) const {
  if (held.why != ExecStop::none)
    return held.done.failure(failure_of(held.why, end, settings::show(options_.timeout)));
  const std::string how = process.broken.empty() ? description_of(end) : "was killed: " + process.broken;
  JobFailure failure{.code = process.broken.empty() ? "process_ended" : "process_killed",
                     .message = "the process that had the job " + how};
  if (const std::string words = last_words_of(end, 2048); !words.empty()) failure.message += "; " + words;
  held.done.failure(std::move(failure));
}

// ---- jobs ---------------------------------------------------------------------------------------------

bool PoolHandler::has_room(const Process& process) const {
  return process.child && !process.leaving && process.jobs.size() < options_.jobs_per_process;
}

/// What processes call a job: its broker's number. Two shards give equal numbers, so those of further shards
/// get others, from the end of what every language has exactly.
std::uint64_t PoolHandler::number_for(wire::Lease lease) {
  return place_of(lease) == 0 ? lease.job : (std::uint64_t{1} << 53) - 1 - numbered_++ % UINT32_MAX;
}

PoolHandler::Held* PoolHandler::held_by(Process& process, wire::Lease lease) {
  for (auto& [number, held] : process.jobs)
    if (held.lease == lease) return &held;
  return nullptr;
}

/// The process with the most free places that does not have an attempt of this job; null: none is free.
PoolHandler::Process* PoolHandler::free_process(std::uint64_t number) const {
  Process* found = nullptr;
  for (const auto& process : processes_) {
    if (!has_room(*process) || process->jobs.contains(number)) continue;
    if (!found || process->jobs.size() < found->jobs.size()) found = process.get();
  }
  return found;
}

void PoolHandler::hand_over(TimePoint now) {
  while (!waiting_.empty()) {
    Waiting& next = waiting_.front();
    if (next.deadline && *next.deadline <= now) {
      next.done.failure({.error_class = ErrorClass::deadline,
                         .code = "timeout",
                         .message = "the job's own time was over before a process was free"});
      waiting_.pop_front();
      continue;
    }
    Process* const process = free_process(next.number);
    if (!process) return;
    Waiting job = std::move(next);
    waiting_.pop_front();
    give(*process, std::move(job), now);
  }
}

void PoolHandler::give(Process& process, Waiting job, TimePoint now) {
  Held held{.lease = job.lease,
            .told_as = {job.number, job.lease.attempt},
            .done = std::move(job.done),
            .stream = job.stream,
            .due = now + options_.timeout};
  if (job.deadline && *job.deadline < held.due) {
    held.due = *job.deadline;
    held.job_over = true;
  }
  process.unsaid += job.line;
  process.unsaid += job_line_end(std::chrono::duration_cast<milliseconds>(held.due - now));
  timers_.emplace(held.due, &process, job.number);
  process.jobs.emplace(job.number, std::move(held));
  ++process.taken;
  if (options_.recycle_after > 0 && process.taken >= options_.recycle_after) process.leaving = true;
}

void PoolHandler::on_timer(Process& process, std::uint64_t job, TimePoint now) {
  if (job == kProcess) {
    process.due.reset();
    return kill(process, "it did not end within grace after its stdin was closed");
  }
  Held& held = process.jobs.at(job);
  if (held.why == ExecStop::none)
    return stop(process, held, held.job_over ? ExecStop::deadline : ExecStop::timeout, now);
  kill(process, "it did not end a job within grace after its cancel");
}

/// Tells the process to stop working on a job; after `grace` it is killed. Of several causes the first one
/// counts.
void PoolHandler::stop(Process& process, Held& held, ExecStop why, TimePoint now) {
  if (held.why != ExecStop::none) return;
  timers_.erase({held.due, &process, held.told_as.job});
  held.why = why;
  held.waits = false;
  held.due = now + options_.grace;
  timers_.emplace(held.due, &process, held.told_as.job);
  tell(process, cancel_line(held.told_as, why == ExecStop::cancelled ? "cancelled" : "deadline"));
  process.child->resume();
}

/// Goes with the next turn's lines; next_wakeup() sees to it that there is one.
void PoolHandler::tell(Process& process, const std::string& line) {
  process.unsaid += line;
}

bool PoolHandler::on_output(Process& process, std::string_view bytes) {
  while (!bytes.empty() && process.broken.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    if (process.begun.size() + part.size() > options_.output_max) {
      kill(process, "a line of it has over " + settings::show_size(options_.output_max) + " (output_max)");
      return true;
    }
    if (end == std::string_view::npos) {
      process.begun += part;
      break;
    }
    bytes.remove_prefix(end + 1);
    if (process.begun.empty()) {
      on_line(process, part);
    } else {
      process.begun += part;
      on_line(process, std::exchange(process.begun, {}));
    }
  }
  // A process with one job at a time waits in its write. One with several has others to speak of: it hears
  // of its readers by windows.
  return options_.jobs_per_process > 1 || std::none_of(process.jobs.begin(), process.jobs.end(),
                                                       [](const auto& job) { return job.second.waits; });
}

void PoolHandler::on_line(Process& process, std::string_view line) {
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
  std::string problem;
  std::optional<PoolAnswer> answer = read_pool_line(line, problem);
  if (!answer) return kill(process, "a line of it " + problem + ": " + printable(line, 100));
  const auto found = process.jobs.find(answer->job);
  if (found == process.jobs.end() || (answer->attempt && *answer->attempt != found->second.lease.attempt)) {
    LogLine(log_, LogLevel::debug, "exec.answer_ignored")
        .field("service", service_)
        .field("job", answer->job);
    return;
  }
  Held& held = found->second;
  if (answer->what == PoolAnswer::What::chunk) return on_chunk(process, held, *answer);
  if (answer->what == PoolAnswer::What::progress) {
    answer->progress.note = program_.secrets.redacted(std::move(answer->progress.note));
    return held.done.progress(std::move(answer->progress));
  }
  timers_.erase({held.due, &process, answer->job});
  finish(held, *answer);
  process.jobs.erase(found);
  process.answered = true;
  process.failures = 0;
  if (process.leaving && process.jobs.empty()) retire(process, std::chrono::steady_clock::now());
}

void PoolHandler::on_chunk(Process& process, Held& held, PoolAnswer& answer) {
  if (!held.stream) return kill(process, "it sent a chunk of a job without stream");
  if (answer.seq.value_or(held.chunks) != held.chunks)
    return kill(process, "it sent chunk " + std::to_string(*answer.seq) + " of a job where " +
                             std::to_string(held.chunks) + " was next");
  ++held.chunks;
  auto body = std::make_shared<const std::string>(std::move(answer.body));
  const bool more = held.done.chunk(Blob::own(body, *body));
  held.waits = !more && held.why == ExecStop::none;
  if (held.waits || held.chunks - held.told < kChunksPerWindow) return;
  held.told = held.chunks;
  tell(process, window_line(held.told_as, held.chunks - 1));
}

void PoolHandler::finish(Held& held, PoolAnswer& answer) const {
  auto text = std::make_shared<const std::string>(std::move(answer.body));
  Blob body = Blob::own(text, *text);
  if (answer.what == PoolAnswer::What::result)
    return held.done.success(std::move(body), answer.usage, answer.limits);
  answer.failure.code = program_.secrets.redacted(std::move(answer.failure.code));
  answer.failure.message = program_.secrets.redacted(std::move(answer.failure.message));
  answer.failure.body =
      program_.secrets.betrayed_by(*text) ? Blob::copy(program_.secrets.redacted(*text)) : std::move(body);
  answer.failure.usage = answer.usage;
  answer.failure.limits = answer.limits;
  held.done.failure(std::move(answer.failure));
}

}  // namespace lanemq::worker
