// SPDX-License-Identifier: Apache-2.0
#include "common/plugin/probe.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <string_view>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lanemq::plugin {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kVerdictMax = 2048;
/// What the probe writes for a plugin that can be used; nothing else that it writes begins so.
constexpr std::string_view kGood = "good\n";

/// In the probe's process: runs the attempt and writes the verdict.
[[noreturn]] void run_attempt(int verdict_pipe, pid_t parent, const std::function<void()>& attempt) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  dup2(STDERR_FILENO, STDOUT_FILENO);  // the program's first line is for programs
  std::string verdict;
  try {
    attempt();
    verdict = kGood;
  } catch (const std::exception& error) {
    verdict = error.what();
  }
  verdict.resize(std::min(verdict.size(), kVerdictMax));
  const ssize_t written = write(verdict_pipe, verdict.data(), verdict.size());
  _exit(written == static_cast<ssize_t>(verdict.size()) ? 0 : 1);
}

/// Reads until the other end is closed. None: it is still open when the time is over.
std::optional<std::string> read_all(int pipe, milliseconds at_most) {
  const Clock::time_point until = Clock::now() + at_most;
  std::string text;
  while (true) {
    const auto left = std::chrono::duration_cast<milliseconds>(until - Clock::now());
    pollfd item{.fd = pipe, .events = POLLIN, .revents = 0};
    const int ready = left.count() > 0 ? poll(&item, 1, static_cast<int>(left.count())) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::nullopt;
    std::array<char, kVerdictMax> bytes;
    const ssize_t got = read(pipe, bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(bytes.data(), static_cast<std::size_t>(got));
  }
}

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

std::string end_of(int status) {
  if (WIFSIGNALED(status))
    return "it crashes: signal " + std::to_string(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) +
           ")";
  return "it ends its process, with exit code " + std::to_string(WEXITSTATUS(status));
}

std::string no_process(int error) {
  return std::string("no process could be made to try it: ") + std::strerror(error);
}

}  // namespace

std::optional<std::string> why_not(const std::function<void()>& attempt, milliseconds at_most) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return no_process(errno);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    run_attempt(ends[1], parent, attempt);
  }
  const int failed = errno;
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return no_process(failed);
  }
  const std::optional<std::string> verdict = read_all(ends[0], at_most);
  close(ends[0]);
  if (!verdict) kill(child, SIGKILL);
  const int status = wait_for(child);
  if (!verdict)
    return "it is not ready within " + std::to_string(at_most.count()) +
           " ms; let create() return, and work later";
  if (*verdict == kGood) return std::nullopt;
  return verdict->empty() ? end_of(status) : *verdict;
}

}  // namespace lanemq::plugin
