// SPDX-License-Identifier: Apache-2.0
//
// bench_store: what it costs to have jobs on disk, beside a bare loop of libzmq and SQLite, beanstalkd (`-b
// -f0`) and Redis (`appendfsync always`) on the same machine, disk and minute; the last two where they are
// installed.
//
//   accept-128   One client keeps 1000 jobs of 128 bytes on the way to the disk; how many a second are
//   acknowledged.
//                Nobody works. lanemq-64: up to 64 jobs in a message.
//   accept-4096  The same with 4 KiB.
//   accept-one   One job at a time: from the submit to the word that it is on the disk.
//   round-trips  bench_wire's roundtrip: 1000 jobs on the way, two workers that hold 100 each; the bare
//   broker and
//                lanemq-memory keep nothing, lanemq has each job on the disk before it is handed out, and its
//                result before it is told.
//   critical     Single critical jobs in a lane that is not durable, with a worker of their own, while nobody
//   (quiet)
//                or another client (flooded) hands in durable jobs with a window of 1000.
//
// Each round runs all peers one after the other. A ratio is taken within a round, to the first peer of the
// workload; the table shows medians over the rounds. Every lanemq job that counts was said to be durable. A
// refusal, a malformed message or a silent or dead process ends the benchmark with exit code 1.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <CLI/CLI.hpp>
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/bench/acceptors.hpp"
#include "tests/bench/pace.hpp"
#include "tests/bench/rig.hpp"
#include "tests/bench/workloads.hpp"

namespace lanemq::bench {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
constexpr std::size_t kAcceptsOnTheWay = 1000;
constexpr std::size_t kLmqBatch = 64;
constexpr std::size_t kSmallBody = 128, kLargeBody = 4096;
constexpr int kAcceptsWarmup = 200;
constexpr int kProbePauseMicrosecondsMax = 3000;
constexpr Seconds kServerTimeout{10};
constexpr Seconds kEndTimeout{120};
/// How long a measurement goes on in which nothing was acknowledged, and how often it looks.
constexpr std::uint64_t kFirstAckTimeoutNs = 30'000'000'000;
constexpr Seconds kFirstAckPause{0.01};
/// More than this of a core used by others moves the ratios by more than their usual spread.
constexpr double kOthersCoresMax = 0.35;

struct Arguments {
  Settings settings;
  std::filesystem::path bin, folder;
  std::vector<std::string> names;
  double warmup = 0.5, seconds = 3;
  int accepts = 3000;
};

/// A folder on the disk that is measured, gone with this object.
class Folder {
 public:
  explicit Folder(const std::filesystem::path& in) {
    std::string name = (in / "bench-store-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw Failure("cannot make a folder in " + in.string());
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string path() const { return path_; }
  std::string file(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// What one run of one peer uses.
struct Run {
  const Arguments& arguments;
  Folder folder{arguments.folder};
  Shared<Control> control{};
  Children children{};

  std::string program(const char* name) const {
    return std::filesystem::path(arguments.settings.bare_program).parent_path() / name;
  }
};

using MakeAcceptor = std::function<std::unique_ptr<Acceptor>()>;

// ---- servers ------------------------------------------------------------------------------------------

std::string found(const std::string& program) {
  for (const char* folder : {"/usr/bin", "/usr/local/bin", "/usr/sbin"})
    if (const std::string path = std::string(folder) + "/" + program; access(path.c_str(), X_OK) == 0)
      return path;
  return {};
}

/// A port that nothing has now.
int free_port() {
  const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (bind(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      getsockname(probe, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw Failure("no free port");
  close(probe);
  return ntohs(address.sin_port);
}

void start_server(Run& run, const std::vector<std::string>& command, const MakeAcceptor& connect) {
  run.children.fork_end(command.front(), [&command] {
    const int nowhere = open("/dev/null", O_RDWR);
    dup2(nowhere, STDOUT_FILENO);
    std::vector<char*> arguments;
    for (const std::string& argument : command)
      arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    execv(arguments.front(), arguments.data());
    throw Failure("it cannot be run");
  });
  run.children.wait_until(
      command.front() + " listens",
      [&] {
        try {
          connect();
          return true;
        } catch (const Failure&) {
          return false;
        }
      },
      kServerTimeout);
}

MakeAcceptor start_raw(Run& run) {
  const std::string endpoint =
      run.children.start_broker({run.program("bench_raw_store"), run.folder.file("raw.db")}).clients;
  return [endpoint] { return make_bare_acceptor(endpoint); };
}

BrokerProcess start_lanemq_broker(Run& run) {
  std::vector<std::string> command{run.arguments.settings.lanemq_program,
                                   "--clients",
                                   "tcp://127.0.0.1:*",
                                   "--workers",
                                   "tcp://127.0.0.1:*",
                                   "--store",
                                   "sqlite:" + run.folder.file("lanemq.db"),
                                   "--set",
                                   "lane.normal.depth_max=16000000",
                                   "--set",
                                   "jobs_max=16000000",
                                   "--set",
                                   "lane.critical.durable=false"};
  for (const std::string& setting : run.arguments.settings.lanemq_settings)
    command.insert(command.end(), {"--set", setting});
  return run.children.start_broker(command);
}

template <std::size_t kBatch>
MakeAcceptor start_lanemq(Run& run) {
  return [endpoint = start_lanemq_broker(run).clients] { return make_lmq1_acceptor(endpoint, kBatch); };
}

MakeAcceptor start_beanstalkd(Run& run) {
  const int port = free_port();
  const MakeAcceptor connect = [port] { return make_beanstalkd_acceptor(port); };
  start_server(run,
               {found("beanstalkd"), "-l", "127.0.0.1", "-p", std::to_string(port), "-z", "65535", "-b",
                run.folder.path(), "-f0"},
               connect);
  return connect;
}

MakeAcceptor start_redis(Run& run) {
  const int port = free_port();
  const MakeAcceptor connect = [port] { return make_redis_acceptor(port); };
  start_server(run,
               {found("redis-server"), "--bind", "127.0.0.1", "--port", std::to_string(port), "--save", "",
                "--dir", run.folder.path(), "--appendonly", "yes", "--appendfsync", "always",
                "--auto-aof-rewrite-percentage", "0"},
               connect);
  return connect;
}

// ---- what is measured ---------------------------------------------------------------------------------

void keep_window(Acceptor& acceptor, Control& control, const std::string& body) {
  std::uint64_t completed = 0;
  for (std::size_t outstanding = 0; !control.stop || outstanding > 0;) {
    for (; !control.stop && outstanding < kAcceptsOnTheWay; ++outstanding)
      acceptor.submit(body);
    acceptor.push();
    const std::size_t taken = acceptor.take_acks();
    if (taken > outstanding) throw Failure("more jobs were acknowledged than submitted");
    outstanding -= taken;
    control.completed = completed += taken;
  }
}

template <std::size_t kBodyBytes, MakeAcceptor (*start)(Run&)>
std::vector<double> accepts(Run& run) {
  const MakeAcceptor make = start(run);
  Control& control = *run.control;
  const pid_t client =
      run.children.fork_end("client", [&] { keep_window(*make(), control, std::string(kBodyBytes, 'x')); });
  run.children.rest(run.arguments.settings.warmup);
  const std::uint64_t before = control.completed, began = now_ns();
  run.children.rest(run.arguments.settings.seconds);
  // A disk can take longer for one commit than a short measurement lasts. The rate is that of the time that
  // has really passed.
  const std::uint64_t latest = began + kFirstAckTimeoutNs;
  while (control.completed == before && now_ns() < latest)
    run.children.rest(kFirstAckPause);
  const double rate =
      static_cast<double>(control.completed - before) * 1e9 / static_cast<double>(now_ns() - began);
  control.stop = true;
  run.children.wait_for_end(client, kEndTimeout);
  if (rate == 0) throw Failure("no job was acknowledged in the measured time");
  return {rate};
}

/// The smallest sample that `share` of all samples do not exceed.
double percentile_ns(const Control& control, double share) {
  std::vector<std::uint64_t> samples(
      control.samples_ns.begin(),
      control.samples_ns.begin() + static_cast<std::ptrdiff_t>(control.sample_count.load()));
  if (samples.empty()) throw Failure("a workload took no sample");
  std::sort(samples.begin(), samples.end());
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(samples.size())));
  return static_cast<double>(samples[std::clamp<std::size_t>(rank, 1, samples.size()) - 1]);
}

template <MakeAcceptor (*start)(Run&)>
std::vector<double> accept_one(Run& run) {
  const MakeAcceptor make = start(run);
  Control& control = *run.control;
  const int count = run.arguments.accepts;
  const pid_t client = run.children.fork_end("client", [&, count] {
    const auto acceptor = make();
    const std::string body(kSmallBody, 'x');
    for (int i = 0; i < kAcceptsWarmup + count; ++i) {
      const std::uint64_t began = now_ns();
      acceptor->submit(body);
      acceptor->push();
      acceptor->take_acks();
      if (i >= kAcceptsWarmup) control.add_sample(now_ns() - began);
    }
  });
  run.children.wait_for_end(client, kEndTimeout);
  return {percentile_ns(control, 0.50) / 1e3, percentile_ns(control, 0.99) / 1e3};
}

enum class Keeps { nothing, all };

template <Peer kPeer, Keeps kKeeps, bool kBatches>
std::vector<double> round_trips(Run& run) {
  Settings settings = run.arguments.settings;
  if (kKeeps == Keeps::all) settings.store = "sqlite:" + run.folder.file("lanemq.db");
  const std::string_view wanted = kBatches ? "batches" : "roundtrip";
  for (const Workload& workload : workloads())
    if (workload.name == wanted) {
      Rig rig(kPeer, settings);
      return {workload.run(rig)[0]};
    }
  throw Failure("there is no such workload");
}

enum class Flood { none, durable };

template <Flood kFlood>
std::vector<double> critical(Run& run) {
  const BrokerProcess broker = start_lanemq_broker(run);
  Control& control = *run.control;
  run.children.fork_end("worker", [&] {
    const auto worker = make_lmq1_worker(broker.workers, {.reserved = true});
    worker->announce();
    ++control.workers_ready;
    worker->run(Performer(control.work_done));
  });
  run.children.wait_until(
      "the worker is ready", [&] { return control.workers_ready == 1; }, kServerTimeout);
  if (kFlood == Flood::durable) {
    run.children.fork_end("flood", [&] {
      keep_window(*make_lmq1_acceptor(broker.clients, 1), control, std::string(kSmallBody, 'x'));
    });
    run.children.rest(run.arguments.settings.warmup);
  }
  const int probes = run.arguments.settings.probes;
  const pid_t prober = run.children.fork_end("critical client", [&, probes] {
    const auto end = make_lmq1_client(broker.clients, SendAhead::unbounded, 1);
    JobBody reply;
    for (int i = 0; i < probes; ++i) {
      const JobBody body{.sequence = static_cast<std::uint64_t>(i), .submitted_ns = now_ns()};
      end->submit(body, Lane::critical);
      end->receive(reply, Wait::until_reply);
      if (reply.sequence != body.sequence) throw Failure("a reply came that was not due");
      control.add_sample(now_ns() - body.submitted_ns);
      spend(std::chrono::microseconds(i * 7919 % kProbePauseMicrosecondsMax));
    }
  });
  run.children.wait_for_end(prober, kEndTimeout);
  if (kFlood == Flood::durable && control.completed == 0) throw Failure("the flood did not come");
  return {percentile_ns(control, 0.50) / 1e6, percentile_ns(control, 0.99) / 1e6};
}

// ---- all of it ----------------------------------------------------------------------------------------

struct StoreFigure {
  const char* name;
  int decimals;
};

struct Measurement {
  const char* workload;
  const char* peer;
  std::vector<StoreFigure> figures;
  std::vector<double> (*run)(Run& run);
  const char* program = nullptr;  ///< that has to be installed
};

std::vector<Measurement> measurements() {
  const std::vector<StoreFigure> rate{{"jobs/s", 0}}, latency{{"p50 us", 0}, {"p99 us", 0}},
      wait{{"p50 ms", 3}, {"p99 ms", 3}};
  return {
      {"accept-128", "raw", rate, accepts<kSmallBody, start_raw>},
      {"accept-128", "lanemq", rate, accepts<kSmallBody, start_lanemq<1>>},
      {"accept-128", "lanemq-64", rate, accepts<kSmallBody, start_lanemq<kLmqBatch>>},
      {"accept-128", "beanstalkd", rate, accepts<kSmallBody, start_beanstalkd>, "beanstalkd"},
      {"accept-128", "redis", rate, accepts<kSmallBody, start_redis>, "redis-server"},
      {"accept-4096", "raw", rate, accepts<kLargeBody, start_raw>},
      {"accept-4096", "lanemq", rate, accepts<kLargeBody, start_lanemq<1>>},
      {"accept-4096", "beanstalkd", rate, accepts<kLargeBody, start_beanstalkd>, "beanstalkd"},
      {"accept-4096", "redis", rate, accepts<kLargeBody, start_redis>, "redis-server"},
      {"accept-one", "raw", latency, accept_one<start_raw>},
      {"accept-one", "lanemq", latency, accept_one<start_lanemq<1>>},
      {"accept-one", "beanstalkd", latency, accept_one<start_beanstalkd>, "beanstalkd"},
      {"accept-one", "redis", latency, accept_one<start_redis>, "redis-server"},
      {"round-trips", "raw", rate, round_trips<Peer::raw, Keeps::nothing, false>},
      {"round-trips", "lanemq-memory", rate, round_trips<Peer::lanemq, Keeps::nothing, false>},
      {"round-trips", "lanemq", rate, round_trips<Peer::lanemq, Keeps::all, false>},
      {"round-trips", "lanemq-16", rate, round_trips<Peer::lanemq, Keeps::all, true>},
      {"critical", "quiet", wait, critical<Flood::none>},
      {"critical", "flooded", wait, critical<Flood::durable>},
  };
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

struct Measured {
  Measurement what;
  std::vector<std::vector<double>> rounds{};
};

void print_table(const std::vector<Measured>& all) {
  std::printf("%-12s %-14s %-8s %14s %9s\n", "workload", "peer", "figure", "median", "ratio");
  const Measured* first = nullptr;
  for (const Measured& measured : all) {
    if (first == nullptr || std::string_view(first->what.workload) != measured.what.workload)
      first = &measured;
    for (std::size_t figure = 0; figure < measured.what.figures.size(); ++figure) {
      std::vector<double> values, ratios;
      for (std::size_t round = 0; round < measured.rounds.size(); ++round) {
        values.push_back(measured.rounds[round][figure]);
        ratios.push_back(measured.rounds[round][figure] / first->rounds[round][figure]);
      }
      const auto& [name, decimals] = measured.what.figures[figure];
      std::printf("%-12s %-14s %-8s %14.*f %9.3f\n", measured.what.workload, measured.what.peer, name,
                  decimals, median(values), median(ratios));
    }
  }
}

/// What one word that something is on the disk costs: 512 bytes at the end of a file, and fdatasync.
double fdatasync_us(const Arguments& arguments) {
  const Folder folder(arguments.folder);
  const int file = open(folder.file("file").c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
  const std::string bytes(512, 'x');
  std::vector<double> times;
  for (int i = 0; i < 200 && file >= 0; ++i) {
    const std::uint64_t began = now_ns();
    if (write(file, bytes.data(), bytes.size()) < 0 || fdatasync(file) != 0) break;
    times.push_back(static_cast<double>(now_ns() - began) / 1e3);
  }
  close(file);
  if (times.empty()) throw Failure("cannot write to " + arguments.folder.string());
  return median(times);
}

void run_all(const Arguments& arguments) {
  std::vector<Measured> all;
  for (const Measurement& what : measurements()) {
    if (!arguments.names.empty() &&
        std::count(arguments.names.begin(), arguments.names.end(), std::string(what.workload)) == 0)
      continue;
    if (what.program != nullptr && found(what.program).empty())
      std::fprintf(stderr, "note: %s is not installed and left out\n", what.program);
    else
      all.push_back({what});
  }
  double others_max = 0;
  for (int round = 0; round < arguments.settings.rounds; ++round)
    for (Measured& measured : all) {
      const OthersMeter others;
      {
        Run run{arguments};
        measured.rounds.push_back(measured.what.run(run));
      }
      others_max = std::max(others_max, others.cores());
      std::fprintf(stderr, "%s %s: %.*f %s\n", measured.what.workload, measured.what.peer,
                   measured.what.figures.back().decimals, measured.rounds.back().back(),
                   measured.what.figures.back().name);
    }
  print_table(all);
  std::printf("the disk: fdatasync of 512 bytes takes %.0f us (median)\n", fdatasync_us(arguments));
  if (others_max > kOthersCoresMax)
    std::printf("note: other processes used up to %.2f cores during a run; repeat it on a quiet machine\n",
                others_max);
}

void describe(CLI::App& app, Arguments& arguments) {
  app.add_option("workload", arguments.names, "What to run; all where none is named");
  app.add_option("--bin", arguments.bin,
                 "The directory of lanemq-broker; this program's own where not given");
  app.add_option("--folder", arguments.folder,
                 "A directory on the disk that is measured; this program's own else");
  app.add_option("--rounds", arguments.settings.rounds, "Runs of each peer")
      ->check(CLI::Range(1, 99))
      ->capture_default_str();
  app.add_option("--warmup", arguments.warmup, "Seconds before a rate is measured")
      ->check(CLI::Range(0.0, 60.0))
      ->capture_default_str();
  app.add_option("--seconds", arguments.seconds, "Seconds for which a rate is measured")
      ->check(CLI::Range(0.05, 30.0))
      ->capture_default_str();
  app.add_option("--accepts", arguments.accepts, "Measured jobs of accept-one")
      ->check(CLI::Range(1, static_cast<int>(kSamplesMax)))
      ->capture_default_str();
  app.add_option("--probes", arguments.settings.probes, "Jobs of critical")
      ->check(CLI::Range(1, static_cast<int>(kSamplesMax)))
      ->capture_default_str();
  app.add_option("--set", arguments.settings.lanemq_settings, "key=value, given to lanemq-broker; repeatable")
      ->allow_extra_args(false);
}

}  // namespace
}  // namespace lanemq::bench

int main(int count, char** values) {
  using namespace lanemq::bench;
  CLI::App app("Measures durable jobs beside others that keep them on disk.", "bench_store");
  Arguments arguments;
  describe(app, arguments);
  try {
    app.parse(count, values);
    const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    if (arguments.bin.empty()) arguments.bin = own;
    if (arguments.folder.empty()) arguments.folder = own;
    arguments.settings.warmup = Seconds(arguments.warmup);
    arguments.settings.seconds = Seconds(arguments.seconds);
    arguments.settings.bare_program = own / "bench_raw";
    arguments.settings.lanemq_program = std::filesystem::absolute(arguments.bin) / "lanemq-broker";
    run_all(arguments);
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_store: %s\n", error.what());
    return kExitFailed;
  }
}
