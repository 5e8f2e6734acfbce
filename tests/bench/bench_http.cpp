// SPDX-License-Identifier: Apache-2.0
//
// bench_http: one load on one HTTP server, measured from outside. tests/bench/gateway.py runs it against the
// upstream double with nothing, lanemq-gateway or another gateway between, and compares.
//
//   calls    Each connection posts a chat completion, waits for the whole answer, and posts the next.
//   streams  Each connection posts one chat completion with "stream": true and takes the events as they come.
//            The double makes them at a fixed cadence; how late an event is, is told against the cadence that
//            starts with the earliest of its stream. When one came, the system says, which notes it with the
//            bytes; so the load looks once a millisecond for what is there, and leaves the cores, which it
//            shares with what it measures, alone: to wake for each event would cost more than to take it.
//
// Prints one JSON line. Anything but the answer that was asked for is counted as bad; a connection that
// breaks is made again.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/bench/pace.hpp"

namespace lanemq::bench {
namespace {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Arrival = std::chrono::system_clock::time_point;  ///< The clock of what the system notes.
using Microseconds = std::chrono::duration<double, std::micro>;

constexpr int kExitFailed = 1;
constexpr std::size_t kReadBytes = std::size_t{64} * 1024;
constexpr int kEventsMax = 256;
constexpr std::chrono::milliseconds kLookEvery{1};  ///< streams: for what came meanwhile

struct Arguments {
  std::string mode = "calls", path = "/v1/chat/completions", model = "gpt-x";
  std::vector<std::string> headers;
  int port = 0, connections = 1, events = 100;
  double seconds = 3, warmup = 0.5, cadence_ms = 20, timeout = 60, spread_seconds = 1;
};

/// An HTTP/1.1 response as it comes in: where its body's bytes are and when it is whole. Knows what servers
/// answer here: content-length or chunked.
class Response {
 public:
  /// Takes what was read; `body` gets what of it belongs to the body. True when the response is whole; bytes
  /// of a next one are not expected.
  bool take(std::string_view bytes, std::string& body) {
    if (!head_done_) {
      head_.append(bytes);
      const std::size_t end = head_.find("\r\n\r\n");
      if (end == std::string::npos) return false;
      const std::string rest = head_.substr(end + 4);
      head_.resize(end + 2);
      read_head();
      head_done_ = true;
      return take_body(rest, body);
    }
    return take_body(bytes, body);
  }
  int status() const { return status_; }
  bool begun() const { return !head_.empty(); }
  bool closes() const { return closes_; }
  void reset() { *this = Response(); }

 private:
  static bool same_letters(std::string_view a, std::string_view b) {
    return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
  }

  void read_head() {
    status_ = head_.size() > 12 ? std::atoi(head_.c_str() + 9) : 0;
    for (std::size_t at = head_.find("\r\n") + 2; at < head_.size();) {
      const std::size_t end = head_.find("\r\n", at), colon = head_.find(':', at);
      if (colon == std::string::npos || colon > end) break;
      const std::string_view name = std::string_view(head_).substr(at, colon - at);
      std::string_view value = std::string_view(head_).substr(colon + 1, end - colon - 1);
      while (!value.empty() && value.front() == ' ')
        value.remove_prefix(1);
      if (same_letters(name, "content-length")) left_ = std::strtoull(value.data(), nullptr, 10);
      if (same_letters(name, "transfer-encoding")) chunked_ = true;
      if (same_letters(name, "connection") && same_letters(value, "close")) closes_ = true;
      at = end + 2;
    }
  }

  bool take_body(std::string_view bytes, std::string& body) {
    if (!chunked_) {
      const std::size_t taken = std::min<std::size_t>(left_, bytes.size());
      body.append(bytes.substr(0, taken));
      left_ -= taken;
      return left_ == 0;
    }
    while (!bytes.empty()) {
      if (left_ > 0) {
        const std::size_t taken = std::min<std::size_t>(left_, bytes.size());
        body.append(bytes.substr(0, taken));
        left_ -= taken;
        bytes.remove_prefix(taken);
        continue;
      }
      // A chunk's end, its size and the line behind it, byte by byte: they are few.
      const char c = bytes.front();
      bytes.remove_prefix(1);
      if (c == '\r') continue;
      if (c != '\n') {
        line_ += c;
        continue;
      }
      if (last_) {
        if (line_.empty()) return true;
        line_.clear();
        continue;
      }
      if (line_.empty()) continue;
      left_ = std::strtoull(line_.c_str(), nullptr, 16);
      last_ = left_ == 0;
      line_.clear();
    }
    return false;
  }

  std::string head_, line_;
  int status_ = 0;
  bool head_done_ = false, chunked_ = false, closes_ = false, last_ = false;
  std::uint64_t left_ = 0;
};

class Connection {
 public:
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  Connection(int epoll, int port, std::size_t number) : epoll_(epoll), port_(port), number_(number) {}
  ~Connection() {
    if (socket_ >= 0) close(socket_);
  }

  void open() {
    if (socket_ >= 0) close(socket_);
    socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port_));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int one = 1;
    if (socket_ < 0 || connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error(std::string("cannot connect: ") + std::strerror(errno));
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = number_;
    epoll_ctl(epoll_, EPOLL_CTL_ADD, socket_, &event);
    response_.reset();
  }
  void ask(const std::string& request) {
    asked_ = Clock::now();
    // Requests are small: they fit into the socket.
    if (write(socket_, request.data(), request.size()) != static_cast<ssize_t>(request.size()))
      throw std::runtime_error("cannot send a request");
  }
  /// What could be read now, 0 at the end of the connection.
  std::size_t read_some(char* into) {
    const ssize_t got = read(socket_, into, kReadBytes);
    return got > 0 ? static_cast<std::size_t>(got) : 0;
  }
  /// Has the system note when bytes arrive.
  void note_arrivals() {
    const int one = 1;
    if (setsockopt(socket_, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one) != 0)
      throw std::runtime_error("the system does not tell when bytes arrive");
  }
  /// The same, and when the last byte of it arrived. Requires: note_arrivals().
  std::size_t read_some(char* into, Arrival& arrived) {
    iovec bytes{.iov_base = into, .iov_len = kReadBytes};
    alignas(cmsghdr) char beside[128];
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = beside;
    message.msg_controllen = sizeof beside;
    const ssize_t got = recvmsg(socket_, &message, 0);
    if (got <= 0) return 0;
    arrived = std::chrono::system_clock::now();
    for (cmsghdr* one = CMSG_FIRSTHDR(&message); one; one = CMSG_NXTHDR(&message, one)) {
      if (one->cmsg_level != SOL_SOCKET || one->cmsg_type != SCM_TIMESTAMPNS) continue;
      timespec time{};
      std::memcpy(&time, CMSG_DATA(one), sizeof time);
      arrived = Arrival(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
    }
    return static_cast<std::size_t>(got);
  }

  Response& response() { return response_; }
  TimePoint asked() const { return asked_; }
  std::string body{};
  std::vector<Arrival> events{};  ///< of a stream: when each came
  std::size_t counted = 0;        ///< bytes of the body that were looked at
  bool over = false;

 private:
  int epoll_, port_, socket_ = -1;
  std::size_t number_;
  TimePoint asked_{};
  Response response_;
};

double percentile(std::vector<double>& values, double share) {
  if (values.empty()) return 0;
  const auto rank = static_cast<std::size_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(rank), values.end());
  return values[rank];
}

std::string request_of(const Arguments& arguments, std::size_t number) {
  std::string body = R"({"model":")" + arguments.model + R"(","max_tokens":)" +
                     std::to_string(arguments.events) +
                     (arguments.mode == "streams" ? R"(,"stream":true)" : "") +
                     R"(,"messages":[{"role":"user","content":"question )" + std::to_string(number) + " " +
                     std::string(100, 'x') + R"("}]})";
  std::string head = "POST " + arguments.path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" +
                     "Content-Type: application/json\r\nAuthorization: Bearer sk-bench\r\n";
  for (const std::string& header : arguments.headers)
    head += header + "\r\n";
  return head + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

class Load {
 public:
  explicit Load(const Arguments& arguments) : arguments_(arguments), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    for (int i = 0; i < arguments.connections; ++i) {
      connections_.push_back(
          std::make_unique<Connection>(epoll_, arguments.port, static_cast<std::size_t>(i)));
      requests_.push_back(request_of(arguments, static_cast<std::size_t>(i)));
    }
  }
  ~Load() { close(epoll_); }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  void run_calls() {
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      connections_[i]->open();
      connections_[i]->ask(requests_[i]);
    }
    const TimePoint begin = Clock::now() + to_clock(arguments_.warmup);
    const TimePoint end = begin + to_clock(arguments_.seconds);
    std::vector<double> took;
    std::size_t bad = 0;
    while (Clock::now() < end) {
      for_each_readable([&](std::size_t number) {
        Connection& connection = *connections_[number];
        const std::size_t got = connection.read_some(buffer_);
        const bool whole = got > 0 && connection.response().take({buffer_, got}, connection.body);
        if (got > 0 && !whole) return;
        const TimePoint now = Clock::now();
        const bool good = whole && connection.response().status() == 200 &&
                          connection.body.find("\"choices\"") != std::string::npos;
        if (!good && bad++ == 0)
          std::fprintf(stderr, "bench_http: status %d: %.300s\n", connection.response().status(),
                       connection.body.c_str());
        if (good && now >= begin) took.push_back(Microseconds(now - connection.asked()).count());
        const bool again = !whole || connection.response().closes();
        connection.response().reset();
        connection.body.clear();
        if (again) connection.open();
        connection.ask(requests_[number]);
      });
    }
    std::printf(R"({"calls":%zu,"bad":%zu,"rate":%.1f,"p50_us":%.1f,"p99_us":%.1f})"
                "\n",
                took.size(), bad, static_cast<double>(took.size()) / arguments_.seconds,
                percentile(took, 0.5), percentile(took, 0.99));
  }

  void run_streams() {
    const TimePoint begin = Clock::now();
    const TimePoint give_up = begin + to_clock(arguments_.timeout);
    const double step = arguments_.spread_seconds / static_cast<double>(connections_.size());
    std::size_t asked = 0, over = 0;
    while (over < connections_.size() && Clock::now() < give_up) {
      // Begun one after the other: all at once would be a burst that no cadence has.
      while (asked < connections_.size() &&
             Clock::now() >= begin + to_clock(step * static_cast<double>(asked))) {
        connections_[asked]->open();
        connections_[asked]->note_arrivals();
        connections_[asked]->ask(requests_[asked]);
        ++asked;
      }
      const TimePoint next_look = Clock::now() + kLookEvery;
      for_each_readable([&](std::size_t number) { over += read_stream(*connections_[number]) ? 1 : 0; });
      wait_for_due(next_look);
    }
    report_streams();
  }

 private:
  static Clock::duration to_clock(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }

  template <class Read>
  void for_each_readable(Read read) {
    epoll_event events[kEventsMax];
    int ready = 0;
    do {
      ready = epoll_wait(epoll_, events, kEventsMax, ready == kEventsMax ? 0 : 1);
      for (int i = 0; i < ready; ++i)
        read(events[i].data.u64);
    } while (ready == kEventsMax);
  }

  /// True when the stream is over with this.
  bool read_stream(Connection& connection) {
    Arrival arrived{};
    const std::size_t got = connection.read_some(buffer_, arrived);
    const bool whole = got > 0 && connection.response().take({buffer_, got}, connection.body);
    std::size_t at = connection.counted;
    while ((at = connection.body.find("\n\n", at)) != std::string::npos) {
      connection.counted = at += 2;
      connection.events.push_back(arrived);
    }
    if ((got > 0 && !whole) || connection.over) return false;
    connection.over = true;
    return true;
  }

  void report_streams() {
    std::vector<double> late;
    std::size_t events = 0, whole = 0, bad = 0;
    std::size_t fewest = SIZE_MAX, most = 0;
    for (const auto& connection : connections_) {
      const std::vector<Arrival>& at = connection->events;
      events += at.size();
      fewest = std::min(fewest, at.size());
      most = std::max(most, at.size());
      const bool good = connection->over && connection->response().status() == 200 &&
                        connection->body.ends_with("data: [DONE]\n\n");
      if (!good && bad++ == 0)
        std::fprintf(
            stderr, "bench_http: a stream ended with status %d after %zu events: ...%s\n",
            connection->response().status(), at.size(),
            connection->body
                .substr(connection->body.size() - std::min<std::size_t>(connection->body.size(), 300))
                .c_str());
      whole += good ? 1 : 0;
      // The first event, a role, comes with the second or before it; the last ones (finish, usage, end) come
      // together. None of them has a cadence.
      const std::size_t timed = std::min(at.size(), static_cast<std::size_t>(arguments_.events));
      if (timed < 2) continue;
      std::vector<double> offset;
      for (std::size_t i = 1; i < timed; ++i)
        offset.push_back(Microseconds(at[i] - at[1]).count() -
                         static_cast<double>(i) * arguments_.cadence_ms * 1000);
      const double earliest = *std::min_element(offset.begin(), offset.end());
      for (const double o : offset)
        late.push_back(o - earliest);
    }
    std::printf(
        R"({"streams":%zu,"whole":%zu,"bad":%zu,"events":%zu,"events_min":%zu,"events_max":%zu,"late_p50_us":%.1f,"late_p99_us":%.1f,"late_max_us":%.1f})"
        "\n",
        connections_.size(), whole, bad, events, fewest, most, percentile(late, 0.5), percentile(late, 0.99),
        percentile(late, 1));
  }

  const Arguments& arguments_;
  int epoll_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::string> requests_;
  char buffer_[kReadBytes];
};

int run(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("One HTTP load, measured from outside.");
  app.add_option("mode", arguments.mode)->check(CLI::IsMember({"calls", "streams"}))->required();
  app.add_option("--port", arguments.port, "Of 127.0.0.1")->required();
  app.add_option("--path", arguments.path, "What is posted to")->capture_default_str();
  app.add_option("--model", arguments.model, "Asked for")->capture_default_str();
  app.add_option("--header", arguments.headers, "'Name: value', may be repeated");
  app.add_option("--connections", arguments.connections, "At once")
      ->capture_default_str()
      ->check(CLI::Range(1, 20000));
  app.add_option("--events", arguments.events, "max_tokens of a call")->capture_default_str();
  app.add_option("--seconds", arguments.seconds, "calls: how long is measured")->capture_default_str();
  app.add_option("--warmup", arguments.warmup, "calls: seconds before that")->capture_default_str();
  app.add_option("--cadence-ms", arguments.cadence_ms, "streams: between two events")->capture_default_str();
  app.add_option("--spread-seconds", arguments.spread_seconds, "streams: all are begun within")
      ->capture_default_str();
  app.add_option("--timeout", arguments.timeout, "streams: seconds until the rest is given up")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  const auto load = std::make_unique<Load>(arguments);
  if (arguments.mode == "calls")
    load->run_calls();
  else
    load->run_streams();
  return 0;
}

}  // namespace
}  // namespace lanemq::bench

int main(int argc, char** argv) {
  try {
    return lanemq::bench::run(argc, argv);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "bench_http: %s\n", failure.what());
    return lanemq::bench::kExitFailed;
  }
}
