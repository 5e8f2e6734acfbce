// SPDX-License-Identifier: Apache-2.0
//
// bench_exec: what the worker's exec handler is measured beside, and with.
//
//   bench_exec spawn --count N --window W --size B PROGRAM   a bare loop: posix_spawn(), the body into a
//   pipe, the
//                                                            answer and stderr out of two, waitpid(); prints
//                                                            the rate
//   bench_exec pool                                          a process of a pool that answers each job with
//   its body
//
// tests/bench/exec.py runs both beside a worker.
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

void require(bool done, const char* what) {
  if (!done) throw std::runtime_error(std::string(what) + " failed");
}

/// A program that runs; its pipes are closed one by one.
struct Run {
  pid_t pid = 0;
  int output = -1, errors = -1;
  std::size_t came = 0;

  bool reads() const { return output >= 0 || errors >= 0; }
};

Run spawn(const std::string& program, const std::string& body) {
  int input[2], output[2], errors[2];
  require(pipe2(input, O_CLOEXEC) == 0 && pipe2(output, O_CLOEXEC) == 0 && pipe2(errors, O_CLOEXEC) == 0,
          "pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input[0], 0);
  posix_spawn_file_actions_adddup2(&actions, output[1], 1);
  posix_spawn_file_actions_adddup2(&actions, errors[1], 2);
  std::string name = program;
  char* const arguments[] = {name.data(), nullptr};
  Run run{.pid = 0, .output = output[0], .errors = errors[0]};
  require(posix_spawn(&run.pid, program.c_str(), &actions, nullptr, arguments, environ) == 0, "posix_spawn");
  posix_spawn_file_actions_destroy(&actions);
  for (const int end : {input[0], output[1], errors[1]})
    close(end);
  require(write(input[1], body.data(), body.size()) == static_cast<ssize_t>(body.size()), "write");
  close(input[1]);
  return run;
}

/// Reads what is there; closes the descriptor at its end.
void drain(int& descriptor, std::size_t& came) {
  static std::array<char, 65536> bytes;
  const ssize_t size = read(descriptor, bytes.data(), bytes.size());
  if (size > 0) {
    came += static_cast<std::size_t>(size);
    return;
  }
  close(descriptor);
  descriptor = -1;
}

/// Programs a second.
double spawn_all(const std::string& program, std::size_t count, std::size_t window, std::size_t size) {
  using Clock = std::chrono::steady_clock;
  const std::string body(size, 'x');
  std::vector<Run> runs;
  std::vector<pollfd> polled;
  std::size_t started = 0, ended = 0;
  const auto began = Clock::now();
  while (ended < count) {
    while (runs.size() < window && started < count) {
      runs.push_back(spawn(program, body));
      ++started;
    }
    polled.clear();
    for (const Run& run : runs) {
      polled.push_back({run.output, POLLIN, 0});
      polled.push_back({run.errors, POLLIN, 0});
    }
    require(poll(polled.data(), polled.size(), -1) > 0 || errno == EINTR, "poll");
    std::size_t ignored = 0;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (polled[2 * i].revents != 0) drain(runs[i].output, runs[i].came);
      if (polled[2 * i + 1].revents != 0) drain(runs[i].errors, ignored);
    }
    ended += std::erase_if(runs, [&](const Run& run) {
      if (run.reads()) return false;
      int status = 0;
      require(waitpid(run.pid, &status, 0) == run.pid && status == 0 && run.came == size, "the program");
      return true;
    });
  }
  return static_cast<double>(count) / std::chrono::duration<double>(Clock::now() - began).count();
}

/// The number behind `"name":` of a job's line, or the text of its body with its quotes.
std::string_view value_of(std::string_view line, std::string_view name, char end) {
  const std::size_t begin = line.find(name) + name.size();
  return line.substr(begin, line.find(end, begin + 1) - begin + (end == '"'));
}

/// Answers what one read has brought by one write. Knows of JSON as much as this benchmark's jobs need.
void answer_lines() {
  std::string unread, answers;
  std::array<char, 65536> bytes;
  for (ssize_t size; (size = read(0, bytes.data(), bytes.size())) > 0;) {
    unread.append(bytes.data(), static_cast<std::size_t>(size));
    std::size_t at = 0;
    for (std::size_t end; (end = unread.find('\n', at)) != std::string::npos; at = end + 1) {
      const std::string_view line = std::string_view(unread).substr(at, end - at);
      if (!line.starts_with("{\"op\":\"job\"")) continue;
      answers.append("{\"op\":\"result\",\"job\":").append(value_of(line, "\"job\":", ','));
      answers.append(",\"attempt\":").append(value_of(line, "\"attempt\":", ','));
      answers.append(",\"body\":").append(value_of(line, "\"body\":", '"')).append("}\n");
    }
    unread.erase(0, at);
    for (std::size_t said = 0; said < answers.size();) {
      const ssize_t count = write(1, answers.data() + said, answers.size() - said);
      if (count < 0) return;
      said += static_cast<std::size_t>(count);
    }
    answers.clear();
  }
}

}  // namespace

int main(int argc, char** argv) try {
  CLI::App app("What the worker's exec handler is measured beside, and with", "bench_exec");
  app.require_subcommand(1);
  std::size_t count = 2000, window = 16, size = 128;
  std::string program;
  CLI::App* const bare = app.add_subcommand("spawn", "A bare loop of posix_spawn()");
  bare->add_option("--count", count, "Programs")->capture_default_str();
  bare->add_option("--window", window, "Programs at once")->capture_default_str();
  bare->add_option("--size", size, "Bytes of each body, 60000 at most")->capture_default_str();
  bare->add_option("program", program, "Its path; it writes what it reads")->required();
  CLI::App* const pool = app.add_subcommand("pool", "A process of a pool");
  CLI11_PARSE(app, argc, argv);
  std::signal(SIGPIPE, SIG_IGN);
  if (*pool) answer_lines();
  if (*bare) std::printf("%.1f\n", spawn_all(program, count, window, size));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_exec: %s\n", error.what());
  return 1;
}
