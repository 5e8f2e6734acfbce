// SPDX-License-Identifier: Apache-2.0
//
// bench_streams: how long a piece of a streamed answer takes from its worker to its reader, beside a bare
// ROUTER loop that passes the same pieces on.
//
// What is run. Broker, worker and reader are processes of their own on 127.0.0.1. The worker and the reader
// of lanemq-broker are the libraries: a handler's thread calls Completion::chunk(), Client::stream() calls
// back. Those of the bare loop are two DEALERs, and between them one ROUTER that knows no streams. A piece
// carries the time at which it was handed in, so that a figure is the whole way of one piece, both threads'
// waking included.
//
//   one       One stream with a piece every millisecond: what the way adds to a piece that nothing holds up.
//   many      A thousand streams with a piece every 20 ms each, spread evenly: pieces that are lost, that
//   come
//             after the next one of their stream was due (late), and what the way adds then.
//
// The bare loop runs before and after lanemq; `added` is lanemq's figure less the mean of the two. What
// others used of the machine meanwhile is said below the table: the times need both cores, the CPU time less
// so.
#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <thread>

#include <CLI/CLI.hpp>
#include <zmq.hpp>

#include <lanemq/client.hpp>
#include <lanemq/worker.hpp>

#include "tests/bench/pace.hpp"
#include "tests/bench/process.hpp"
#include "tests/support/eventually.hpp"

namespace lanemq::bench {
namespace {

using std::chrono::nanoseconds;

constexpr std::size_t kPieceBytes = 200;  // an event of a chat, about
constexpr std::size_t kSamplesMax = 4'000'000;
constexpr std::size_t kStreamsMax = 1'000;  // a worker holds little more
constexpr Seconds kPreparation{20}, kPatience{60};

struct Load {
  const char* name;
  std::size_t streams;
  nanoseconds cadence;  ///< of each stream
  std::size_t pieces;   ///< of each stream

  std::size_t all() const { return streams * pieces; }
};

/// What the processes of a run tell each other.
struct Control {
  std::atomic<bool> worker_ready = false, reader_ready = false;
  std::atomic<std::size_t> ended = 0;     ///< streams
  std::atomic<std::size_t> received = 0;  ///< pieces; each has a sample
  std::array<char, 256> front{}, back{};  ///< endpoints of the bare loop
  std::atomic<bool> bound = false;
  std::array<std::uint32_t, kSamplesMax> samples_ns;

  void add_sample(std::uint64_t sent_ns) {
    const std::uint64_t took = std::min<std::uint64_t>(now_ns() - sent_ns, UINT32_MAX);
    samples_ns[received.load()] = static_cast<std::uint32_t>(took);
    ++received;
  }
};

/// A piece: when it was handed in, then filling.
std::array<char, kPieceBytes> piece_of_now() {
  std::array<char, kPieceBytes> piece;
  piece.fill('x');
  const std::uint64_t now = now_ns();
  std::memcpy(piece.data(), &now, sizeof now);
  return piece;
}

std::uint64_t time_of(std::string_view piece) {
  if (piece.size() != kPieceBytes) throw Failure("a piece of another size came");
  std::uint64_t sent = 0;
  std::memcpy(&sent, piece.data(), sizeof sent);
  return sent;
}

/// Calls `say(stream)` for each piece when it is due: the streams of a cadence one after the other.
template <class Say>
void pace(const Load& load, Say say) {
  const auto step = load.cadence / static_cast<std::int64_t>(load.streams);
  auto due = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < load.all(); ++i) {
    due += step;
    wait_for_due(due);
    say(i % load.streams);
  }
}

// ---- lanemq -------------------------------------------------------------------------------------------

/// Streams to all its jobs from one thread, from when they are all there.
class PacedHandler final : public Handler {
 public:
  explicit PacedHandler(const Load& load) : load_(load) {}
  ~PacedHandler() override {
    if (thread_.joinable()) thread_.join();
  }

  void start(const JobCall&, Completion done) override {
    jobs_.push_back(std::move(done));
    if (jobs_.size() == load_.streams) thread_ = std::thread([this] { run(); });
  }

 private:
  void run() {
    pace(load_, [this](std::size_t stream) {
      const auto piece = piece_of_now();
      static_cast<void>(jobs_[stream].chunk(Blob::copy({piece.data(), piece.size()})));
    });
    for (Completion& job : jobs_)
      job.success({});
  }

  const Load load_;
  std::vector<Completion> jobs_;
  std::thread thread_;
};

void run_worker(const std::string& endpoint, const Load& load, Control& control) {
  WorkerOptions options;
  options.broker = endpoint;
  options.capacity = load.streams;
  options.on_ready = [&control](const std::string&) { control.worker_ready = true; };
  Worker worker(std::move(options), {{"stream", std::make_shared<PacedHandler>(load)}});
  worker.run();
}

void run_reader(const std::string& endpoint, const Load& load, Control& control) {
  std::mutex mutex;
  std::condition_variable changed;
  std::string failure;
  std::size_t ended = 0;
  Client client({.endpoint = endpoint});
  for (std::size_t i = 0; i < load.streams; ++i)
    client.stream(
        {.service = "stream"}, {},
        {.on_chunk = [&](const JobChunk& chunk) { control.add_sample(time_of(chunk.body.bytes())); },
         .on_end =
             [&](const Answer& answer) {
               const std::lock_guard lock(mutex);
               if (!answer) failure = answer.error().code + ": " + answer.error().message;
               ++ended;
               changed.notify_one();
             }});
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return ended == load.streams || !failure.empty(); });
  if (!failure.empty()) throw Failure("a stream failed: " + failure);
}

// ---- the bare loop ------------------------------------------------------------------------------------

void run_bare_loop(Control& control) {
  zmq::context_t context;
  zmq::socket_t front(context, zmq::socket_type::router), back(context, zmq::socket_type::router);
  const auto bind = [](zmq::socket_t& socket, std::array<char, 256>& endpoint) {
    socket.set(zmq::sockopt::linger, 0);
    socket.set(zmq::sockopt::sndhwm, 0);
    socket.set(zmq::sockopt::rcvhwm, 0);
    socket.bind("tcp://127.0.0.1:*");
    const std::string name = socket.get(zmq::sockopt::last_endpoint);
    std::memcpy(endpoint.data(), name.c_str(), name.size() + 1);
  };
  bind(front, control.front);
  bind(back, control.back);
  control.bound = true;
  zmq::message_t reader, address, piece;
  static_cast<void>(front.recv(reader));
  static_cast<void>(front.recv(piece));
  control.reader_ready = true;
  for (;;) {
    static_cast<void>(back.recv(address));
    static_cast<void>(back.recv(piece));
    front.send(zmq::const_buffer(reader.data(), reader.size()), zmq::send_flags::sndmore);
    front.send(piece, zmq::send_flags::none);
  }
}

void run_bare_worker(const Load& load, Control& control) {
  zmq::context_t context;
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  socket.set(zmq::sockopt::sndhwm, 0);
  socket.connect(control.back.data());
  if (!test::eventually([&] { return control.reader_ready.load(); })) throw Failure("no reader came");
  pace(load, [&](std::size_t) {
    const auto piece = piece_of_now();
    socket.send(zmq::const_buffer(piece.data(), piece.size()), zmq::send_flags::none);
  });
}

void run_bare_reader(const Load& load, Control& control) {
  zmq::context_t context;
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::rcvhwm, 0);
  socket.connect(control.front.data());
  socket.send(zmq::str_buffer("here"), zmq::send_flags::none);
  zmq::message_t piece;
  for (std::size_t i = 0; i < load.all(); ++i) {
    static_cast<void>(socket.recv(piece));
    control.add_sample(time_of(piece.to_string_view()));
  }
}

// ---- runs ---------------------------------------------------------------------------------------------

/// Of one run, in microseconds.
struct Figures {
  double p50 = 0, p99 = 0, max = 0;
  std::size_t lost = 0, late = 0;
  double broker_cpu = 0;  ///< of the one between the ends, for each piece
};

Figures figures_of(const Load& load, const Control& control, pid_t broker) {
  const std::size_t count = control.received;
  std::vector<std::uint32_t> samples(control.samples_ns.begin(), control.samples_ns.begin() + count);
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double part) {
    return samples.empty() ? 0.0
                           : samples[static_cast<std::size_t>(part * static_cast<double>(count - 1))] / 1e3;
  };
  const auto in_time = std::upper_bound(samples.begin(), samples.end(), load.cadence.count());
  return {.p50 = at(0.5),
          .p99 = at(0.99),
          .max = at(1),
          .lost = load.all() - std::min(count, load.all()),
          .late = static_cast<std::size_t>(samples.end() - in_time),
          .broker_cpu = cpu_seconds_of(broker) * 1e6 / static_cast<double>(load.all())};
}

Figures run_lanemq(const Load& load, const std::string& program) {
  Shared<Control> control;
  Children children;
  const BrokerProcess broker =
      children.start_broker({program, "--clients", "tcp://127.0.0.1:*", "--workers", "tcp://127.0.0.1:*",
                             "--admin", "tcp://127.0.0.1:*", "--store", "memory"});
  children.fork_end("lanemq worker", [&] { run_worker(broker.workers, load, *control); });
  children.wait_until(
      "the worker is ready", [&] { return control->worker_ready.load(); }, kPreparation);
  const pid_t reader =
      children.fork_end("lanemq reader", [&] { run_reader(broker.clients, load, *control); });
  children.wait_for_end(reader, kPatience + load.cadence * static_cast<std::int64_t>(load.pieces));
  return figures_of(load, *control, broker.pid);
}

Figures run_bare(const Load& load) {
  Shared<Control> control;
  Children children;
  const pid_t loop = children.fork_end("bare loop", [&] { run_bare_loop(*control); });
  children.wait_until(
      "the bare loop is bound", [&] { return control->bound.load(); }, kPreparation);
  const pid_t reader = children.fork_end("bare reader", [&] { run_bare_reader(load, *control); });
  children.fork_end("bare worker", [&] { run_bare_worker(load, *control); });
  children.wait_for_end(reader, kPatience + load.cadence * static_cast<std::int64_t>(load.pieces));
  return figures_of(load, *control, loop);
}

void print_row(const char* name, const Figures& figures) {
  std::printf(
      "  %-16s p50 %7.0f µs  p99 %7.0f µs  max %7.0f µs  lost %zu  late %zu  broker's CPU %.1f µs a piece\n",
      name, figures.p50, figures.p99, figures.max, figures.lost, figures.late, figures.broker_cpu);
}

/// Whether nothing was lost.
bool measure(const Load& load, const std::string& program) {
  const OthersMeter others;
  const Figures before = run_bare(load);
  const Figures lanemq = run_lanemq(load, program);
  const Figures after = run_bare(load);
  std::printf("%s: %zu streams, a piece of %zu bytes every %.0f ms in each, %zu pieces\n", load.name,
              load.streams, kPieceBytes, Seconds(load.cadence).count() * 1e3, load.all());
  print_row("bare loop", before);
  print_row("lanemq", lanemq);
  print_row("bare loop again", after);
  std::printf("  added            p50 %7.0f µs  p99 %7.0f µs\n", lanemq.p50 - (before.p50 + after.p50) / 2,
              lanemq.p99 - (before.p99 + after.p99) / 2);
  std::printf("  others used %.2f cores meanwhile\n", others.cores());
  std::fflush(stdout);
  return lanemq.lost == 0;
}

int run(int argc, char** argv) {
  std::filesystem::path bin = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  double seconds = 5;
  std::size_t streams = kStreamsMax;
  CLI::App app("How long a piece of a streamed answer takes, beside a bare ROUTER loop.");
  app.add_option("--bin", bin, "The directory of lanemq-broker; this program's own where not given");
  app.add_option("--seconds", seconds, "How long each run lasts")
      ->check(CLI::Range(0.1, 60.0))
      ->capture_default_str();
  app.add_option("--streams", streams, "Of the run with many")
      ->check(CLI::Range(std::size_t{1}, kStreamsMax))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const std::string program = std::filesystem::absolute(bin) / "lanemq-broker";
  const auto pieces = [&](nanoseconds cadence) {
    return static_cast<std::size_t>(Seconds(seconds) / cadence);
  };
  constexpr std::chrono::milliseconds kOne{1}, kMany{20};
  const bool one = measure({"one", 1, kOne, pieces(kOne)}, program);
  const bool many = measure({"many", streams, kMany, pieces(kMany)}, program);
  return one && many ? 0 : 1;
}

}  // namespace
}  // namespace lanemq::bench

int main(int argc, char** argv) {
  try {
    return lanemq::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_streams: %s\n", error.what());
    return 1;
  }
}
