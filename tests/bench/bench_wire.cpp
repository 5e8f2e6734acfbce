// SPDX-License-Identifier: Apache-2.0
//
// bench_wire: how fast lanemq-broker is, beside a bare libzmq broker on the same machine in the same minute.
//
// What is run. Broker, clients and workers are processes of their own on 127.0.0.1, on ports that the system
// picks. Both peers get the same workloads from the same code (workloads.cpp); only the ends differ
// (bare_ends.cpp, lmq1_ends.cpp), are written by hand, and cost about the same. Every job carries 128 bytes;
// at lanemq it travels in one frame with an id that the client gave.
//
//   roundtrip  One client keeps 1000 jobs on the way, two echo workers hold 100 each, lane `high`. After a
//              warm-up the replies of the measured time are counted. broker_cpu is the broker's own CPU time
//              per reply, which is steadier than the rate; ends_cpu is that of the client and the workers,
//              which should not differ much between the peers. At the end every job on the way must come
//              back.
//   batches    The same, where lanemq gets and sends up to 16 jobs in a message and the bare broker one.
//   batches-both   The same, where the bare broker does it too: it splits what comes and sends what goes to
//              one client or worker in a turn as one.
//   latency    One job on the way, one worker, every process pinned to one CPU: unpinned it is chance
//              whether two ends share a CPU, and that decides more than the broker does.
//   enqueue    10^6 jobs into lane `batch` with no worker, timed until a ping sent behind them is answered,
//              so that all of them are in; rss is what the broker's memory grew by, per job.
//   priority   10,000 jobs of 5 ms in lane `batch`, four workers that hold one each and one that is reserved
//              for `critical`. Then critical jobs one at a time, 0 to 3 ms apart; the wait is from before
//              the submit until the worker has the job in hand. The bare broker does it with two deques.
//
// How the figures are obtained. Each lanemq run stands between two raw runs: raw, lanemq, raw, lanemq, … raw.
// The ratio of a round is lanemq's figure over the mean of its two neighbours; the table shows the median
// ratio over the rounds, and the median figures. Only the ratios mean anything on another machine, and on
// this one only while nothing else uses it: what others used is measured and noted below the table.
//
// A refusal, a malformed message, a reply that was not due, a silent or dead process ends the benchmark with
// a message and exit code 1. Nothing of that kind is ever counted.
#include <algorithm>
#include <filesystem>
#include <optional>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "tests/bench/bench_keys.hpp"
#include "tests/bench/report.hpp"

namespace lanemq::bench {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

struct Arguments {
  Settings settings;
  std::filesystem::path bin;
  std::vector<std::string> names;
  double warmup = 1;
  double seconds = 3;
  bool curve = false;
  bool json = false;
  bool check = false;
};

std::vector<std::string> workload_names() {
  std::vector<std::string> names;
  for (const Workload& workload : workloads())
    names.emplace_back(workload.name);
  return names;
}

void describe(CLI::App& app, Arguments& arguments) {
  Settings& settings = arguments.settings;
  app.add_option("workload", arguments.names, "What to run; all where none is named")
      ->check(CLI::IsMember(workload_names()));
  app.add_option("--bin", arguments.bin,
                 "The directory of lanemq-broker; this program's own where not given");
  app.add_option("--rounds", settings.rounds, "Runs of lanemq, each between two of raw")
      ->check(CLI::Range(1, 99))
      ->capture_default_str();
  app.add_option("--warmup", arguments.warmup, "Seconds before a rate is measured")
      ->check(CLI::Range(0.0, 600.0))
      ->capture_default_str();
  app.add_option("--seconds", arguments.seconds, "Seconds for which a rate is measured")
      ->check(CLI::Range(0.05, 600.0))
      ->capture_default_str();
  app.add_option("--round-trips", settings.round_trips, "Measured round trips of latency")
      ->check(CLI::Range(1, static_cast<int>(kSamplesMax)))
      ->capture_default_str();
  app.add_option("--jobs", settings.jobs, "Jobs of enqueue")
      ->check(CLI::Range(1, 2'000'000))
      ->capture_default_str();
  app.add_option("--batch-jobs", settings.batch_jobs, "Long jobs queued in priority")
      ->check(CLI::Range(1, 2'000'000))
      ->capture_default_str();
  app.add_option("--probes", settings.probes, "Critical jobs of priority")
      ->check(CLI::Range(1, static_cast<int>(kSamplesMax)))
      ->capture_default_str();
  app.add_option("--set", settings.lanemq_settings,
                 "key=value, given to lanemq-broker as it stands; repeatable")
      ->allow_extra_args(false);
  app.add_flag("--curve", arguments.curve, "Both brokers ask for keys, and all is encrypted");
  app.add_flag("--json", arguments.json,
               "JSON lines on stdout, one a run and one a figure; the table goes to stderr");
  app.add_flag("--check", arguments.check, "Exit with 1 where a goal is missed");
}

void find_programs(Arguments& arguments) {
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  if (arguments.bin.empty()) arguments.bin = own;
  arguments.settings.bare_program = own / "bench_raw";
  arguments.settings.lanemq_program = std::filesystem::absolute(arguments.bin) / "lanemq-broker";
  for (const std::string& program : {arguments.settings.bare_program, arguments.settings.lanemq_program})
    if (access(program.c_str(), X_OK) != 0)
      throw CLI::ValidationError("no executable " + program +
                                 "; build it, or name the directory of lanemq-broker with --bin");
}

std::vector<double> run_once(const Workload& workload, Peer peer, int number, const Arguments& arguments,
                             Measured& measured) {
  const OthersMeter others;
  std::vector<double> values;
  {
    Rig rig(peer, arguments.settings);
    values = workload.run(rig);
  }
  const double others_cores = others.cores();
  measured.others_cores_max = std::max(measured.others_cores_max, others_cores);
  print_progress(workload, peer, values);
  if (arguments.json) print_run_json(workload, peer, number, values, others_cores);
  return values;
}

Measured measure(const Workload& workload, const Arguments& arguments) {
  Measured measured;
  measured.workload = &workload;
  int number = 0;
  measured.raw.push_back(run_once(workload, Peer::raw, ++number, arguments, measured));
  for (int round = 0; round < arguments.settings.rounds; ++round) {
    measured.lanemq.push_back(run_once(workload, Peer::lanemq, ++number, arguments, measured));
    measured.raw.push_back(run_once(workload, Peer::raw, ++number, arguments, measured));
  }
  return measured;
}

/// Returns the exit code.
int run_all(const Arguments& arguments) {
  std::vector<Measured> measured;
  std::vector<Summary> summaries;
  for (const Workload& workload : workloads()) {
    const bool wanted = arguments.names.empty() ||
                        std::count(arguments.names.begin(), arguments.names.end(), workload.name) > 0;
    if (!wanted) continue;
    measured.push_back(measure(workload, arguments));
    const std::vector<Summary> figures = summarize(measured.back());
    if (arguments.json) print_summary_json(figures);
    summaries.insert(summaries.end(), figures.begin(), figures.end());
  }
  print_table(arguments.json ? stderr : stdout, summaries, measured);
  const bool missed = std::any_of(summaries.begin(), summaries.end(),
                                  [](const Summary& summary) { return summary.verdict == Verdict::missed; });
  return missed && arguments.check ? kExitFailed : 0;
}

}  // namespace
}  // namespace lanemq::bench

int main(int count, char** values) {
  using namespace lanemq::bench;
  CLI::App app("Measures lanemq-broker beside a bare libzmq broker.", "bench_wire");
  Arguments arguments;
  describe(app, arguments);
  try {
    app.parse(count, values);
    arguments.settings.warmup = Seconds(arguments.warmup);
    arguments.settings.seconds = Seconds(arguments.seconds);
    find_programs(arguments);
    std::optional<BenchKeys> keys;
    if (arguments.curve) arguments.settings.lanemq_keys = keys.emplace().arguments();
    return run_all(arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_wire: %s\n", error.what());
    return kExitFailed;
  }
}
