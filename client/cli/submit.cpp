// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>

#include <fcntl.h>
#include <unistd.h>

#include <lanemq/limits.hpp>
#include <lanemq/text.hpp>

#include "client/cli/base/broker_link.hpp"
#include "client/cli/base/command_line.hpp"
#include "client/cli/base/explanation.hpp"
#include "client/cli/base/meta.hpp"
#include "client/cli/run/input_file.hpp"
#include "client/cli/text/terminal.hpp"
#include "common/explanation/explanation.hpp"
#include "common/ids/ulid.hpp"
#include "common/json/members.hpp"
#include "common/settings/secrets/secret_shapes.hpp"

namespace lanemq::cli {
namespace {

constexpr std::chrono::milliseconds kFetchWaitMax{60'000};

struct SubmitOptions {
  JobOptions job;
  std::string body;  ///< as given: text, @FILE or -
  std::optional<std::int64_t> delay_ms, retain_ms;
  bool leave = false;   ///< does not wait for the answer
  bool keep = false;    ///< the job goes on if this program ends
  bool stream = false;  ///< piece by piece
  bool json = false;    ///< prints the answer with facts about its job, never piece by piece
  std::string meta{};   ///< JSON
};

struct JobQuery {
  std::string id;
  std::int64_t wait_ms = 0;                ///< fetch: how long to wait
  std::optional<std::int64_t> from_seq{};  ///< fetch: read piece by piece from this chunk on
  bool json = false;
};

/// The content of a file; empty: it cannot be read or is too large, which was printed.
std::optional<std::string> read_whole(int fd, const std::string& name) {
  constexpr std::size_t kBlock = std::size_t{64} * 1024;
  std::string text;
  while (true) {
    const std::size_t had = text.size();
    if (had > limits::body_bytes_max) {
      say(printable(name) + " has more than " + std::to_string(limits::body_bytes_max) +
          " bytes, the largest body there is; send less");
      return std::nullopt;
    }
    text.resize(had + kBlock);
    const ssize_t got = ::read(fd, text.data() + had, kBlock);
    text.resize(had + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return text;
    if (got < 0 && errno != EINTR) {
      say(printable(name) + ": " + std::strerror(errno));
      return std::nullopt;
    }
  }
}

std::optional<std::string> body_of(const std::string& given) {
  if (given == "-") return read_whole(STDIN_FILENO, "the standard input");
  if (!given.starts_with('@')) return given;
  const std::string path = given.substr(1);
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() >= 0) return read_whole(file.get(), path);
  say(printable(path) + ": " + std::strerror(errno));
  return std::nullopt;
}

int put_body(std::string_view body) {
  if (!put_foreign(body)) return kExitFailed;
  if (output_is_terminal() && !body.empty() && !body.ends_with('\n')) put("\n");
  return kExitDone;
}

int put_done(const JobDone& done, bool json) {
  if (json) return put_json(answer_json(done)) ? kExitDone : kExitFailed;
  return put_body(done.body.bytes());
}

std::string status_text(const JobStatus& status) {
  std::string text = printable(status.id) + " " + status.state;
  if (!status.lane.empty()) text += " lane=" + printable(status.lane);
  if (status.attempts > 0) text += " attempts=" + std::to_string(status.attempts);
  if (status.position) text += " position=" + std::to_string(*status.position);
  if (status.eta) text += " eta=" + short_duration(*status.eta);
  if (!status.blocked_by.empty()) text += " blocked_by=\"" + printable(status.blocked_by) + "\"";
  if (!status.worker.empty()) text += " worker=" + printable(status.worker);
  if (!status.group.empty()) text += " group=" + printable(status.group);
  if (status.pct) text += " pct=" + std::to_string(*status.pct);
  if (!status.note.empty()) text += " note=\"" + printable(status.note) + "\"";
  if (status.silent) text += " silent=" + short_duration(*status.silent);
  if (!status.error_json.empty()) text += " error=" + status.error_json;
  return text + "\n";
}

int put_status(const Common& common, Client& client, const JobQuery& query,
               std::future<Reply<JobStatus>> pending) {
  const auto reply = wait_for(pending, client, common);
  if (!reply) return end_unreached(common, query.json);
  if (!*reply) return end_refused(reply->error(), query.json);
  if (!(query.json ? put_json(status_json(**reply)) : put_foreign(status_text(**reply)))) return kExitFailed;
  return (*reply)->state == "unknown" ? kExitFailed : kExitDone;
}

/// Prints an answer piece by piece. Pieces wait for the caller's thread, so that a slow reader of the output
/// delays no heartbeat: it gets a window of pieces, then the upstream pauses.
class Printing {
 public:
  StreamReader reader() {
    return {.on_chunk = [this](JobChunk chunk) { give([&] { pieces_.push_back(std::move(chunk)); }); },
            .on_end = [this](Answer answer) { give([&] { end_ = std::move(answer); }); },
            .takes_at_once = false};
  }

  /// Prints pieces until the answer ends; returns the exit code.
  int print_all(Client& client, const Common& common, const std::string& id) {
    if (!comes_within(std::chrono::milliseconds(50)) && !reaches(client, common) &&
        !comes_within(std::chrono::milliseconds(0)))
      return kExitUnreachable;
    if (!comes_within(kMoment) && interrupted() == 0) say_if_nobody_serves(client, common, id);
    SilenceWatch silence(client, common);
    for (bool ended = false; !ended;) {
      while (!comes_within(SilenceWatch::kEvery)) {
        if (interrupted() != 0) return kExitSignal + interrupted();
        silence.look();
      }
      std::deque<JobChunk> pieces;
      {
        const std::lock_guard lock(mutex_);
        pieces.swap(pieces_);
        ended = end_.has_value();
      }
      for (const JobChunk& piece : pieces) {
        if (!print(piece.body.bytes())) return kExitFailed;
        client.seen(piece.id, piece.seq);
      }
    }
    if (*end_ && !print((*end_)->body.bytes())) return kExitFailed;
    if (!shown_.end()) return kExitFailed;
    if (!ends_line_ && output_is_terminal()) put("\n");
    if (*end_) return kExitDone;
    return end_refused(end_->error(), false);
  }

 private:
  template <class Give>
  void give(Give give) {
    {
      const std::lock_guard lock(mutex_);
      give();
    }
    given_.notify_one();
  }
  bool something() const { return !pieces_.empty() || end_.has_value(); }
  /// False earlier where interrupted() is so.
  bool comes_within(std::chrono::milliseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    std::unique_lock lock(mutex_);
    while (!given_.wait_for(lock, kLookForSignalsEvery, [this] { return something(); }))
      if (interrupted() != 0 || std::chrono::steady_clock::now() >= end) return false;
    return true;
  }
  bool print(std::string_view bytes) {
    if (bytes.empty()) return true;
    ends_line_ = bytes.ends_with('\n');
    return shown_.put(bytes);
  }

  std::mutex mutex_;
  std::condition_variable given_;
  std::deque<JobChunk> pieces_;  ///< under mutex_; at most a window, and repeated pieces
  std::optional<Answer> end_;    ///< under mutex_ until it is set
  bool ends_line_ = true;
  ForeignPieces shown_;
};

/// Submits the job and prints the id by which the answer can be fetched.
int leave(const Common& common, Client& client, JobRequest request, std::string body, bool json) {
  std::future<Reply<JobAccepted>> pending = client.leave(std::move(request), std::move(body));
  const auto accepted = wait_for(pending, client, common);
  if (!accepted) return end_unreached(common, json);
  if (!*accepted) return end_refused(accepted->error(), json);
  if (!(*accepted)->durable) say("the job is not on disk: it ends with the broker");
  const bool told = json ? put_json(accepted_json(**accepted)) : put_foreign((*accepted)->id + "\n");
  return told ? kExitDone : kExitFailed;
}

/// Ends an interrupted submit, and prints what becomes of its job. Returns the exit code.
int give_up(Client& client, const SubmitOptions& options, const std::string& id) {
  const bool is_alone = options.job.id.empty();  // nobody else knows an id that was made here
  const ClientCounters counters = client.counters();
  if (!counters.heard)
    say("interrupted before the broker had answered; the job may have run: lanemq status " + printable(id));
  else if (!counters.answers && (options.keep || !is_alone))
    say("interrupted while no broker answers: where job " + printable(id) +
        " is durable, the broker that goes on has it; then lanemq status " + printable(id) +
        " says so, and lanemq cancel " + printable(id) + " ends it");
  else if (options.keep)
    say("interrupted: the job is left with the broker; lanemq fetch " + printable(id) +
        " --wait 60s gets its answer");
  else if (is_alone)
    cancel_and_say(client, {id});
  else
    say("interrupted: the broker cancels job " + printable(id) +
        " in 5 s, unless somebody else waits for it");
  return kExitSignal + interrupted();
}

int submit(const Common& common, const SubmitOptions& options) {
  std::optional<std::string> body = body_of(options.body);
  if (!body) return kExitUsage;
  catch_interrupts();
  if (!options.leave) watch_output();
  Printing printing;  // must outlive the client, which calls it
  Client client(client_options(common));
  JobRequest request = request_of(options.job);
  if (options.delay_ms) request.delay = std::chrono::milliseconds(*options.delay_ms);
  if (options.retain_ms) request.retain = std::chrono::milliseconds(*options.retain_ms);
  if (!options.meta.empty()) {
    request.meta = meta_of_json(options.meta);
    if (request.meta.empty()) {
      say(settings::without_secrets("--meta is not JSON: " + printable(options.meta)));
      return kExitUsage;
    }
  }
  request.stream = options.stream;
  // The limits of an upstream are mostly those of a model, and workers send the body as it is.
  if (request.model.empty())
    if (std::string model = look_into_json(*body, {}).model; model.size() <= limits::name_bytes_max)
      request.model = std::move(model);
  if (request.id.empty()) request.id = new_ulid();
  const std::string id = request.id;
  request.cancel_when_gone = options.job.cancel_when_gone.value_or(!options.leave && !options.keep);
  if (options.leave) return leave(common, client, std::move(request), std::move(*body), options.json);
  if (options.stream) {
    client.stream(std::move(request), Blob::borrow(*body), printing.reader());
    const int code = printing.print_all(client, common, id);
    return code == kExitDone || interrupted() == 0 ? code : give_up(client, options, id);
  }
  std::future<Answer> pending = client.submit(std::move(request), std::move(*body));
  const std::optional<Answer> answer =
      wait_for(pending, client, common, [&] { say_if_nobody_serves(client, common, id); });
  if (!answer) return interrupted() == 0 ? end_unreached(common, options.json) : give_up(client, options, id);
  if (!*answer) return end_refused(answer->error(), options.json);
  return put_done(**answer, options.json);
}

int status(const Common& common, const JobQuery& query) {
  Client client(client_options(common));
  return put_status(common, client, query, client.status(query.id));
}

int fetch(const Common& common, const JobQuery& query) {
  Printing printing;  // must outlive the client, which calls it
  Client client(client_options(common));
  if (query.from_seq) {
    client.follow(query.id, *query.from_seq, printing.reader());
    return printing.print_all(client, common, query.id);
  }
  std::future<FetchAnswer> pending = client.fetch(query.id, std::chrono::milliseconds(query.wait_ms));
  const std::optional<FetchAnswer> answer = wait_for(pending, client, common);
  if (!answer) return end_unreached(common, query.json);
  if (!*answer) return end_refused(answer->error(), query.json);
  if (const auto* done = std::get_if<JobDone>(&**answer)) return put_done(*done, query.json);
  const JobStatus& running = std::get<JobStatus>(**answer);
  if (query.json) put_json(status_json(running));
  say("job " + printable(running.id) + " is " + printable(running.state) + "; give it --wait 30s");
  return kExitFailed;
}

/// Adds a command with a job's id.
CLI::App& add_job_query(CommandLine& line, const char* name, const char* description, const char* json,
                        Asks asks, const std::shared_ptr<JobQuery>& query,
                        int (*function)(const Common&, const JobQuery&)) {
  CLI::App& command = line.add(name, description);
  command.add_option("id", query->id, "The job's id")->required()->type_name("ID");
  command.add_flag("--json", query->json, json);
  line.on_chosen(command, asks, [query, function](const Common& common) { return function(common, *query); });
  return command;
}

}  // namespace

int cancel_one(const Common& common, const std::string& id, bool json) {
  Client client(client_options(common));
  return put_status(common, client, {.id = id, .json = json}, client.cancel(id));
}

void add_submit(CommandLine& line) {
  const auto options = std::make_shared<SubmitOptions>();
  CLI::App& command = line.add("submit", "Run one job; its answer goes to the standard output");
  add_job_options(command, options->job, true);
  CLI::Option* const orphan = add_fate_options(command, options->job);
  command
      .add_option("--model", options->job.model,
                  "The model, for the broker's budgets; the body's own `model` without it")
      ->type_name("NAME");
  command.add_option("--id", options->job.id, "The idempotency key: the same id and body is the same job")
      ->type_name("ID");
  command
      .add_flag("--no-wait", options->leave,
                "Leave the job with the broker and print its id, for status, fetch and cancel")
      ->excludes(orphan);
  command.add_flag(
      "--leave", options->keep,
      "Leave the job with the broker when this command is interrupted; it is cancelled without it");
  CLI::Option* const group =
      command
          .add_option("--group", options->job.group,
                      "A group whose jobs are counted together: watch --group NAME says when it is over")
          ->type_name("NAME");
  command
      .add_option("--group-size", options->job.group_size,
                  "How many jobs the group has; without it the group is over when none of its jobs is open")
      ->needs(group)
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{0xFFFFFFFF}))
      ->type_name("N");
  CLI::Option* const json = command.add_flag(
      "--json", options->json, "The answer as JSON, in one line, with what is known of its job");
  command
      .add_flag("--stream", options->stream,
                "Print the answer piece by piece as it is made; with --no-wait: for fetch --from-seq")
      ->excludes(json);
  command
      .add_option("--meta", options->meta,
                  "What the worker's handler is told beside the body, as JSON; docs/handlers.md lists it")
      ->type_name("JSON");
  using std::chrono::milliseconds;
  const milliseconds longest(limits::duration_ms_max);
  add_duration(command, "--delay", milliseconds(0), longest, "Not to be run before so long",
               [options](milliseconds time) { options->delay_ms = time.count(); });
  add_duration(command, "--retain", milliseconds(0), longest,
               "How long the answer is kept for fetch; the broker's `retain` without it",
               [options](milliseconds time) { options->retain_ms = time.count(); });
  command
      .add_option(
          "body", options->body,
          "The job's body: a text, @FILE for a file's content, - for the standard input; empty without it")
      ->type_name("BODY");
  line.on_chosen(command, Asks::clients,
                 [options](const Common& common) { return submit(common, *options); });
}

void add_job_queries(CommandLine& line) {
  constexpr char kStatusJson[] = "The job's status as JSON, in one line";
  const auto query = std::make_shared<JobQuery>();
  add_job_query(line, "status", "Say where a job is", kStatusJson, Asks::either, query, status);
  CLI::App& get = add_job_query(line, "fetch", "Get the answer of a job that was submitted before",
                                "The answer as JSON, in one line, with what is known of its job",
                                Asks::clients, query, fetch);
  CLI::Option* const wait =
      add_duration(get, "--wait", {}, kFetchWaitMax, "Wait so long for a job that still runs",
                   [query](std::chrono::milliseconds time) { query->wait_ms = time.count(); });
  get.add_option("--from-seq", query->from_seq,
                 "Print a streamed answer piece by piece as it is made, from this piece on")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()))
      ->excludes(wait)
      ->excludes("--json")
      ->type_name("N");
}

}  // namespace lanemq::cli
