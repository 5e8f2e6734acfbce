// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <stdexcept>

#include <CLI/CLI.hpp>

#include <lanemq/admin_table.hpp>
#include <lanemq/limits.hpp>
#include <lanemq/version.hpp>

#include "client/cli/commands.hpp"
#include "client/cli/terminal.hpp"

namespace lanemq::cli {
namespace {

constexpr std::int64_t kFetchWaitMaxMs = 60'000;
constexpr std::int64_t kFirstTokenMaxMs = 3'600'000;
constexpr std::size_t kWindowMax = 100'000;
constexpr std::size_t kBenchCountMax = 50'000'000;  // four bytes each are kept

/// All options of all commands, and the command that was chosen.
struct Chosen {
  Common common;
  std::int64_t connect_timeout_ms = 3'000;
  SubmitOptions submit;
  RunOptions run;
  StatsOptions stats;
  PingOptions ping;
  BenchOptions bench;
  JobQuery query;
  LimitsOptions limits;
  AdminOptions admin;
  std::string admin_endpoint;
  bool asks_operators_socket = false;  // the command is for operators
  bool asks_either_socket = false;     // it is answered there too
  SimulateOptions simulate;
  std::function<int()> command;
};

void add_job_options(CLI::App& command, JobOptions& job, bool service_required) {
  command.add_option("--service", job.service, "What does the work; workers say which services they serve")
      ->required(service_required)
      ->type_name("NAME");
  command.add_option("--lane", job.lane, "The lane; the broker's default lane without it")->type_name("NAME");
  command.add_option("--timeout-ms", job.timeout_ms, "Until the job must have ended, queueing included")
      ->check(CLI::Range(std::int64_t{1}, limits::duration_ms_max))
      ->type_name("N");
}

void add_submit(CLI::App& app, Chosen& chosen) {
  CLI::App& command = *app.add_subcommand("submit", "Run one job; its answer goes to the standard output");
  add_job_options(command, chosen.submit.job, true);
  command.add_option("--model", chosen.submit.job.model, "The model, for the broker's budgets")
      ->type_name("NAME");
  command
      .add_option("--id", chosen.submit.job.id, "The idempotency key: the same id and body is the same job")
      ->type_name("ID");
  command.add_flag("--no-wait", chosen.submit.leave,
                   "Leave the job with the broker and print its id, for status, fetch and cancel");
  CLI::Option* const json = command.add_flag(
      "--json", chosen.submit.json, "The answer as JSON, in one line, with what is known of its job");
  command
      .add_flag("--stream", chosen.submit.stream,
                "Print the answer piece by piece as it is made; with --no-wait: for fetch --from-seq")
      ->excludes(json);
  command
      .add_option("--meta", chosen.submit.meta,
                  "What the worker's handler is told beside the body, as JSON; docs/handlers.md lists it")
      ->type_name("JSON");
  command.add_option("--delay-ms", chosen.submit.delay_ms, "Not to be run before so long")
      ->check(CLI::Range(std::int64_t{0}, limits::duration_ms_max))
      ->type_name("N");
  command
      .add_option("--retain-ms", chosen.submit.retain_ms,
                  "How long the answer is kept for fetch; the broker's `retain` without it")
      ->check(CLI::Range(std::int64_t{0}, limits::duration_ms_max))
      ->type_name("N");
  command
      .add_option(
          "body", chosen.submit.body,
          "The job's body: a text, @FILE for a file's content, - for the standard input; empty without it")
      ->type_name("BODY");
  command.callback(
      [&chosen] { chosen.command = [&chosen] { return submit(chosen.common, chosen.submit); }; });
}

void add_run(CLI::App& app, Chosen& chosen) {
  CLI::App& command = *app.add_subcommand(
      "run",
      "Run a file of jobs: OpenAI's batch format, or one JSON body a line; able to go on where it stopped");
  command.footer(
      "In the batch format a line is {\"custom_id\": ..., \"body\": ...}; the body is sent byte for byte, "
      "and the\n"
      "output is OpenAI's batch output format. A plain line is sent as it is, and answered by\n"
      "{\"line\", \"input\", \"response\", \"error\"}. Answers are written as they come. Run the same "
      "command again\n"
      "and only what is missing or failed is sent; until all is well, OUT.run stands beside the output.");
  RunOptions& options = chosen.run;
  add_job_options(command, options.job, true);
  command
      .add_option("file", options.file,
                  "The jobs, one a line; - for the standard input, which is stored in $TMPDIR first")
      ->required()
      ->type_name("FILE.jsonl");
  command.add_option("--model", options.job.model, "The model; each body's own `model` without it")
      ->type_name("NAME");
  command
      .add_option("--out", options.out,
                  "The answers; FILE.out.jsonl without it, - for the standard output (then it cannot\n"
                  "go on where it stopped)")
      ->type_name("FILE");
  static const std::map<std::string, LineFormat> kFormats{{"batch", LineFormat::batch},
                                                          {"plain", LineFormat::plain}};
  command
      .add_option_function<std::string>(
          "--format", [&options](const std::string& name) { options.format = kFormats.at(name); },
          "What the lines are; told by the first line without it")
      ->check(CLI::IsMember({"batch", "plain"}))
      ->type_name("batch|plain");
  command
      .add_option_function<std::string>(
          "--order",
          [&options](const std::string& name) {
            options.order = name == "input" ? OutputOrder::input : OutputOrder::completion;
          },
          "The order of the answers; `input` puts them in order when all are there")
      ->check(CLI::IsMember({"input", "completion"}))
      ->type_name("input|completion");
  command.add_option("--window", options.window, "Jobs in flight at once")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, kWindowMax))
      ->type_name("N");
  command
      .add_option(
          "--retries", options.retries,
          "Further attempts in this run for a job whose error says when to retry; refusals are always\n"
          "waited out")
      ->capture_default_str()
      ->check(CLI::Range(0, 1'000))
      ->type_name("N");
  command.add_flag("--quiet", options.quiet, "Say nothing unless something failed");
  command.add_flag("--json", options.json, "How it ended as JSON, in one line on the standard output");
  command.callback([&chosen] { chosen.command = [&chosen] { return run(chosen.common, chosen.run); }; });
}

void add_stats(CLI::App& app, Chosen& chosen) {
  CLI::App& command = *app.add_subcommand("stats", "Show the lanes, workers and budgets");
  command.add_flag("--json", chosen.stats.json, "The broker's document as it is");
  command
      .add_option_function<double>(
          "--watch", [&chosen](double seconds) { chosen.stats.watch_seconds = seconds; },
          "Again and again, every N seconds")
      ->expected(0, 1)
      ->default_str("2")
      ->check(CLI::Range(0.1, 3'600.0))
      ->type_name("N");
  command.callback([&chosen] {
    chosen.asks_either_socket = true;
    chosen.command = [&chosen] { return stats(chosen.common, chosen.stats); };
  });
}

void add_ping(CLI::App& app, Chosen& chosen) {
  CLI::App& command = *app.add_subcommand("ping", "Measure the way to the broker and back");
  command.add_option("--count", chosen.ping.count, "How often")
      ->capture_default_str()
      ->check(CLI::Range(1, std::numeric_limits<int>::max()))
      ->type_name("N");
  command.add_flag("--json", chosen.ping.json, "Each answer as JSON, in a line");
  command.callback([&chosen] {
    chosen.asks_either_socket = true;
    chosen.command = [&chosen] { return ping(chosen.common, chosen.ping); };
  });
}

void add_bench(CLI::App& app, Chosen& chosen) {
  CLI::App& command = *app.add_subcommand("bench", "Measure round trips; needs a worker that echoes");
  BenchOptions& bench_options = chosen.bench;
  bench_options.job.service = "echo";
  add_job_options(command, bench_options.job, false);
  command.add_option("-n,--count", bench_options.count, "Round trips")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, kBenchCountMax))
      ->type_name("N");
  command.add_option("--window", bench_options.window, "Jobs in flight at once")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, kWindowMax))
      ->type_name("N");
  command.add_option("--size", bench_options.body_bytes, "Bytes of each body")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{0}, limits::body_bytes_max))
      ->type_name("N");
  command.add_flag("--json", bench_options.json, "The figures as JSON");
  command.callback([&chosen] { chosen.command = [&chosen] { return bench(chosen.common, chosen.bench); }; });
}

void add_job_queries(CLI::App& app, Chosen& chosen) {
  const auto add = [&](const char* name, const char* description,
                       int (*function)(const Common&, const JobQuery&)) {
    CLI::App* command = app.add_subcommand(name, description);
    command->add_option("id", chosen.query.id, "The job's id")->required()->type_name("ID");
    command->callback([&chosen, function] {
      chosen.asks_either_socket = function != fetch;
      chosen.command = [&chosen, function] { return function(chosen.common, chosen.query); };
    });
    command->add_flag("--json", chosen.query.json,
                      function == fetch ? "The answer as JSON, in one line, with what is known of its job"
                                        : "The job's status as JSON, in one line");
    return command;
  };
  add("status", "Say where a job is", status);
  add("explain", "Say in a sentence what a job waits for and what would help", explain);
  add("cancel", "Cancel a job", cancel);
  CLI::App* const get = add("fetch", "Get the answer of a job that was submitted before", fetch);
  CLI::Option* const wait =
      get->add_option("--wait-ms", chosen.query.wait_ms, "Wait so long for a job that still runs")
          ->check(CLI::Range(std::int64_t{0}, kFetchWaitMaxMs))
          ->type_name("N");
  get->add_option("--from-seq", chosen.query.from_seq,
                  "Print a streamed answer piece by piece as it is made, from this piece on")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()))
      ->excludes(wait)
      ->excludes("--json")
      ->type_name("N");
}

/// A command that asks for a verb of operators. One below another takes its place.
CLI::App& add_admin_command(CLI::App& app, Chosen& chosen, const char* name, const char* description,
                            AdminVerb verb, std::size_t rows_max) {
  CLI::App& command = *app.add_subcommand(name, description);
  command.add_flag("--json", chosen.admin.json, "The broker's answer as it is");
  if (rows_max != kNoList)
    command
        .add_option_function<std::size_t>(
            "-n,--limit", [&chosen](std::size_t rows) { chosen.admin.rows_max = rows; },
            "Rows at most; 0: all")
        ->default_str(std::to_string(rows_max))
        ->type_name("N");
  command.callback([&chosen, &command, verb, rows_max] {
    if (!command.get_subcommands().empty()) return;
    chosen.asks_operators_socket = true;
    chosen.admin.request.verb = name_of(verb);
    if (rows_max == kNoList || command.count("--limit") == 0) chosen.admin.rows_max = rows_max;
    chosen.command = [&chosen] { return admin(chosen.common, chosen.admin); };
  });
  return command;
}

void add_dry_run(CLI::App& command, Chosen& chosen) {
  command.add_flag("--dry-run", chosen.admin.request.dry_run, "Say what would happen, and change nothing");
}

void add_setting(CLI::App& command, Chosen& chosen, const char* type) {
  command.add_option("setting", chosen.admin.request.setting, "By its name in the configuration")
      ->required()
      ->type_name(type);
  command.add_option("value", chosen.admin.request.value, "As in the configuration: 500, 30s")
      ->required()
      ->type_name("VALUE");
}

void add_limits(CLI::App& app, Chosen& chosen) {
  CLI::App& command =
      *app.add_subcommand("limits", "Show what can be taken now of each limit of each budget");
  command.add_flag("--json", chosen.limits.json, "The budgets of the broker's document");
  CLI::App& set = add_admin_command(command, chosen, "set",
                                    "Change a limit until the configuration is read again: limits set openai "
                                    "requests_per_minute 500",
                                    AdminVerb::limit, kNoList);
  set.add_option("budget", chosen.admin.request.name, "The budget")->required()->type_name("BUDGET");
  add_setting(set, chosen, "LIMIT");
  set.add_option("--key", chosen.admin.request.key, "Of one of its keys")->type_name("KEY");
  add_dry_run(set, chosen);
  AdminRequest& request = chosen.admin.request;
  const std::vector<CLI::Option*> filters{
      command.add_option("--budget", request.name, "Of those budgets alone")->type_name("GLOB"),
      command.add_option("--key", request.key, "Of those keys alone")->type_name("GLOB"),
      command.add_option("--state", request.state, "Of keys that are active, draining or spent")
          ->type_name("STATE"),
      command.add_option("--service", request.service, "What jobs of that service take from")
          ->type_name("NAME"),
      command.add_option("--client", request.client, "What jobs of that client take from")->type_name("NAME"),
      command.add_option("--model", request.model, "What jobs with that model take from")->type_name("NAME"),
      command.add_option("--lane", request.lane, "What jobs of that lane take from")->type_name("NAME")};
  command.callback([&chosen, &set, filters] {
    if (set.parsed()) return;
    // Clients may see all there is; to choose is for operators.
    if (std::any_of(filters.begin(), filters.end(), [](const auto* filter) { return filter->count() > 0; })) {
      chosen.asks_operators_socket = true;
      chosen.admin.request.verb = name_of(AdminVerb::budgets);
      chosen.limits.filter = chosen.admin.request;
    }
    chosen.asks_either_socket = true;
    chosen.command = [&chosen] { return limits(chosen.common, chosen.limits); };
  });
}

/// Rows of a list that states no number.
constexpr std::size_t kRowsUsual = 100;

/// A copy takes as long as the disk does, and so long at most.
constexpr auto kBackupTimeout = std::chrono::hours(24);

/// Of dead jobs, which. `all`: what stands for no filter where something is changed.
void add_dead_filters(CLI::App& command, Chosen& chosen, bool changes) {
  AdminRequest& request = chosen.admin.request;
  const std::vector<CLI::Option*> filters{
      command.add_option("--lane", request.lane, "Of those lanes alone")->type_name("GLOB"),
      command.add_option("--service", request.service, "Of those services alone")->type_name("GLOB"),
      command.add_option("--client", request.client, "Of those clients alone")->type_name("GLOB"),
      command.add_option("--model", request.model, "Of those models alone")->type_name("GLOB"),
      command.add_option("--code", request.code, "That ended so alone: deadline, upstream_failed, ...")
          ->type_name("GLOB")};
  if (!changes) return;
  CLI::Option* const id = command.add_option("id", request.id, "The dead job's id")->type_name("ID");
  CLI::Option* const all = command.add_flag("--all", chosen.admin.all_dead, "All dead jobs")->excludes(id);
  for (CLI::Option* filter : filters)
    filter->excludes(id)->excludes(all);
  add_dry_run(command, chosen);
}

void add_dead_commands(CLI::App& app, Chosen& chosen) {
  add_dead_filters(
      add_admin_command(app, chosen, "dead", "List the jobs that failed or ran out of time, the oldest first",
                        AdminVerb::dead, kRowsUsual),
      chosen, false);
  add_dead_filters(
      add_admin_command(app, chosen, "redrive", "Run dead jobs again: redrive ID, redrive --code deadline",
                        AdminVerb::redrive, kNoList),
      chosen, true);
  add_dead_filters(add_admin_command(app, chosen, "purge", "Forget dead jobs", AdminVerb::purge, kNoList),
                   chosen, true);
}

void add_backup(CLI::App& app, Chosen& chosen) {
  CLI::App& command =
      add_admin_command(app, chosen, "backup", "Copy the broker's store to a new file, while it goes on",
                        AdminVerb::backup, kNoList);
  command
      .add_option_function<std::string>(
          "file",
          [&chosen](const std::string& file) {
            // The broker's working directory is another one.
            chosen.admin.request.path = std::filesystem::absolute(file).lexically_normal().string();
            chosen.admin.request.timeout = kBackupTimeout;
          },
          "The new file; the broker writes it, and replaces none")
      ->required()
      ->type_name("FILE");
}

void add_operator_commands(CLI::App& app, Chosen& chosen) {
  AdminRequest& request = chosen.admin.request;
  CLI::App& jobs = add_admin_command(app, chosen, "jobs", "List the jobs that are not over, or of one state",
                                     AdminVerb::jobs, kRowsUsual);
  jobs.add_option("--lane", request.lane, "Of that lane alone")->type_name("NAME");
  jobs.add_option("--service", request.service, "Of those services alone")->type_name("GLOB");
  jobs.add_option("--client", request.client, "Of those clients alone")->type_name("GLOB");
  jobs.add_option("--model", request.model, "Of those models alone")->type_name("GLOB");
  jobs.add_option("--state", request.state,
                  "queued, delayed, running, succeeded, failed, cancelled or expired")
      ->type_name("STATE");
  add_admin_command(app, chosen, "job", "Show all that is known of one job", AdminVerb::job, kNoList)
      .add_option("id", request.id, "The job's id")
      ->required()
      ->type_name("ID");
  add_admin_command(app, chosen, "workers", "List the workers", AdminVerb::workers, kRowsUsual)
      .add_option("--service", request.service, "Of those services alone")
      ->type_name("GLOB");
  add_admin_command(app, chosen, "clients", "List the clients", AdminVerb::clients, kRowsUsual);
  add_admin_command(app, chosen, "services", "List the services", AdminVerb::services, kRowsUsual);
  add_admin_command(app, chosen, "pauses", "List what is paused, and why", AdminVerb::pauses, kRowsUsual);

  add_dead_commands(app, chosen);

  CLI::App& lanes = add_admin_command(app, chosen, "lanes", "List the lanes with their settings",
                                      AdminVerb::lanes, kRowsUsual);
  CLI::App& set = add_admin_command(lanes, chosen, "set",
                                    "Change a setting until the configuration is read again: lanes set batch "
                                    "depth_max 5000",
                                    AdminVerb::lane, kNoList);
  set.add_option("lane", request.name, "The lane")->required()->type_name("LANE");
  add_setting(set, chosen, "SETTING");

  CLI::App& pause = add_admin_command(
      app, chosen, "pause", "Hand over nothing of a lane, service, client or budget: pause lane batch",
      AdminVerb::pause, kNoList);
  pause.add_option("what", request.what, "lane, service, client or budget")->required()->type_name("WHAT");
  pause.add_option("name", request.name, "Which of them")->required()->type_name("NAME");
  pause.add_option("--reason", request.reason, "Why, for those who ask what a job waits for")
      ->type_name("TEXT");
  CLI::App& resume = add_admin_command(app, chosen, "resume", "Take a pause back, or the drain of a worker",
                                       AdminVerb::resume, kNoList);
  resume.add_option("what", request.what, "lane, service, client, budget or worker")
      ->required()
      ->type_name("WHAT");
  resume.add_option("name", request.name, "Which of them")->required()->type_name("NAME");
  CLI::App& drain = add_admin_command(app, chosen, "drain", "Let a worker finish and give it no more",
                                      AdminVerb::drain, kNoList);
  drain.add_option("worker", request.name, "Its name or session")->required()->type_name("WORKER");
  CLI::App& move = add_admin_command(app, chosen, "move", "Put a job that waits into another lane",
                                     AdminVerb::move, kNoList);
  move.add_option("id", request.id, "The job's id")->required()->type_name("ID");
  move.add_option("lane", request.lane, "The lane")->required()->type_name("LANE");
  for (CLI::App* command : {&pause, &resume, &drain, &move, &set})
    add_dry_run(*command, chosen);
  add_backup(app, chosen);

  app.add_subcommand("top", "Watch lanes, budgets, workers and clients on the whole screen; q quits")
      ->callback([&chosen] {
        chosen.asks_operators_socket = true;
        chosen.command = [&chosen] { return top(chosen.common); };
      });
}

void add_simulate(CLI::App& app, Chosen& chosen) {
  CLI::App& command = *app.add_subcommand(
      "simulate", "What if: run a trace of requests through a broker's configuration, in virtual time");
  SimulateOptions& options = chosen.simulate;
  command.footer(
      "The trace is a CSV file whose header names TIMESTAMP, ContextTokens and GeneratedTokens, and may "
      "name\n"
      "LANE, SERVICE, CLIENT and MODEL. Its rows are put in the order of their times. No broker is asked, "
      "and\n"
      "nothing is read from the environment: the same input gives the same output.");
  command.add_option("--config", options.config, "The broker's configuration; its defaults without it")
      ->type_name("FILE.toml");
  command
      .add_option("--set", options.assignments,
                  "Set one key of it, as lanemq-broker does: budget.api.requests_per_minute=500")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command.add_option("--trace", options.trace, "The requests; - for the standard input")
      ->required()
      ->type_name("FILE.csv");
  command.add_option("--speed", options.speed, "Requests come so many times as fast")
      ->capture_default_str()
      ->check(CLI::Range(0.001, 1'000.0))
      ->type_name("X");
  command.add_option("--places", options.places, "Places of all workers of each service")
      ->capture_default_str()
      ->type_name("N");
  command.add_option("--first-token-ms", options.first_token_ms, "Until the first token of an answer")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{0}, kFirstTokenMaxMs))
      ->type_name("N");
  command
      .add_option("--tokens-per-second", options.tokens_per_second,
                  "How fast all tokens of an answer come; 0: at once")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e6))
      ->type_name("N");
  command.add_flag("--json", options.json, "The figures as JSON");
  command.callback([&chosen] { chosen.command = [&chosen] { return simulate(chosen.simulate); }; });
}

void add_all(CLI::App& app, Chosen& chosen) {
  chosen.common.broker = ClientOptions().endpoint;
  app.set_version_flag("--version", std::string("lanemq ") + kVersion);
  app.require_subcommand(0, 1);  // none is said below, in better words
  app.fallthrough();             // --broker may stand behind the command too
  app.add_option("--broker", chosen.common.broker, "Where the broker listens for clients")
      ->envname("LANEMQ_BROKER")
      ->capture_default_str()
      ->type_name("ENDPOINT");
  const char* const folder = std::getenv("RUNTIME_DIRECTORY");
  chosen.admin_endpoint = default_admin_endpoint(folder != nullptr ? folder : "");
  app.add_option("--admin", chosen.admin_endpoint, "Where the broker listens for operators")
      ->envname("LANEMQ_ADMIN")
      ->capture_default_str()
      ->type_name("ENDPOINT");
  app.add_option("--connect-timeout-ms", chosen.connect_timeout_ms,
                 "How long to wait for a first word of the broker")
      ->envname("LANEMQ_CONNECT_TIMEOUT_MS")
      ->capture_default_str()
      ->check(CLI::Range(1, 3'600'000))
      ->type_name("N");
  add_submit(app, chosen);
  add_run(app, chosen);
  add_stats(app, chosen);
  add_ping(app, chosen);
  add_bench(app, chosen);
  add_job_queries(app, chosen);
  add_limits(app, chosen);
  add_operator_commands(app, chosen);
  add_simulate(app, chosen);
  app.footer("Exit codes: 0 done, 1 the job failed, 2 wrong usage, 3 no broker answers.");
}

std::string usage_error(const CLI::App*, const CLI::Error& error) {
  return std::string("lanemq: ") + error.what() + "; see lanemq --help, lanemq COMMAND --help\n";
}

int main_checked(int argc, char** argv) {
  CLI::App app("LaneMQ's command line: jobs in, answers out", "lanemq");
  Chosen chosen;
  add_all(app, chosen);
  app.failure_message(usage_error);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Help and version are no errors; everything else is wrong usage, whatever its kind.
    return app.exit(error) == 0 ? kExitDone : kExitUsage;
  }
  if (!chosen.command) {
    say("a command is missing, such as submit, run, stats, ping or bench; see lanemq --help");
    return kExitUsage;
  }
  // Whoever names the operators' endpoint alone has no other one to ask.
  const bool admin_alone = app.count("--admin") > 0 && app.count("--broker") == 0;
  if (chosen.asks_operators_socket || (chosen.asks_either_socket && admin_alone)) {
    chosen.common.broker = chosen.admin_endpoint;
    chosen.common.named_by = "--admin or LANEMQ_ADMIN";
  }
  chosen.common.connect_timeout = std::chrono::milliseconds(chosen.connect_timeout_ms);
  try {
    return chosen.command();
  } catch (const std::invalid_argument& error) {  // the endpoint
    say(error.what());
    return kExitUsage;
  } catch (const std::exception& error) {
    say(error.what());
    return kExitFailed;
  }
}

}  // namespace
}  // namespace lanemq::cli

int main(int argc, char** argv) {
  return lanemq::cli::main_checked(argc, argv);
}
