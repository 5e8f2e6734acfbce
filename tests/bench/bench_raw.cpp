// SPDX-License-Identifier: Apache-2.0
//
// bench_raw: the bare libzmq broker, which is the limit that any broker on libzmq is held against.
//
//   bench_raw [--urgent-first] [--reserved N] [--batch N]
//
// Two ROUTER sockets without high-water marks, no headers, one deque, credit: a worker says once how many
// jobs it holds at once and gets as many; each reply frees a place. Nothing is parsed, checked for its
// content, indexed, timed or kept. The priority workload alone asks for more: with --urgent-first jobs of
// JobKind::probe wait in a deque of their own that goes first, and with --reserved N worker N takes nothing
// else.
//
//   client -> broker [body]                        answered with the same; an empty body at once
//   worker -> broker ["", capacity as int32]       once, answered with ["", ""]
//   broker -> worker [client's routing id, body]   answered with the same two frames
//
// With --batch over 1 up to N jobs stand in a message of a client, [body body ...], and of a worker, [(one
// byte with the size of the client's id, that id, body) ...]: what comes is split to single jobs, and what
// goes to one worker or client in a turn leaves together.
//
// Prints `ready clients=EP workers=EP` as lanemq-broker does, on ports that the system picks, and runs until
// it is killed. A message of another shape ends it: the ends are ours, and a figure with an error in it is
// none.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <zmq.hpp>

#include "tests/bench/bench_keys.hpp"
#include "tests/bench/job_body.hpp"

namespace lanemq::bench {
namespace {

constexpr std::size_t kWorkersMax = 256;        // a worker's number is one byte of its routing id
constexpr std::size_t kQueuedMax = 20'000'000;  // jobs in a deque; beyond it the machine's memory is at stake
constexpr int kMessagesPerTurnMax = 1000;       // from one socket, before the other one has its turn
constexpr int kNoWorker = -1;

struct Options {
  bool urgent_first = false;
  int reserved = kNoWorker;
  std::size_t batch = 1;
};

/// A job in a batch, and its place in a message to a worker.
struct Packed {
  std::string client;
  std::array<char, kBodyBytes> body;
};

/// What goes to one peer as one message.
struct Group {
  std::string to, bytes;
  std::size_t jobs = 0;
};

struct Job {
  zmq::message_t client;
  zmq::message_t body;
};

class BareBroker {
 public:
  explicit BareBroker(const Options& options) : options_(options), clients_(listen()), workers_(listen()) {}

  void print_ready_line() const {
    std::printf("ready clients=%s workers=%s\n", clients_.get(zmq::sockopt::last_endpoint).c_str(),
                workers_.get(zmq::sockopt::last_endpoint).c_str());
    std::fflush(stdout);
  }

  [[noreturn]] void run() {
    std::array<zmq::pollitem_t, 2> items = {
        {{clients_.handle(), 0, ZMQ_POLLIN, 0}, {workers_.handle(), 0, ZMQ_POLLIN, 0}}};
    for (;;) {
      const bool from_workers = options_.batch > 1 ? take_batches_from_workers() : take_from_workers();
      const bool from_clients = options_.batch > 1 ? take_batches_from_clients() : take_from_clients();
      if (options_.batch > 1)
        dispatch_batches();
      else
        dispatch();
      if (!from_workers && !from_clients)
        zmq::poll(items.data(), items.size(), std::chrono::milliseconds(-1));
    }
  }

 private:
  zmq::socket_t listen() {
    zmq::socket_t socket(context_, zmq::socket_type::router);
    socket.set(zmq::sockopt::linger, 0);
    socket.set(zmq::sockopt::sndhwm, 0);
    socket.set(zmq::sockopt::rcvhwm, 0);
    ask_for_keys(socket);
    socket.bind("tcp://127.0.0.1:*");
    return socket;
  }

  static void take_next_frame(zmq::socket_t& socket, const zmq::message_t& before, zmq::message_t& frame) {
    if (!before.more() || !socket.recv(frame, zmq::recv_flags::none))
      throw std::runtime_error("a frame is missing");
  }

  bool take_from_workers() {
    for (int taken = 0; taken < kMessagesPerTurnMax; ++taken) {
      if (!workers_.recv(routing_id_, zmq::recv_flags::dontwait)) return taken > 0;
      take_next_frame(workers_, routing_id_, client_);
      take_next_frame(workers_, client_, body_);
      if (body_.more() || routing_id_.size() != 2) throw std::runtime_error("a worker sent another shape");
      const std::size_t worker = static_cast<unsigned char>(routing_id_.data<char>()[1]);
      if (client_.empty()) {
        welcome(worker);
        continue;
      }
      ++credit_[worker];
      clients_.send(client_, zmq::send_flags::sndmore);
      clients_.send(body_, zmq::send_flags::none);
    }
    return true;
  }

  void welcome(std::size_t worker) {
    std::int32_t capacity = 0;
    if (body_.size() != sizeof capacity) throw std::runtime_error("a worker said no capacity");
    std::memcpy(&capacity, body_.data(), sizeof capacity);
    if (known_.size() == kWorkersMax) throw std::runtime_error("more workers than kWorkersMax");
    credit_[worker] = capacity;
    known_.push_back(worker);
    workers_.send(routing_id_, zmq::send_flags::sndmore);
    workers_.send(zmq::const_buffer(), zmq::send_flags::sndmore);
    workers_.send(zmq::const_buffer(), zmq::send_flags::none);
  }

  bool take_from_clients() {
    for (int taken = 0; taken < kMessagesPerTurnMax; ++taken) {
      if (!clients_.recv(client_, zmq::recv_flags::dontwait)) return taken > 0;
      take_next_frame(clients_, client_, body_);
      if (body_.more()) throw std::runtime_error("a client sent another shape");
      if (body_.empty()) {
        clients_.send(client_, zmq::send_flags::sndmore);
        clients_.send(zmq::const_buffer(), zmq::send_flags::none);
        continue;
      }
      if (body_.size() != kBodyBytes) throw std::runtime_error("a client sent a body of another size");
      const bool urgent = options_.urgent_first && kind_of(body_.data()) == JobKind::probe;
      std::deque<Job>& queue = urgent ? urgent_ : queue_;
      if (queue.size() == kQueuedMax) throw std::runtime_error("more jobs queued than kQueuedMax");
      queue.push_back({std::move(client_), std::move(body_)});
    }
    return true;
  }

  // ---- in batches

  bool take_batches_from_workers() {
    for (int taken = 0; taken < kMessagesPerTurnMax; ++taken) {
      if (!workers_.recv(routing_id_, zmq::recv_flags::dontwait)) return taken > 0;
      take_next_frame(workers_, routing_id_, body_);
      if (routing_id_.size() != 2) throw std::runtime_error("a worker sent another shape");
      const std::size_t worker = static_cast<unsigned char>(routing_id_.data<char>()[1]);
      if (body_.more()) {
        take_next_frame(workers_, body_, client_);
        std::swap(body_, client_);
        welcome(worker);
        continue;
      }
      for (std::size_t at = 0; at < body_.size();) {
        const char* const item = body_.data<char>() + at;
        const std::size_t id_bytes = static_cast<unsigned char>(*item);
        at += 1 + id_bytes + kBodyBytes;
        if (at > body_.size()) throw std::runtime_error("a worker sent another shape");
        add(to_clients_, clients_, {item + 1, id_bytes}, {item + 1 + id_bytes, kBodyBytes});
        ++credit_[worker];
      }
    }
    return true;
  }

  bool take_batches_from_clients() {
    for (int taken = 0; taken < kMessagesPerTurnMax; ++taken) {
      if (!clients_.recv(client_, zmq::recv_flags::dontwait)) return taken > 0;
      take_next_frame(clients_, client_, body_);
      if (body_.more() || body_.empty() || body_.size() % kBodyBytes != 0)
        throw std::runtime_error("a client sent another shape");
      if (packed_.size() > kQueuedMax) throw std::runtime_error("more jobs queued than kQueuedMax");
      for (std::size_t at = 0; at < body_.size(); at += kBodyBytes) {
        Packed& job = packed_.emplace_back();
        job.client = client_.to_string_view();
        std::memcpy(job.body.data(), body_.data<char>() + at, kBodyBytes);
      }
    }
    return true;
  }

  void dispatch_batches() {
    while (!packed_.empty()) {
      const int worker = pick_worker(false);
      if (worker == kNoWorker) break;
      --credit_[static_cast<std::size_t>(worker)];
      const Packed& job = packed_.front();
      std::string item(1, static_cast<char>(job.client.size()));
      item.append(job.client).append(job.body.data(), kBodyBytes);
      const std::array<char, 2> routing_id{'W', static_cast<char>(worker)};
      add(to_workers_, workers_, {routing_id.data(), routing_id.size()}, item);
      packed_.pop_front();
    }
    for (auto* groups : {&to_workers_, &to_clients_})
      for (Group& group : *groups)
        send(groups == &to_workers_ ? workers_ : clients_, group);
  }

  /// There are few peers: a list is the quickest index of them.
  void add(std::vector<Group>& groups, zmq::socket_t& socket, std::string_view to, std::string_view bytes) {
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& one) { return one.to == to; });
    if (group == groups.end()) group = groups.insert(groups.end(), Group{.to = std::string(to), .bytes = {}});
    group->bytes.append(bytes);
    if (++group->jobs == options_.batch) send(socket, *group);
  }

  static void send(zmq::socket_t& socket, Group& group) {
    if (group.jobs == 0) return;
    socket.send(zmq::const_buffer(group.to.data(), group.to.size()), zmq::send_flags::sndmore);
    socket.send(zmq::const_buffer(group.bytes.data(), group.bytes.size()), zmq::send_flags::none);
    group.bytes.clear();
    group.jobs = 0;
  }

  void dispatch() {
    while (!urgent_.empty() && send_first_of(urgent_)) {
    }
    while (urgent_.empty() && !queue_.empty() && send_first_of(queue_)) {
    }
  }

  bool send_first_of(std::deque<Job>& queue) {
    const int worker = pick_worker(&queue == &urgent_);
    if (worker == kNoWorker) return false;
    --credit_[static_cast<std::size_t>(worker)];
    const std::array<char, 2> routing_id{'W', static_cast<char>(worker)};
    workers_.send(zmq::const_buffer(routing_id.data(), routing_id.size()), zmq::send_flags::sndmore);
    workers_.send(queue.front().client, zmq::send_flags::sndmore);
    workers_.send(queue.front().body, zmq::send_flags::none);
    queue.pop_front();
    return true;
  }

  /// The next worker in turn that has a free place.
  int pick_worker(bool urgent) {
    for (std::size_t tried = 0; tried < known_.size(); ++tried) {
      turn_ = (turn_ + 1) % known_.size();
      const std::size_t worker = known_[turn_];
      const bool may = urgent || static_cast<int>(worker) != options_.reserved;
      if (may && credit_[worker] > 0) return static_cast<int>(worker);
    }
    return kNoWorker;
  }

  const Options options_;
  zmq::context_t context_;
  zmq::socket_t clients_;
  zmq::socket_t workers_;
  std::deque<Job> queue_;
  std::deque<Job> urgent_;
  std::deque<Packed> packed_;
  std::vector<Group> to_workers_, to_clients_;
  std::array<std::int32_t, kWorkersMax> credit_ = {};
  std::vector<std::size_t> known_;
  std::size_t turn_ = 0;
  zmq::message_t routing_id_;
  zmq::message_t client_;
  zmq::message_t body_;
};

[[noreturn]] void end_with_usage() {
  std::fprintf(stderr, "usage: bench_raw [--urgent-first] [--reserved N] [--batch N]\n");
  std::exit(2);
}

Options parse(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    if (argument == "--urgent-first") {
      options.urgent_first = true;
    } else if ((argument == "--reserved" || argument == "--batch") && i + 1 < count) {
      const std::string_view number = arguments[++i];
      int value = 0;
      const auto read = std::from_chars(number.data(), number.data() + number.size(), value);
      if (read.ec != std::errc() || value < 0) end_with_usage();
      if (argument == "--reserved")
        options.reserved = value;
      else
        options.batch = static_cast<std::size_t>(value);
    } else {
      end_with_usage();
    }
  }
  return options;
}

}  // namespace
}  // namespace lanemq::bench

int main(int count, char** arguments) try {
  lanemq::bench::BareBroker broker(lanemq::bench::parse(count, arguments));
  broker.print_ready_line();
  broker.run();
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_raw: %s\n", error.what());
  return 1;
}
