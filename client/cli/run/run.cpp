// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include <lanemq/text.hpp>

#include "client/cli/broker_link.hpp"
#include "client/cli/command_line.hpp"
#include "client/cli/meta.hpp"
#include "client/cli/run/input_file.hpp"
#include "client/cli/run/output_file.hpp"
#include "client/cli/run/progress.hpp"
#include "client/cli/run/retry.hpp"
#include "client/cli/run/run_key.hpp"
#include "client/cli/terminal.hpp"
#include "common/json/members.hpp"

namespace lanemq::cli {
namespace {

struct RunOptions {
  JobOptions job;
  std::string file, out;  ///< empty `out`: beside the file
  std::optional<LineFormat> format;
  OutputOrder order = OutputOrder::completion;
  std::size_t window = 64;
  int retries = 0;
  bool quiet = false;
  bool json = false;  ///< print the summary as JSON
  bool keep = false;  ///< an interrupt does not cancel the jobs
};

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Bodies of all jobs in flight; a larger one goes alone.
constexpr std::size_t kInFlightBytesMax = std::size_t{128} * 1024 * 1024;
constexpr std::size_t kProblemsSaidMax = 20;
constexpr std::size_t kWriteBytes =
    std::size_t{1024} * 1024;  // output that is collected while more answers wait
constexpr milliseconds kRedrawEvery{100};
constexpr std::chrono::seconds kWordsEvery{30};
constexpr std::chrono::seconds kRefusalSaidEvery{30};

/// An answer, passed from the client's thread to this one.
struct Landed {
  Flight flight{};
  LineName name;
  std::size_t body_bytes = 0;
  Answer answer;
};

/// Passes answers from one thread to another, all at once. Holds at most the window.
class LandingStrip {
 public:
  void put(Landed landed) {
    {
      const std::lock_guard lock(mutex_);
      landed_.push_back(std::move(landed));
    }
    something_.notify_one();
  }
  /// Waits for answers up to `wait`; replaces the content of `out`.
  void take(std::vector<Landed>& out, milliseconds wait) {
    out.clear();
    std::unique_lock lock(mutex_);
    something_.wait_for(lock, wait, [this] { return !landed_.empty(); });
    out.swap(landed_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable something_;
  std::vector<Landed> landed_;
};

/// One run: keeps the window full, writes answers, sends refused lines again.
class Runner {
 public:
  Runner(const RunOptions& options, const InputFile& input, OutputFile& output, const Progressed& progressed,
         Client& client, LandingStrip& strip)
      : options_(options),
        input_(input),
        output_(output),
        progressed_(progressed),
        client_(client),
        strip_(strip),
        progress_(Clock::now()),
        words_at_(Clock::now() + kWordsEvery) {
    counts_.total = input.entries().size();
    counts_.before = progressed.done_count;
  }

  /// States the size of the jobs' group, from what the broker knows of the lines that are to be sent: it
  /// counts no job twice, so those that it knows are not among the jobs that this run adds. Throws RunError
  /// where a group cannot be said to have both.
  /// `goes_on`: with what a run before has left; else the broker knows none of the lines.
  void size_group(bool goes_on);

  /// Runs until each line is settled, or a signal comes.
  void run() {
    std::vector<Landed> landed;
    while (true) {
      for (Landed& one : landed)
        settle(std::move(one));
      write();
      if (interrupted() != 0 || (fill() && at_broker_.empty() && waiting_.empty())) break;
      write();  // filling the window settles lines that cannot be sent
      show();
      strip_.take(landed, wait());
    }
    take_last();
    show_live({});
  }

  /// Cancels the jobs at the broker. The broker keeps that a job was cancelled, so the next run must send its
  /// line as a further attempt: this is stored first.
  void cancel() {
    if (std::exchange(cancelled_, true)) return;
    std::vector<std::string> ids;
    std::map<RunKey, std::uint32_t> attempts;
    for (const auto& [place, job] : at_broker_) {
      ids.push_back(job.id);
      const RunKey& key = input_.entries()[place].key;
      if (key.names_something()) attempts[key] = job.attempt + 1;
    }
    try {
      output_.note_attempts(attempts);
    } catch (const RunError& error) {
      say(error.what());
    }
    cancel_and_say(client_, ids);
    take_last();  // answers that were on their way
  }

  /// Ends a run whose answers nobody reads.
  void forsake() {
    forsaken_ = true;
    if (!options_.keep) cancel();
  }

  std::size_t in_flight() const { return at_broker_.size(); }
  const RunCounts& counts() const { return counts_; }
  std::string summary() const { return progress_.summary(counts_, Clock::now()); }

 private:
  bool fill();
  bool has_room() const;
  Flight flight_of(std::size_t place) const;
  void send(const Flight& flight);
  void take_last();
  void settle(Landed landed);
  void put_down(const LineName& name, std::string_view job_id, const Answer& answer);
  void wait_and_retry(Flight flight, const ClientError& error, AfterError what);
  void write();
  void show();
  milliseconds wait() const;
  std::string job_id(const Flight& flight, const InputLine& line) const;
  std::string model_of(const InputLine& line) const {
    return options_.job.model.empty() ? line.model : options_.job.model;
  }

  const RunOptions& options_;
  std::optional<std::int64_t> group_size_;
  const InputFile& input_;
  OutputFile& output_;
  const Progressed& progressed_;
  Client& client_;
  LandingStrip& strip_;

  std::size_t next_ = 0;  ///< index of the first line that was not looked at
  struct AtBroker {
    std::string id;
    std::uint32_t attempt;
  };
  std::map<std::uint32_t, AtBroker> at_broker_;  ///< by the line's place
  std::size_t in_flight_bytes_ = 0;
  bool cancelled_ = false, forsaken_ = false;
  std::multimap<Clock::time_point, Flight> waiting_;  ///< refused lines, which stay in the window
  std::string storage_, lines_;
  RunCounts counts_;
  Progress progress_;
  Clock::time_point bar_at_{}, words_at_, refusal_said_{};
  std::size_t problems_said_ = 0;
  std::minstd_rand random_{std::random_device{}()};
};

bool Runner::has_room() const {
  return at_broker_.size() + waiting_.size() < options_.window &&
         (at_broker_.empty() || in_flight_bytes_ < kInFlightBytesMax);
}

/// Sends as many lines as the window takes; true: no lines are left.
bool Runner::fill() {
  const auto now = Clock::now();
  while (!waiting_.empty() && waiting_.begin()->first <= now) {
    const Flight flight = waiting_.begin()->second;
    waiting_.erase(waiting_.begin());
    send(flight);
  }
  const auto& entries = input_.entries();
  for (; next_ < entries.size() && has_room(); ++next_) {
    if (progressed_.done[next_]) continue;
    send(flight_of(next_));
  }
  return next_ == entries.size();
}

Flight Runner::flight_of(std::size_t place) const {
  Flight flight{.place = static_cast<std::uint32_t>(place), .retries_left = options_.retries};
  const auto attempt = progressed_.attempts.find(input_.entries()[place].key);
  if (attempt != progressed_.attempts.end()) flight.attempt = attempt->second;
  return flight;
}

void Runner::size_group(bool goes_on) {
  if (options_.job.group.empty()) return;
  std::vector<std::future<Reply<JobStatus>>> asked;
  std::int64_t added = 0, open = 0, again = 0;
  std::vector<bool> is_again;
  const auto take = [&] {
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const Reply<JobStatus> known = asked[i].get();
      if (!known)
        throw RunError("the broker does not say which jobs of the group it has: " + known.error().message);
      const bool is_new = known->state == "unknown";
      added += is_new ? 1 : 0;
      again += is_new && is_again[i] ? 1 : 0;
      open += known->group == options_.job.group ? 1 : 0;
    }
    asked.clear();
    is_again.clear();
  };
  for (std::size_t place = 0; place < input_.entries().size() && interrupted() == 0; ++place) {
    if (progressed_.done[place]) continue;
    const InputLine line = input_.read(input_.entries()[place], storage_);
    if (!line.problem.empty()) continue;
    if (!goes_on) {
      ++added;
      continue;
    }
    const Flight flight = flight_of(place);
    if (asked.size() == options_.window) take();
    asked.push_back(client_.status(job_id(flight, line)));
    is_again.push_back(flight.attempt > 1);
  }
  take();
  if (open > 0 && again > 0)
    throw RunError(
        "group " + printable(options_.job.group) + " still has " + grouped(static_cast<std::uint64_t>(open)) +
        " open jobs of the run before, and " + grouped(static_cast<std::uint64_t>(again)) +
        " lines that failed would be more than its size; run again when it is over (lanemq watch --group), "
        "or name another group");
  // While jobs of the run before are open the group has the size that it stated, which counts these lines.
  if (open == 0 && added > 0) group_size_ = added;
}

void Runner::send(const Flight& flight) {
  const InputFile::Entry& entry = input_.entries()[flight.place];
  const InputLine line = input_.read(entry, storage_);
  if (!line.problem.empty()) {
    const std::string problem = "line " + std::to_string(entry.number) + " " + line.problem;
    if (problems_said_ < kProblemsSaidMax) say(printable(input_.path()) + " " + problem);
    if (++problems_said_ == kProblemsSaidMax) say("further lines with problems are in the output only");
    return put_down(input_.name_of(entry, line), "line-" + std::to_string(entry.number),
                    ClientError{.code = std::string(name_of(ErrorCode::bad_request)), .message = problem});
  }
  JobOptions job = options_.job;
  job.group_size = group_size_;
  job.model = model_of(line);
  job.id = job_id(flight, line);
  const std::size_t body_bytes = line.body.size();
  at_broker_[flight.place] = {job.id, flight.attempt};
  in_flight_bytes_ += body_bytes;
  JobRequest request = request_of(job);
  if (!line.path.empty()) request.meta = meta_of_json("{\"http\":{\"path\":" + json_text(line.path) + "}}");
  client_.submit(std::move(request), Blob::copy(line.body),
                 [strip = &strip_, flight, name = input_.name_of(entry, line), body_bytes](Answer answer) {
                   strip->put({flight, name, body_bytes, std::move(answer)});
                 });
}

std::string Runner::job_id(const Flight& flight, const InputLine& line) const {
  const std::string model = model_of(line);
  return run_job_id({.salt = output_.salt(),
                     .service = options_.job.service,
                     .lane = options_.job.lane,
                     .model = model,
                     .key = input_.entries()[flight.place].key,
                     .body = line.body,
                     .path = line.path,
                     .attempt = flight.attempt});
}

/// Settles the answers that came with the signal.
void Runner::take_last() {
  std::vector<Landed> landed;
  strip_.take(landed, milliseconds(0));
  for (Landed& one : landed)
    settle(std::move(one));
  write();
}

void Runner::settle(Landed landed) {
  at_broker_.erase(landed.flight.place);
  in_flight_bytes_ -= landed.body_bytes;
  if (!landed.answer) {
    if (cancelled_ && landed.answer.error().known_code() == ErrorCode::cancelled) return;
    const AfterError what = after_error(landed.answer.error(), landed.flight);
    if (what != AfterError::give_up) return wait_and_retry(landed.flight, landed.answer.error(), what);
  }
  const std::string id = landed.answer ? landed.answer->id : landed.answer.error().id;
  put_down(landed.name, id, landed.answer);
}

void Runner::put_down(const LineName& name, std::string_view job_id, const Answer& answer) {
  ++(answer ? counts_.done : counts_.failed);
  lines_ += write_output(name, job_id, answer);
  if (lines_.size() > kWriteBytes) write();
}

void Runner::wait_and_retry(Flight flight, const ClientError& error, AfterError what) {
  const auto now = Clock::now();
  const double chance = std::uniform_real_distribution<double>(0, 1)(random_);
  const milliseconds delay = wait_before_retry(error, flight, chance);
  if (what == AfterError::send_again) {
    ++flight.refusals;
    if (now - refusal_said_ > kRefusalSaidEvery) {
      refusal_said_ = now;
      say("the broker takes no more for now, going on when it does: " + printable(error.code) + ": " +
          printable(error.message));
    }
  } else {
    ++flight.attempt;
    --flight.retries_left;
    flight.refusals = 0;
  }
  waiting_.emplace(now + delay, flight);
}

void Runner::write() {
  if (lines_.empty() || forsaken_) return;
  output_.append(lines_);
  lines_.clear();
}

void Runner::show() {
  const auto now = Clock::now();
  counts_.in_flight = at_broker_.size();
  progress_.sample(counts_, now);
  if (options_.quiet) return;
  if (error_is_terminal()) {
    if (now < bar_at_) return;
    bar_at_ = now + kRedrawEvery;
    return show_live(progress_.bar(counts_, error_columns()));
  }
  if (now < words_at_) return;
  words_at_ = now + kWordsEvery;
  say("run: " + progress_.words(counts_));
}

milliseconds Runner::wait() const {
  if (waiting_.empty()) return kRedrawEvery;
  const auto left = std::chrono::ceil<milliseconds>(waiting_.begin()->first - Clock::now());
  return std::clamp(left, milliseconds(0), kRedrawEvery);
}

// ---- the command --------------------------------------------------------------------------------------

std::string output_path(const RunOptions& options) {
  if (!options.out.empty()) return options.out;
  if (options.file == "-")
    throw RunError(
        "the standard input has no name to make that of the answers from; give --out FILE, or --out -");
  constexpr std::string_view kSuffix = ".jsonl";
  std::string stem = options.file;
  if (stem.ends_with(kSuffix)) stem.resize(stem.size() - kSuffix.size());
  return stem + ".out.jsonl";
}

int end(const RunOptions& options, const std::string& path, OutputFile& output, const Runner& runner) {
  const RunCounts& counts = runner.counts();
  const bool complete = counts.settled() == counts.total;
  const bool told = !options.json || put_json("{\"total\":" + std::to_string(counts.total) +
                                              ",\"answered\":" + std::to_string(counts.before + counts.done) +
                                              ",\"before\":" + std::to_string(counts.before) +
                                              ",\"failed\":" + std::to_string(counts.failed) +
                                              ",\"out\":" + json_text(path) + "}\n");
  if (complete) output.finish(options.order, counts.failed == 0);
  if (!options.quiet || counts.failed > 0)
    say("run: " + runner.summary() + (path == "-" ? "" : "; answers in " + printable(path)));
  if (!complete) {
    if (options.keep && runner.in_flight() > 0)
      say("interrupted: " + grouped(runner.in_flight()) + " jobs are left with the broker");
    if (output.can_resume()) say("stopped; run the same command again and only what is missing is sent");
    return kExitSignal + interrupted();
  }
  if (counts.failed == 0) return told ? kExitDone : kExitFailed;
  if (output.can_resume()) say("run the same command again to send the failed lines once more");
  return kExitFailed;
}

void say_progressed(const std::string& path, const Progressed& progressed) {
  if (progressed.done_count == 0 && progressed.failed_count == 0 && !progressed.torn) return;
  std::string sentence =
      "run: going on with " + printable(path) + ": " + grouped(progressed.done_count) + " done";
  if (progressed.failed_count > 0)
    sentence += ", " + grouped(progressed.failed_count) + " failed are sent again";
  if (progressed.torn) sentence += ", a line that was not written whole is dropped";
  say(sentence);
}

int run_checked(const Common& common, const RunOptions& options) {
  const std::string path = output_path(options);
  if (options.json && path == "-")
    throw RunError("--json and the answers would both be on the standard output; give --out FILE");
  const InputFile input(options.file, options.format);
  OutputFile output(path, input);
  if (!output.can_resume() && options.order == OutputOrder::input)
    throw RunError("--order input needs an output that is a file; give one with --out");
  const Progressed& progressed = output.scan();

  ClientOptions with = client_options(common);
  with.pending_max = 2 * options.window + 16;  // the jobs, and that they are cancelled
  with.pending_bytes_max = kInFlightBytesMax + InputFile::kLineBytesMax;
  LandingStrip strip;  // must outlive the client, whose thread uses it
  Client client(with);
  const bool all_done = progressed.done_count == input.entries().size();
  if (!all_done && !reaches(client, common)) {
    output.forget();
    return interrupted() == 0 ? end_unreached(common, options.json) : kExitSignal + interrupted();
  }

  const bool goes_on = !output.salt().empty();
  output.begin();
  if (!options.quiet) say_progressed(path, progressed);
  Runner runner(options, input, output, progressed, client, strip);
  try {
    runner.size_group(goes_on);
    runner.run();
    if (interrupted() != 0 && !options.keep) runner.cancel();
    return end(options, path, output, runner);
  } catch (const RunError& error) {
    show_live({});
    // For example a full disk: what is written stays, and the next run takes up the answers.
    if (interrupted() == 0) {
      say(error.what());
      return kExitFailed;
    }
    runner.forsake();
    return kExitSignal + interrupted();
  }
}

int run(const Common& common, const RunOptions& options) {
  catch_interrupts();
  if (options.out == "-") watch_output();
  try {
    return run_checked(common, options);
  } catch (const RunError& error) {
    say(error.what());
    return kExitUsage;
  }
}

CLI::Option* add_group_option(CLI::App& command, JobOptions& job) {
  return command
      .add_option(
          "--group", job.group,
          "The group of its jobs: watch --group NAME says when all of them are over. Give each run a group\n"
          "of its own")
      ->type_name("NAME");
}

}  // namespace

void add_run(CommandLine& line) {
  const auto options = std::make_shared<RunOptions>();
  CLI::App& command = line.add(
      "run",
      "Run a file of jobs: OpenAI's batch format, or one JSON body a line; able to go on where it stopped");
  command.footer(
      "In the batch format a line is {\"custom_id\": ..., \"body\": ...}; the body is sent byte for byte, "
      "and the\n"
      "output is OpenAI's batch output format. A plain line is sent as it is, and answered by\n"
      "{\"line\", \"input\", \"response\", \"error\"}. Answers are written as they come. Run the same "
      "command again\n"
      "and only what is missing or failed is sent; until all is well, OUT.run stands beside the output.");
  add_job_options(command, options->job, true);
  add_fate_options(command, options->job);
  command
      .add_option("file", options->file,
                  "The jobs, one a line; - for the standard input, which is stored in $TMPDIR first")
      ->required()
      ->type_name("FILE.jsonl");
  command.add_option("--model", options->job.model, "The model; each body's own `model` without it")
      ->type_name("NAME");
  command
      .add_option("--out", options->out,
                  "The answers; FILE.out.jsonl without it, - for the standard output (then it cannot\n"
                  "go on where it stopped)")
      ->type_name("FILE");
  static const std::map<std::string, LineFormat> kFormats{{"batch", LineFormat::batch},
                                                          {"plain", LineFormat::plain}};
  command
      .add_option_function<std::string>(
          "--format", [options](const std::string& name) { options->format = kFormats.at(name); },
          "What the lines are; told by the first line without it")
      ->check(CLI::IsMember({"batch", "plain"}))
      ->type_name("batch|plain");
  command
      .add_option_function<std::string>(
          "--order",
          [options](const std::string& name) {
            options->order = name == "input" ? OutputOrder::input : OutputOrder::completion;
          },
          "The order of the answers; `input` puts them in order when all are there")
      ->check(CLI::IsMember({"input", "completion"}))
      ->type_name("input|completion");
  command.add_option("--window", options->window, "Jobs in flight at once")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, kWindowMax))
      ->type_name("N");
  CLI::Option* const group = add_group_option(command, options->job);
  command
      .add_option(
          "--retries", options->retries,
          "Further attempts in this run for a job whose error says when to retry; refusals are always\n"
          "waited out")
      ->capture_default_str()
      ->check(CLI::Range(0, 1'000))
      ->excludes(group)  // a job that is sent again is another job of its group
      ->type_name("N");
  command
      .add_flag("--leave", options->keep,
                "Leave the jobs with the broker when this command is interrupted, for the next run to take\n"
                "up their answers; they are cancelled without it")
      ->excludes(group);  // a job whose answer is taken up is no further job of the next run's group
  command.add_flag("--quiet", options->quiet, "Say nothing unless something failed");
  command.add_flag("--json", options->json, "How it ended as JSON, in one line on the standard output");
  line.on_chosen(command, Asks::clients, [options](const Common& common) { return run(common, *options); });
}

}  // namespace lanemq::cli
