// SPDX-License-Identifier: Apache-2.0
#include <future>
#include <map>
#include <memory>
#include <utility>

#include <lanemq/text.hpp>

#include "client/cli/base/broker_link.hpp"
#include "client/cli/base/command_line.hpp"
#include "client/cli/run/input_file.hpp"
#include "client/cli/run/output_file.hpp"
#include "client/cli/run/runner.hpp"
#include "client/cli/text/terminal.hpp"
#include "common/json/members.hpp"

namespace lanemq::cli {
namespace {

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
  const bool told =
      !options.json ||
      put_json("{\"total\":" + std::to_string(counts.total) + ",\"answered\":" +
               std::to_string(counts.before + counts.done) + ",\"before\":" + std::to_string(counts.before) +
               ",\"failed\":" + std::to_string(counts.failed) +
               ",\"failed_with\":" + runner.failures().json() +
               (complete || runner.stopped().empty() ? "" : ",\"stopped\":" + json_text(runner.stopped())) +
               ",\"out\":" + json_text(path) + "}\n");
  if (complete) output.finish(options.order, counts.failed == 0);
  if (!runner.stopped().empty() && counts.settled() == 0) {
    say("run: " + runner.stopped());
    output.forget();
    return kExitFailed;
  }
  for (const std::string& sentence : runner.failures().sentences())
    say("run: " + sentence);
  if (!options.quiet || counts.failed > 0)
    say("run: " + runner.summary() + (path == "-" ? "" : "; answers in " + printable(path)));
  if (!complete && interrupted() == 0) {
    say("stopped: " + runner.stopped());
    return kExitFailed;
  }
  if (!complete) {
    if (options.keep && runner.in_flight() > 0)
      say("interrupted: " + grouped(runner.in_flight()) + " jobs are left with the broker");
    if (output.can_resume()) say("stopped; run the same command again and only what is missing is sent");
    return kExitSignal + interrupted();
  }
  if (counts.failed == 0) return told ? kExitDone : kExitFailed;
  if (output.can_resume())
    say(runner.failures().may_succeed_later()
            ? "run the same command again to send the failed lines once more"
            : "none of them succeeds as it is: mend what is named, and run the same command again");
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

/// Whether the run names a group that nobody asked for. Not where that would change what is promised: a group
/// is told of in place of its jobs, and has no room for a job that is sent again, or was sent before.
bool has_group_of_its_own(const RunOptions& options) {
  return options.job.group.empty() && options.job.notify.empty() && options.retries == 0 && !options.keep;
}

/// Whether several brokers share the jobs: each would count its part of a group alone.
bool has_shards(Client& client, const Common& common) {
  std::future<Reply<BrokerPong>> pong = client.ping();
  if (!ready_within(pong, common.connect_timeout)) return true;
  const Reply<BrokerPong> reply = pong.get();
  return !reply || !reply->shards.empty();
}

int run_checked(const Common& common, const RunOptions& options) {
  const std::string path = output_path(options);
  if (options.json && path == "-")
    throw RunError("--json and the answers would both be on the standard output; give --out FILE");
  const InputFile input(options.file, options.format,
                        {.service = options.job.service, .model = options.job.model});
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
  Runner runner(options, input, output, progressed, client, common, strip);
  try {
    if (has_group_of_its_own(options) && !all_done && !has_shards(client, common))
      runner.name_group(goes_on);
    else
      runner.size_group(goes_on);
    runner.run();
    if ((interrupted() != 0 || !runner.stopped().empty()) && !options.keep) runner.cancel();
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

/// The file, the answers, and what stands in both.
void add_file_options(CLI::App& command, const std::shared_ptr<RunOptions>& options) {
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
}

CLI::Option* add_group_option(CLI::App& command, JobOptions& job) {
  return command
      .add_option(
          "--group", job.group,
          "The group of its jobs: watch --group NAME says when all of them are over. Give each run a group\n"
          "of its own; without it the run is FILE-RANDOM in stats and top")
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
      "{\"id\", \"line\", \"response\", \"error\"}. Answers are written as they come. Run the same "
      "command again\n"
      "and only what is missing or failed is sent; until all is well, OUT.run stands beside the output.\n"
      "An output with a good answer to another body, url, --service or --model is refused.");
  add_job_options(command, options->job, true);
  add_fate_options(command, options->job);
  add_file_options(command, options);
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
  command.add_flag(
      "--keep-going", options->keep_going,
      "Send all lines, also where the broker refuses each, or the upstream the first 10 for their key,\n"
      "path or rights; the run stops there without it");
  command.add_flag("--quiet", options->quiet, "Say nothing unless something failed");
  command.add_flag("--json", options->json, "How it ended as JSON, in one line on the standard output");
  line.on_chosen(command, Asks::clients, [options](const Common& common) { return run(common, *options); });
}

}  // namespace lanemq::cli
