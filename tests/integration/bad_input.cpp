// SPDX-License-Identifier: Apache-2.0
// Sends mutated and random messages to both sockets of a running broker while a good client and a good worker
// go on beside it, and checks that every broken message got its one answer, that the good traffic was
// answered whole, and that the broker did not grow. Usage: bad_input --clients EP --workers EP --pid N
// [--frames N] [--seed N]
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include <getopt.h>
#include <unistd.h>
#include <zmq.hpp>

#include <lanemq/codec.hpp>
#include <lanemq/text.hpp>

#include "tests/fuzz/frames.hpp"

namespace {

using namespace lanemq;
using Clock = std::chrono::steady_clock;
using Frames = std::vector<std::string>;

constexpr auto kPatience = std::chrono::seconds(60);
constexpr std::size_t kOutstandingMax = 500;  ///< broken messages that wait for their answers
constexpr std::uint64_t kFramesPerConnection = 20'000;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kMemoryFactor = 5;  // a sanitizer keeps a shadow of what a program touches
#else
constexpr std::size_t kMemoryFactor = 1;
#endif
constexpr std::size_t kGrowthMax = kMemoryFactor * (std::size_t{64} << 20);
constexpr char kGoodService[] = "good";

struct Arguments {
  std::string clients, workers;
  int pid = 0;
  std::uint64_t frames = 100'000, seed = 1;
};

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what);
}

zmq::socket_t connect(zmq::context_t& context, const std::string& endpoint) {
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  socket.set(zmq::sockopt::linger, 0);
  socket.connect(endpoint);
  return socket;
}

bool send(zmq::socket_t& socket, const Frames& frames) {
  for (std::size_t i = 0; i < frames.size(); ++i) {
    // Once the first frame is in, libzmq takes the rest.
    const auto more = i + 1 < frames.size() ? zmq::send_flags::sndmore : zmq::send_flags::none;
    if (!socket.send(zmq::buffer(frames[i]), zmq::send_flags::dontwait | more)) return false;
  }
  return true;
}

template <class Message>
bool say(zmq::socket_t& socket, const Message& message, std::string_view body = {}) {
  Buffer buffer;
  encode(message, body, buffer);
  return send(socket, {std::string(buffer.view())});
}

/// The next message, or nothing within the time.
bool receive(zmq::socket_t& socket, Frames& frames, std::chrono::milliseconds wait) {
  zmq::pollitem_t item{socket.handle(), 0, ZMQ_POLLIN, 0};
  if (zmq::poll(&item, 1, wait) == 0) return false;
  frames.clear();
  zmq::message_t frame;
  do {
    (void)socket.recv(frame);
    frames.emplace_back(frame.to_string());
  } while (frame.more());
  return true;
}

std::size_t resident_bytes(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  std::size_t total = 0, resident = 0;
  if (!(file >> total >> resident)) fail("the broker is gone");
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

// ---- good traffic -------------------------------------------------------------------------------------

/// A worker of its own service that answers each job with the job's body.
void work(zmq::context_t& context, const std::string& endpoint, const std::atomic<bool>& over) {
  zmq::socket_t socket = connect(context, endpoint);
  Decoder decoder;
  wire::WorkerCommand command;
  std::map<std::uint64_t, std::int64_t> unanswered;
  wire::Ready ready;
  ready.services = {kGoodService};
  ready.capacity = 16;
  say(socket, ready);
  auto heartbeat = Clock::now();
  Frames frames;
  while (!over) {
    if (Clock::now() >= heartbeat) {
      wire::Heartbeat inventory;
      for (const auto& [job, attempt] : unanswered)
        inventory.jobs.push_back({job, attempt});
      say(socket, inventory);
      heartbeat = Clock::now() + std::chrono::milliseconds(200);
    }
    if (!receive(socket, frames, std::chrono::milliseconds(20))) continue;
    if (const DecodeError* error = decoder.decode(frames[0], command))
      fail("the broker said: " + error->message);
    if (const auto* job = std::get_if<wire::JobOffer>(&command)) {
      unanswered[job->job] = job->attempt;
      say(socket, wire::Outcome{job->job, job->attempt, {}, {}}, decoder.body());
    } else if (const auto* acked = std::get_if<wire::Acked>(&command)) {
      for (const wire::Lease& lease : acked->jobs)
        unanswered.erase(lease.job);
    } else if (std::holds_alternative<wire::WorkerRefusal>(command)) {
      fail("the good worker was refused: " + std::string(std::get<wire::WorkerRefusal>(command).message));
    }
  }
}

struct GoodTraffic {
  std::uint64_t answered = 0;
  std::vector<double> milliseconds;
};

/// One job after the other until it is over; each has to come back whole.
void ask(zmq::context_t& context, const std::string& endpoint, const std::atomic<bool>& over,
         GoodTraffic& traffic) {
  zmq::socket_t socket = connect(context, endpoint);
  Decoder decoder;
  wire::ClientReply reply;
  Buffer storage;
  Frames frames;
  while (!over) {
    wire::Submit submit;
    submit.service = kGoodService;
    submit.lane = "critical";
    submit.ref = number_ref(traffic.answered, storage);
    const std::string body = "good job " + std::to_string(traffic.answered);
    const auto start = Clock::now();
    if (!say(socket, submit, body)) fail("a good submit could not be sent");
    if (!receive(socket, frames, kPatience)) fail("a good job got no answer");
    if (const DecodeError* error = decoder.decode(frames[0], reply))
      fail("the broker said: " + error->message);
    const auto* result = std::get_if<wire::JobResult>(&reply);
    if (result == nullptr) fail("a good job failed: " + printable(frames[0]));
    if (decoder.body() != body || ref_number(result->ref) != traffic.answered)
      fail("a good job got a wrong answer");
    const std::chrono::duration<double, std::milli> took = Clock::now() - start;
    traffic.milliseconds.push_back(took.count());
    ++traffic.answered;
  }
}

// ---- bad traffic --------------------------------------------------------------------------------------

/// What the broker has to make of a message.
enum class Fate : unsigned char {
  understood,  ///< well-formed: any answer will do, or none
  refused,     ///< one error with the envelope in front
  nameless     ///< one error without an envelope: no header was found
};

/// Sends messages of one direction on one socket and matches the answers. Each message bears its number in an
/// envelope frame, which comes back.
template <class Message>
class Nuisance {
 public:
  Nuisance(zmq::context_t& context, std::string endpoint, fuzz::Direction direction, std::uint64_t seed)
      : context_(context),
        endpoint_(std::move(endpoint)),
        seeds_(fuzz::seed_frames(direction)),
        mutator_(seed),
        socket_(connect(context_, endpoint_)) {}

  void run(std::uint64_t messages) {
    for (std::uint64_t i = 0; i < messages; ++i) {
      if (i % kFramesPerConnection == kFramesPerConnection - 1) reconnect();
      const Frames frames = make();
      note(fate_of(frames));
      const auto deadline = Clock::now() + kPatience;
      while (!send(socket_, frames)) {
        if (Clock::now() > deadline) fail("the broker takes no more messages");
        take_answer(std::chrono::milliseconds(10));
      }
      while (take_answer(std::chrono::milliseconds(0))) {
      }
      if (refused_.size() + nameless_ >= kOutstandingMax) settle(kOutstandingMax / 2);
    }
    settle(0);
  }
  std::uint64_t broken() const { return broken_; }
  std::uint64_t understood() const { return understood_; }

 private:
  Frames make() {
    Frames frames{tag()};
    const std::size_t shape = mutator_.below(64);
    for (std::size_t hops = shape < 8 ? shape : 0; hops > 0; --hops)
      frames.push_back(std::string(mutator_.below(shape == 7 ? 1500 : 4), 'h'));
    frames.push_back(mutator_.next(seeds_));
    if (shape % 4 == 0) frames.push_back(std::string(mutator_.below(9000), 'b'));
    if (shape == 9) frames.push_back("one more");
    return frames;
  }
  std::string tag() {
    const std::string number = std::to_string(++number_);
    return "tag " + number;
  }

  /// The rules of the page, applied here too.
  Fate fate_of(const Frames& frames) {
    std::size_t header = 0, envelope = 0;
    for (; header < frames.size() && !is_header(frames[header]); ++header) {
      envelope += frames[header].size() + 2;
      if (header + 1 > limits::envelope_frames_max || envelope > limits::envelope_bytes_max)
        return Fate::nameless;
    }
    if (header == frames.size()) return Fate::nameless;
    const std::size_t behind = frames.size() - header - 1;
    if (behind > 1 || (behind == 1 && has_inline_body(frames[header]))) return Fate::refused;
    const std::optional<std::string_view> body =
        behind == 1 ? std::optional<std::string_view>(frames[header + 1]) : std::nullopt;
    // A batch may be refused for its number or item by item: its answers are as good as any.
    return decoder_.decode(frames[header], body, items_) == nullptr ? Fate::understood : Fate::refused;
  }
  void note(Fate fate) {
    if (fate == Fate::understood) {
      ++understood_;
      return;
    }
    ++broken_;
    if (fate == Fate::nameless)
      ++nameless_;
    else
      refused_.insert("tag " + std::to_string(number_));
  }

  void settle(std::size_t outstanding) {
    const auto deadline = Clock::now() + kPatience;
    while (refused_.size() + nameless_ > outstanding) {
      if (Clock::now() > deadline)
        fail(std::to_string(refused_.size() + nameless_) + " broken messages got no answer, for example " +
             (refused_.empty() ? "one without a header" : *refused_.begin()));
      take_answer(std::chrono::milliseconds(100));
    }
  }
  bool take_answer(std::chrono::milliseconds wait) {
    Frames frames;
    if (!receive(socket_, frames, wait)) return false;
    const Refusal answer = refusal_in(frames);
    const bool refused = answer.code == "bad_request" || answer.code == "too_large";
    if (frames[0].starts_with("tag ")) {
      if (refused_.erase(frames[0]) > 0 && !refused)
        fail("a broken message was not refused: " + printable(frames[0]));
    } else if (refused && answer.message.find("frame") != std::string_view::npos) {
      // Without a tag it is about the frames themselves; a `ready` that is refused has none either.
      if (nameless_ == 0) fail("an answer that nobody asked for: " + printable(frames[0]));
      --nameless_;
    }
    return true;
  }

  struct Refusal {
    std::string_view code, message;
  };
  /// What an answer that is an error says.
  Refusal refusal_in(const Frames& frames) {
    for (const std::string& frame : frames) {
      if (!is_header(frame)) continue;
      if constexpr (std::is_same_v<Message, wire::ClientRequest>) {
        if (answers_.decode(frame, {}, replies_) != nullptr) fail("a broken answer: " + printable(frame));
        if (const auto* error = std::get_if<wire::ErrorReply>(&replies_[0]))
          return {error->code, error->message};
      } else {
        if (answers_.decode(frame, {}, commands_) != nullptr) fail("a broken answer: " + printable(frame));
        if (const auto* error = std::get_if<wire::WorkerRefusal>(&commands_[0]))
          return {error->code, error->message};
      }
      return {};
    }
    fail("an answer without a header: " + printable(frames[0]));
  }
  void reconnect() {
    settle(0);
    socket_ = connect(context_, endpoint_);
  }

  zmq::context_t& context_;
  std::string endpoint_;
  std::vector<std::string> seeds_;
  fuzz::Mutator mutator_;
  zmq::socket_t socket_;
  Decoder decoder_, answers_;
  Items<Message> items_;
  Items<wire::ClientReply> replies_;
  Items<wire::WorkerCommand> commands_;
  std::uint64_t number_ = 0, broken_ = 0, understood_ = 0;
  std::unordered_set<std::string> refused_;
  std::size_t nameless_ = 0;
};

// ---- the whole ----------------------------------------------------------------------------------------

Arguments parse(int argc, char** argv) {
  static const option kOptions[] = {
      {"clients", required_argument, nullptr, 'c'}, {"workers", required_argument, nullptr, 'w'},
      {"pid", required_argument, nullptr, 'p'},     {"frames", required_argument, nullptr, 'f'},
      {"seed", required_argument, nullptr, 's'},    {nullptr, 0, nullptr, 0}};
  Arguments arguments;
  for (int key = 0; (key = getopt_long(argc, argv, "", kOptions, nullptr)) != -1;) {
    if (key == 'c')
      arguments.clients = optarg;
    else if (key == 'w')
      arguments.workers = optarg;
    else if (key == 'p')
      arguments.pid = std::atoi(optarg);
    else if (key == 'f')
      arguments.frames = std::strtoull(optarg, nullptr, 10);
    else if (key == 's')
      arguments.seed = std::strtoull(optarg, nullptr, 10);
    else
      std::exit(2);
  }
  if (arguments.clients.empty() || arguments.workers.empty() || arguments.pid == 0) {
    std::fprintf(stderr, "usage: bad_input --clients EP --workers EP --pid N [--frames N] [--seed N]\n");
    std::exit(2);
  }
  return arguments;
}

/// Runs `body`; the first thread that fails ends the program, as the others would wait for nothing.
template <class Body>
std::thread start(Body body) {
  return std::thread([body] {
    try {
      body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "bad_input: %s\n", error.what());
      std::_Exit(1);
    }
  });
}

double quantile(std::vector<double>& values, double share) {
  if (values.empty()) return 0;
  const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}

void run(const Arguments& arguments) {
  zmq::context_t context;
  std::atomic<bool> over{false};
  GoodTraffic good;
  std::thread worker = start([&] { work(context, arguments.workers, over); });
  std::thread client = start([&] { ask(context, arguments.clients, over, good); });

  Nuisance<wire::ClientRequest> to_clients(context, arguments.clients, fuzz::Direction::client_to_broker,
                                           arguments.seed);
  Nuisance<wire::WorkerReport> to_workers(context, arguments.workers, fuzz::Direction::worker_to_broker,
                                          arguments.seed + 1);
  // What the first frames bring with them (pools, buffers, tables) is no growth.
  const std::uint64_t warm_up = arguments.frames / 10;
  start([&] { to_clients.run(warm_up / 2); }).join();
  start([&] { to_workers.run(warm_up / 2); }).join();
  const std::size_t before = resident_bytes(arguments.pid);
  const auto started = Clock::now();
  std::thread first = start([&] { to_clients.run((arguments.frames - warm_up) / 2); });
  std::thread second = start([&] { to_workers.run((arguments.frames - warm_up) / 2); });
  first.join();
  second.join();
  const std::chrono::duration<double> took = Clock::now() - started;
  over = true;
  client.join();
  worker.join();
  const std::size_t after = resident_bytes(arguments.pid);

  std::printf("broken %llu  understood %llu  %.0f/s\n",
              static_cast<unsigned long long>(to_clients.broken() + to_workers.broken()),
              static_cast<unsigned long long>(to_clients.understood() + to_workers.understood()),
              static_cast<double>(arguments.frames - warm_up) / took.count());
  std::printf("good jobs %llu  p50 %.2f ms  p99 %.2f ms  max %.2f ms\n",
              static_cast<unsigned long long>(good.answered), quantile(good.milliseconds, 0.5),
              quantile(good.milliseconds, 0.99), quantile(good.milliseconds, 1));
  std::printf("resident before %zu KiB, after %zu KiB\n", before / 1024, after / 1024);
  if (good.answered == 0) fail("no good job was answered");
  if (after > before + kGrowthMax)
    fail("the broker grew by more than " + std::to_string(kGrowthMax >> 20) + " MiB");
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse(argc, argv);
  try {
    run(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bad_input: %s\n", error.what());
    std::fflush(stdout);
    std::_Exit(1);
  }
  return 0;
}
